"""Small programs the agent writes or repairs; they are run on inputs it has not seen."""

from envs.terminal import checks
from envs.terminal.draw import Draft, Draw, Group, text

GROUP = Group("scripts")


def _write(path: str, *body: str) -> tuple[str, str]:
    """Commands that write an executable bash script."""
    lines = "\n".join(["#!/bin/bash", *body])
    return f"cat > {path} <<'END'\n{lines}\nEND", f"chmod +x {path}"


@GROUP.template("medium")
def script_uppercase(d: Draw) -> Draft:
    path, words = d.file("sh"), d.words(3)
    say = d.say(
        "Write an executable script {p} that prints its first argument in upper case.",
        "Create the script {p}: './{p} word' prints WORD. Make it executable.",
        "Make an executable {p} which prints its argument in capital letters.",
        p=path,
    )
    return Draft(
        say,
        _write(path, 'echo "$1" | tr a-z A-Z'),
        [checks.runs([path, word], word.upper()) for word in words],
        alternatives=(
            (f"printf '#!/bin/bash\\necho ${{1^^}}\\n' > {path}", f"chmod 755 {path}"),
            (
                f"echo '#!/usr/bin/env python3' > {path}",
                f"echo 'import sys; print(sys.argv[1].upper())' >> {path}",
                f"chmod +x {path}",
            ),
        ),
    )


@GROUP.template("medium")
def script_greeting(d: Draw) -> Draft:
    path, greeting, people = d.file("sh"), d.word(), d.people(3)
    say = d.say(
        "Write an executable script {p} that prints '{g}, NAME' for the name given as argument.",
        "Create an executable {p}: './{p} {n}' prints '{g}, {n}', likewise for any other name.",
        "Make an executable script {p} which takes a name and prints '{g}, ' and the name.",
        p=path,
        g=greeting,
        n=people[0],
    )
    return Draft(
        say,
        _write(path, f'echo "{greeting}, $1"'),
        [checks.runs([path, name], f"{greeting}, {name}") for name in people],
    )


@GROUP.template("medium")
def script_sum(d: Draw) -> Draft:
    path = d.file("sh")
    cases = [d.numbers(n) for n in (1, 3, 5)]
    say = d.say(
        "Write an executable script {p} that prints the sum of its arguments (integers).",
        "Create an executable {p}; called with any number of integers it prints their sum.",
        "Make the script {p}, executable: it adds up all its arguments and prints the result.",
        p=path,
    )
    return Draft(
        say,
        _write(path, "s=0", 'for n in "$@"; do s=$((s + n)); done', "echo $s"),
        [checks.runs([path, *map(str, case)], str(sum(case)), how="number") for case in cases],
    )


@GROUP.template("medium", heldout=True)
def script_largest(d: Draw) -> Draft:
    path = d.file("sh")
    cases = [d.numbers(n, 1, 999) for n in (1, 4, 6)]
    say = d.say(
        "Write an executable script {p} that prints the largest of its arguments (integers).",
        "Create an executable {p}; called with some positive integers it prints the maximum.",
        "Make the script {p}, executable: it prints the biggest of the numbers it is given.",
        p=path,
    )
    return Draft(
        say,
        _write(path, 'printf "%s\\n" "$@" | sort -n | tail -n 1'),
        [checks.runs([path, *map(str, case)], str(max(case)), how="number") for case in cases],
    )


@GROUP.template("medium")
def script_filter(d: Draw) -> Draft:
    path, word = d.file("sh"), d.word()
    cases = [[*d.lines(4, 6), f"{word} {d.word()}"] for _ in range(2)]
    say = d.say(
        "Write an executable script {p} that reads standard input and prints the number of lines "
        "containing {w}.",
        "Create an executable {p}: it counts the lines of its standard input that contain {w} and "
        "prints the number.",
        "Make the script {p}, executable, which prints how many lines on stdin contain {w}.",
        p=path,
        w=word,
    )
    goals = [
        checks.runs([path], str(sum(word in line for line in case)), stdin=text(case), how="number")
        for case in cases
    ]
    return Draft(say, _write(path, f"grep -c {word}"), goals)


@GROUP.template("hard")
def script_multiples(d: Draw) -> Draft:
    path, word, step = d.file("sh"), d.word(), d.number(3, 5)

    def expected(top: int) -> str:
        return text([word if i % step == 0 else str(i) for i in range(1, top + 1)])

    say = d.say(
        "Write an executable script {p}: './{p} N' prints the numbers 1 to N, one per line, with "
        "{w} instead of every multiple of {k}.",
        "Create an executable {p} that takes N and prints 1 to N line by line, but {w} in place "
        "of multiples of {k}.",
        "Make the script {p}, executable. Given N it prints 1..N, each on a line; multiples of "
        "{k} are replaced by {w}.",
        p=path,
        w=word,
        k=step,
    )
    loop = f"for i in $(seq $1); do (( i % {step} )) && echo $i || echo {word}; done"
    return Draft(
        say,
        _write(path, loop),
        [checks.runs([path, str(top)], expected(top)) for top in (step - 1, 2 * step, 13)],
    )


@GROUP.template("hard")
def script_palindrome(d: Draw) -> Draft:
    path, half, other = d.file("sh"), d.word(), d.word()
    say = d.say(
        "Write an executable script {p} that prints yes if its argument reads the same backwards, "
        "else no.",
        "Create an executable {p}: it prints yes for a palindrome given as argument and no for "
        "any other word.",
        "Make the script {p}, executable, which tells by yes or no whether its argument is a "
        "palindrome.",
        p=path,
    )
    return Draft(
        say,
        _write(path, '[ "$1" = "$(echo "$1" | rev)" ] && echo yes || echo no'),
        [
            checks.runs([path, half + half[::-1]], "yes"),
            checks.runs([path, other], "no"),
            checks.runs([path, half[:2] + half[:1]], "yes"),
            checks.runs([path, half[:1] + other + half[:1] + "x"], "no"),
        ],
    )


@GROUP.template("hard", heldout=True)
def script_reverse_words(d: Draw) -> Draft:
    path, cases = d.file("sh"), [d.words(1), d.words(3), d.words(5)]
    say = d.say(
        "Write an executable script {p} that prints its arguments in reverse order on one line, "
        "with single blanks between.",
        "Create an executable {p}: './{p} a b c' prints 'c b a', likewise for any number of "
        "arguments.",
        "Make the script {p}, executable; it prints all its arguments from the last to the first, "
        "separated by blanks.",
        p=path,
    )
    return Draft(
        say,
        _write(path, 'out=""', 'for w in "$@"; do out="$w $out"; done', "echo $out"),
        [checks.runs([path, *case], " ".join(reversed(case))) for case in cases],
    )


@GROUP.template("hard")
def fix_script(d: Draw) -> Draft:
    path, kind = d.file("sh"), d.number(0, 2)
    goal, wrong, right = (
        (
            "prints the numbers from 1 to its argument",
            "i=1\nwhile [ $i -lt $1 ]; do\n  echo $i\n  i=$((i + 1))\ndone",
            "s/-lt/-le/",
        ),
        (
            "prints the sum of its arguments",
            's=0\nfor n in "$@"; do\n  s=$n\ndone\necho $s',
            "s/s=\\$n/s=$((s + n))/",
        ),
        (
            "prints its arguments one per line",
            'for a in "$1"; do\n  echo "$a"\ndone',
            's/"\\$1"/"$@"/',
        ),
    )[kind]
    say = d.say(
        "The script {p} should do this: it {g}. It has a bug; fix it.",
        "Repair {p}: it {g}, or should.",
        "{p} is broken. Correct it so that it {g}.",
        p=path,
        g=goal,
    )
    runs = []
    for size in (3, 5):
        numbers = d.numbers(size, 3, 9)
        args = [str(numbers[0])] if kind == 0 else [str(n) for n in numbers]
        want = [text(list(range(1, numbers[0] + 1))), str(sum(numbers)), text(args)][kind]
        runs.append(checks.runs([path, *args], want))
    files = {path: {"text": f"#!/bin/bash\n{wrong}\n", "mode": "755"}}
    return Draft(say, (f"sed -i '{right}' {path}",), runs, files)


@GROUP.template("hard", heldout=True)
def script_default(d: Draw) -> Draft:
    path, (word, default, other) = d.file("sh"), d.words(3)
    say = d.say(
        "Write an executable script {p} that prints '{w} ARG' for its argument ARG, and "
        "'{w} {e}' without argument.",
        "Create an executable {p}: with an argument X it prints '{w} X', with none '{w} {e}'.",
        "Make the script {p}, executable. It prints {w}, a blank and its argument, or {e} where "
        "no argument is given.",
        p=path,
        w=word,
        e=default,
    )
    return Draft(
        say,
        _write(path, f'echo "{word} ${{1:-{default}}}"'),
        [checks.runs([path, other], f"{word} {other}"), checks.runs([path], f"{word} {default}")],
    )
