"""Running programs: capture output and exit status, pass variables, start and stop processes."""

from envs.terminal import checks
from envs.terminal.draw import Draft, Draw, Group, text

GROUP = Group("processes")


def _script(body: str) -> dict[str, str]:
    return {"text": f"#!/bin/sh\n{body}\n", "mode": "755"}


@GROUP.template("easy")
def save_output(d: Draw) -> Draft:
    script, out, line = d.file("sh"), d.file(), d.phrase()
    say = d.say(
        "Run ./{s} and save its output in {o}.",
        "Write what ./{s} prints to {o}.",
        "Run the script ./{s}; its output belongs in {o}.",
        s=script,
        o=out,
    )
    files = {script: _script(f"echo {line} | tr a-z A-Z")}
    return Draft(
        say,
        (f"./{script} > {out}",),
        [checks.file(out, line.upper(), "lines"), *checks.unchanged(files)],
        files,
        alternatives=((f"bash {script} | tee {out}",),),
    )


@GROUP.template("easy")
def save_exit_status(d: Draw) -> Draft:
    script, out, code = d.file("sh"), d.file(), d.number(1, 60)
    files = {script: _script(f"echo {d.word()}\nexit {code}")}
    say = d.say(
        "Run ./{s} and write its exit status to {o}.",
        "Save the exit code of ./{s} in {o}.",
        "With what status does ./{s} exit? Write the number to {o}.",
        s=script,
        o=out,
    )
    return Draft(
        say,
        (f"./{script}; echo $? > {out}",),
        [checks.number(out, code), *checks.unchanged(files)],
        files,
        alternatives=((f"sh {script} > /dev/null; code=$?; printf $code > {out}",),),
    )


@GROUP.template("easy")
def pass_variable(d: Draw) -> Draft:
    script, out, value = d.file("sh"), d.file(), d.word()
    name = d.rng.choice(["COLOR", "MODE", "USERNAME", "LEVEL", "TARGET"])
    files = {script: _script(f"echo {name} is ${name}")}
    say = d.say(
        "Run ./{s} with the variable {n} set to {v} and save its output in {o}.",
        "Set {n}={v} for ./{s} and write what it prints to {o}.",
        "Run ./{s} with {n}={v} in its environment; save the output in {o}.",
        s=script,
        n=name,
        v=value,
        o=out,
    )
    return Draft(
        say,
        (f"{name}={value} ./{script} > {out}",),
        [checks.file(out, f"{name} is {value}", "lines"), *checks.unchanged(files)],
        files,
        alternatives=((f"export {name}={value}", f"./{script} > {out}"),),
    )


@GROUP.template("easy", heldout=True)
def save_errors(d: Draw) -> Draft:
    script, out, line, error = d.file("sh"), d.file(), d.phrase(), d.phrase()
    files = {script: _script(f"echo {line}\necho {error} >&2")}
    say = d.say(
        "Run ./{s} and save only its standard error in {o}.",
        "Write what ./{s} prints to stderr, and nothing else, to {o}.",
        "Save just the error output of ./{s} in {o}.",
        s=script,
        o=out,
    )
    return Draft(
        say,
        (f"./{script} 2> {out}",),
        [checks.file(out, error, "lines"), *checks.unchanged(files)],
        files,
        alternatives=((f"./{script} 2>&1 >/dev/null | cat > {out}",),),
    )


@GROUP.template("medium")
def run_each(d: Draw) -> Draft:
    script, out, words = d.file("sh"), d.file(), d.words(3, 4)
    files = {script: _script('echo "$1" | rev')}
    say = d.say(
        "Run ./{s} once for each argument {w}, in this order; collect all output in {o}.",
        "Call ./{s} with {w}, one at a time and in this order, and save all it prints in {o}.",
        "For each of {w} run ./{s} with it as argument; put the outputs in order into {o}.",
        s=script,
        w=", ".join(words),
        o=out,
    )
    return Draft(
        say,
        (f"for w in {' '.join(words)}; do ./{script} $w; done > {out}",),
        [checks.file(out, text([word[::-1] for word in words]), "lines")],
        files,
        alternatives=(tuple(f"./{script} {word} >> {out}" for word in words),),
    )


@GROUP.template("medium")
def start_process(d: Draw) -> Draft:
    out, seconds = d.file("pid"), d.number(1000, 9999)
    say = d.say(
        "Start 'sleep {n}' in the background and write its process id to {o}.",
        "Run sleep {n} in the background; save its PID in {o}.",
        "Leave 'sleep {n}' running in the background, with its process id in {o}.",
        n=seconds,
        o=out,
    )
    return Draft(
        say,
        (f"sleep {seconds} & echo $! > {out}",),
        [checks.process(["sleep", str(seconds)], running=True, pid_file=out)],
        alternatives=(
            (f"nohup sleep {seconds} > /dev/null 2>&1 &", f"pgrep -f 'sleep {seconds}' > {out}"),
        ),
    )


@GROUP.template("medium")
def stop_process(d: Draw) -> Draft:
    gone, kept = d.numbers(2, 1000, 9999)
    say = d.say(
        "Stop the running process 'sleep {g}'; leave the other sleep alone.",
        "Two sleep processes are running. End only 'sleep {g}'.",
        "Kill the process 'sleep {g}' and no other.",
        g=gone,
    )
    return Draft(
        say,
        (f"pkill -f 'sleep {gone}'",),
        [
            checks.process(["sleep", str(gone)], running=False),
            checks.process(["sleep", str(kept)], running=True) | {"guard": True},
        ],
        setup=f"setsid sleep {gone} & setsid sleep {kept} &",
        alternatives=((f"kill -9 $(ps ax | awk '/slee[p] {gone}/ {{print $1}}')",),),
    )


@GROUP.template("medium", heldout=True)
def find_process(d: Draw) -> Draft:
    out, seconds = d.file(), d.number(1000, 9999)
    say = d.say(
        "A sleep process is running. Write the number of seconds it was started with to {o}.",
        "For how many seconds was the running sleep process started? Save the number in {o}.",
        "Find the running 'sleep N' process and write its N to {o}.",
        o=out,
    )
    return Draft(
        say,
        (f"ps -C sleep -o args= | awk '{{print $2}}' > {out}",),
        [checks.number(out, seconds)],
        setup=f"setsid sleep {seconds} & until pgrep -x sleep; do sleep 0.05; done",
        alternatives=((f"pgrep -a sleep | cut -d' ' -f3 > {out}",),),
    )


@GROUP.template("hard")
def failing_scripts(d: Draw) -> Draft:
    folder, out = d.noun(), d.file()
    names = sorted(d.file("sh") for _ in range(d.number(4, 6)))
    bad = sorted(d.rng.sample(names, 2))
    files = {
        f"{folder}/{n}": _script(f"echo {d.word()}\nexit {d.number(1, 9) if n in bad else 0}")
        for n in names
    }
    say = d.say(
        "Run every script in {f}. Write the names of those that exit with a status other than 0 "
        "to {o}, sorted, one per line.",
        "Which scripts in {f} fail (exit status not 0)? Write their names in order to {o}, one "
        "per line.",
        "Run all scripts of {f} and list in {o} the names of the failing ones, sorted.",
        f=folder,
        o=out,
    )
    return Draft(
        say,
        (f'for s in {folder}/*.sh; do "$s" > /dev/null || basename "$s"; done > {out}',),
        [checks.file(out, text(bad), "names"), *checks.unchanged(files)],
        files,
    )
