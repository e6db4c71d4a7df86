"""Permissions: change modes, find files by mode."""

from envs.terminal import checks
from envs.terminal.draw import Draft, Draw, Group, text

GROUP = Group("permissions")
SCRIPT = "#!/bin/sh\necho {}\n"


@GROUP.template("trivial")
def make_executable(d: Draw) -> Draft:
    path, body = d.path("sh"), SCRIPT.format(d.word())
    say = d.say(
        "Make {p} executable.",
        "Give {p} execute permission.",
        "Set the executable bit of {p}.",
        p=path,
    )
    return Draft(
        say,
        (f"chmod +x {path}",),
        [checks.mode(path, has="100"), *checks.unchanged({path: body})],
        {path: body},
        alternatives=((f"chmod 755 {path}",), (f"chmod u+x {path}",)),
    )


@GROUP.template("easy")
def set_mode(d: Draw) -> Draft:
    path, mode = d.path(), d.rng.choice(["600", "640", "400", "664", "700", "750", "444", "660"])
    body = text(d.lines(1, 2))
    say = d.say(
        "Set the permissions of {p} to {m}.",
        "Change the mode of {p} to {m}.",
        "Give {p} the permissions {m}.",
        p=path,
        m=mode,
    )
    return Draft(say, (f"chmod {mode} {path}",), [checks.mode(path, mode)], {path: body})


@GROUP.template("easy")
def make_private(d: Draw) -> Draft:
    path, body = d.path(), text(d.lines(1, 2))
    say = d.say(
        "Make {p} readable and writable by its owner only (mode 600).",
        "Let only the owner read and write {p}: mode 600.",
        "Protect {p}: mode 600.",
        p=path,
    )
    return Draft(
        say,
        (f"chmod 600 {path}",),
        [checks.mode(path, "600")],
        {path: body},
        alternatives=((f"chmod go-rwx {path}",), (f"chmod u=rw,go= {path}",)),
    )


@GROUP.template("easy", heldout=True)
def make_read_only(d: Draw) -> Draft:
    path, body = d.path(), text(d.lines(1, 2))
    say = d.say(
        "Remove write permission on {p} for everyone.",
        "Make {p} read-only for all, the owner too.",
        "Nobody should be allowed to write to {p}; remove that permission.",
        p=path,
    )
    return Draft(
        say,
        (f"chmod a-w {path}",),
        [checks.mode(path, has="400", lacks="222")],
        {path: body},
        alternatives=((f"chmod 444 {path}",), (f"chmod -w {path}",)),
    )


@GROUP.template("medium")
def executable_scripts(d: Draw) -> Draft:
    folder = d.noun()
    scripts = {f"{folder}/{d.file('sh')}": SCRIPT.format(d.word()) for _ in range(d.number(2, 4))}
    others = {f"{folder}/{d.file()}": text(d.lines(1, 1)) for _ in range(2)}
    say = d.say(
        "Make all .sh files in {f} executable, but no other file.",
        "Give every .sh file of {f} execute permission; leave the other files alone.",
        "In {f}, set the executable bit of the .sh files only.",
        f=folder,
    )
    return Draft(
        say,
        (f"chmod +x {folder}/*.sh",),
        [
            *(checks.mode(path, has="100") for path in scripts),
            *(checks.mode(path, "644") | {"guard": True} for path in others),
        ],
        scripts | others,
        alternatives=((f"find {folder} -name '*.sh' | xargs chmod 755",),),
    )


@GROUP.template("medium")
def tree_modes(d: Draw) -> Draft:
    top, inner, f_mode = d.noun(), d.noun(), d.rng.choice(["640", "600", "664"])
    d_mode = d.rng.choice(["750", "700"])
    files = [f"{top}/{d.file()}", f"{top}/{inner}/{d.file()}", f"{top}/{inner}/{d.file()}"]
    say = d.say(
        "Set every folder in {t} (and {t} itself) to mode {d}, every file below to mode {f}.",
        "In {t}, recursively, give folders (with {t}) mode {d} and files mode {f}.",
        "Change modes below {t}: {d} for {t} and all its folders, {f} for all files.",
        t=top,
        d=d_mode,
        f=f_mode,
    )
    return Draft(
        say,
        (
            f"find {top} -type f -exec chmod {f_mode} {{}} +",
            f"find {top} -type d -exec chmod {d_mode} {{}} +",
        ),
        [
            *(checks.mode(path, f_mode) for path in files),
            *(checks.mode(path, d_mode) for path in (top, f"{top}/{inner}")),
        ],
        {path: text(d.lines(1, 1)) for path in files},
        alternatives=(
            (f"chmod {d_mode} {top} {top}/{inner}", f"chmod {f_mode} {top}/*.txt {top}/*/*"),
        ),
    )


@GROUP.template("medium")
def list_executables(d: Draw) -> Draft:
    folder, out = d.noun(), d.file()
    yes = [d.file("sh") for _ in range(d.number(2, 3))]
    no = [d.file("sh") for _ in range(2)]
    files = {
        f"{folder}/{name}": {
            "text": SCRIPT.format(d.word()),
            "mode": "755" if name in yes else "644",
        }
        for name in sorted(yes + no)
    }
    say = d.say(
        "Write the names of the executable files in {f} to {o}, one per line.",
        "Which files in {f} are executable? List their names, one per line, in {o}.",
        "Find the files with execute permission in {f}; save their names, one per line, in {o}.",
        f=folder,
        o=out,
    )
    return Draft(
        say,
        (f"find {folder} -type f -executable > {out}",),
        [checks.file(out, text(yes), "names")],
        files,
        alternatives=((f'for f in {folder}/*; do [ -x "$f" ] && basename $f; done > {out}',),),
    )


@GROUP.template("hard", heldout=True)
def copy_modes(d: Draw) -> Draft:
    a, b = d.noun(), d.noun()
    names = [d.file() for _ in range(d.number(3, 5))]
    modes = {name: d.rng.choice(["600", "640", "755", "700", "444"]) for name in names}
    body = {name: text(d.lines(1, 1)) for name in names}
    files = {f"{a}/{n}": {"text": body[n], "mode": modes[n]} for n in names}
    files |= {f"{b}/{n}": {"text": body[n].upper(), "mode": "644"} for n in names}
    say = d.say(
        "{a} and {b} hold files of the same names. Give each file in {b} the permissions of its "
        "namesake in {a}; contents stay.",
        "For every file in {a}, set the mode of the file with the same name in {b} to the same "
        "value without changing its text.",
        "Copy the file modes (not the contents) from {a} to the files of the same name in {b}.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f'for f in {a}/*; do chmod --reference="$f" {b}/$(basename "$f"); done',),
        [
            *(checks.mode(f"{b}/{n}", modes[n]) for n in names),
            *(checks.file(f"{b}/{n}", body[n].upper(), "text", guard=True) for n in names),
        ],
        files,
        alternatives=((f"cd {a}", f"for f in *; do chmod $(stat -c %a $f) ../{b}/$f; done"),),
    )
