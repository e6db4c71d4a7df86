"""Lines of a text file: append, pick, count, filter, order; one command each."""

from envs.terminal import checks
from envs.terminal.draw import Draft, Draw, Group, text

GROUP = Group("text")


def _into(
    d: Draw, source: str, out: str, body: list[str], want: list[str], *phrases: str
) -> tuple[str, list[checks.Check], dict[str, str]]:
    """Instruction, checks and files of "make file ``out`` of file ``source``"."""
    files = {source: text(body)}
    goal = [checks.file(out, text(want), "lines"), *checks.unchanged(files)]
    return d.say(*phrases, a=source, b=out), goal, files


@GROUP.template("trivial")
def append_line(d: Draw) -> Draft:
    path, line, body = d.path(), d.phrase(), text(d.lines(2, 4))
    say = d.say(
        "Append the line '{line}' to {p}.",
        "Add '{line}' as the last line of {p}.",
        "Add the line '{line}' at the end of {p}.",
        line=line,
        p=path,
    )
    return Draft(
        say,
        (f'echo "{line}" >> {path}',),
        [checks.file(path, body + line)],
        {path: body},
        alternatives=((f"sed -i '$a {line}' {path}",), (f"printf '{line}' >> {path}",)),
    )


@GROUP.template("easy")
def first_lines(d: Draw) -> Draft:
    a, b, body, n = d.path(), d.file(), d.lines(8, 12), d.number(2, 6)
    say, goal, files = _into(
        d,
        a,
        b,
        body,
        body[:n],
        f"Write the first {n} lines of {{a}} to {{b}}.",
        f"Save the first {n} lines of {{a}} in {{b}}.",
        f"Put only the top {n} lines of {{a}} into {{b}}.",
    )
    return Draft(
        say,
        (f"head -n {n} {a} > {b}",),
        goal,
        files,
        alternatives=((f"sed {n}q {a} > {b}",), (f"head -{n} {a} | tee {b}",)),
    )


@GROUP.template("easy")
def last_lines(d: Draw) -> Draft:
    a, b, body, n = d.path(), d.file(), d.lines(8, 12), d.number(2, 6)
    say, goal, files = _into(
        d,
        a,
        b,
        body,
        body[-n:],
        f"Write the last {n} lines of {{a}} to {{b}}.",
        f"Save the last {n} lines of {{a}} in {{b}}.",
        f"Put only the final {n} lines of {{a}} into {{b}}.",
    )
    return Draft(say, (f"tail -n {n} {a} > {b}",), goal, files)


@GROUP.template("easy")
def nth_line(d: Draw) -> Draft:
    a, b, body = d.file(), d.file(), d.lines(6, 10)
    n = d.number(2, len(body) - 1)
    say, goal, files = _into(
        d,
        a,
        b,
        body,
        [body[n - 1]],
        f"Write line {n} of {{a}} to {{b}}.",
        f"Save only line number {n} of {{a}} in {{b}}.",
        f"Copy line {n} of {{a}} into the new file {{b}}.",
    )
    return Draft(
        say,
        (f"sed -n {n}p {a} > {b}",),
        goal,
        files,
        alternatives=((f"head -n {n} {a} | tail -n 1 > {b}",), (f"awk 'NR=={n}' {a} > {b}",)),
    )


def _count(d: Draw, source: str, out: str, body: str, value: int, *phrases: str) -> Draft:
    """A draft without oracle: count something in ``source`` into ``out``."""
    files = {source: body}
    goal = [checks.number(out, value), *checks.unchanged(files)]
    return Draft(d.say(*phrases, a=source, b=out), (), goal, files)


@GROUP.template("easy")
def count_lines(d: Draw) -> Draft:
    a, b, body = d.path(d.rng.choice(["txt", "log", "csv"])), d.file(), d.lines(3, 12)
    draft = _count(
        d,
        a,
        b,
        text(body),
        len(body),
        "Count the lines of {a} and write the number to {b}.",
        "Write the number of lines in {a} to {b}.",
        "How many lines does {a} have? Save just the number in {b}.",
    )
    alternatives = (
        (f"cat {a} | wc -l > {b}",),
        (f"wc -l {a} | cut -d' ' -f1 > {b}",),
        (f"printf %s $(grep -c '' {a}) > {b}",),
        (f"awk 'END {{print NR}}' {a} | tee {b}",),
    )
    return Draft(
        draft.instruction, (f"wc -l < {a} > {b}",), draft.checks, draft.files, "", alternatives
    )


@GROUP.template("easy")
def count_words(d: Draw) -> Draft:
    a, b = d.path(), d.file()
    body = [d.phrase(1, 4) for _ in range(d.number(2, 6))]
    draft = _count(
        d,
        a,
        b,
        text(body),
        len(" ".join(body).split()),
        "Count the words in {a} and write the number to {b}.",
        "Write the number of words in {a} to {b}.",
        "How many words are in {a}? Save just the number in {b}.",
    )
    return Draft(
        draft.instruction,
        (f"wc -w < {a} > {b}",),
        draft.checks,
        draft.files,
        alternatives=((f"wc -w {a} | awk '{{print $1}}' > {b}",),),
    )


@GROUP.template("easy")
def count_matches(d: Draw) -> Draft:
    a, b, body = d.file(d.rng.choice(["txt", "log"])), d.file(), d.lines(6, 12)
    word = d.rng.choice(body).split()[0]
    draft = _count(
        d,
        a,
        b,
        text(body),
        sum(word in line for line in body),
        f"Count the lines in {{a}} that contain {word} and write the number to {{b}}.",
        f"Write the number of lines with the word {word} in {{a}} to {{b}}.",
        f"How many lines of {{a}} contain {word}? Save the number in {{b}}.",
    )
    return Draft(
        draft.instruction,
        (f"grep -c {word} {a} > {b}",),
        draft.checks,
        draft.files,
        alternatives=((f"grep {word} {a} | wc -l > {b}",),),
    )


@GROUP.template("easy")
def lines_with(d: Draw) -> Draft:
    a, b, body = d.path(d.rng.choice(["txt", "log"])), d.file(), d.lines(6, 10)
    word = d.rng.choice(body).split()[0]
    say, goal, files = _into(
        d,
        a,
        b,
        body,
        [line for line in body if word in line],
        f"Write the lines of {{a}} that contain {word} to {{b}}.",
        f"Save every line of {{a}} with the word {word} in {{b}}.",
        f"Copy only the lines containing {word} from {{a}} to {{b}}.",
    )
    return Draft(say, (f"grep {word} {a} > {b}",), goal, files)


@GROUP.template("easy", heldout=True)
def lines_without(d: Draw) -> Draft:
    a, b, body = d.file(), d.file(), d.lines(6, 10)
    word = d.rng.choice(body).split()[0]
    say, goal, files = _into(
        d,
        a,
        b,
        body,
        [line for line in body if word not in line],
        f"Write the lines of {{a}} that do not contain {word} to {{b}}.",
        f"Save every line of {{a}} without the word {word} in {{b}}.",
        f"Copy only the lines not containing {word} from {{a}} to {{b}}.",
    )
    return Draft(say, (f"grep -v {word} {a} > {b}",), goal, files)


@GROUP.template("easy", heldout=True)
def reverse_lines(d: Draw) -> Draft:
    a, b, body = d.file(), d.file(), d.lines(4, 8)
    say, goal, files = _into(
        d,
        a,
        b,
        body,
        body[::-1],
        "Write the lines of {a} in reverse order to {b}.",
        "Save {a} with its last line first in {b}.",
        "Put the lines of {a} into {b}, from the last to the first.",
    )
    return Draft(
        say,
        (f"tac {a} > {b}",),
        goal,
        files,
        alternatives=((f"sed '1!G;h;$!d' {a} > {b}",),),
    )


@GROUP.template("easy")
def sort_lines(d: Draw) -> Draft:
    a, b, body = d.path(), d.file(), d.words(5, 9)
    say, goal, files = _into(
        d,
        a,
        b,
        body,
        sorted(body),
        "Sort the lines of {a} alphabetically into {b}.",
        "Write the lines of {a} in alphabetical order to {b}.",
        "Save a sorted copy of {a} as {b}.",
    )
    return Draft(
        say,
        (f"sort {a} > {b}",),
        goal,
        files,
        alternatives=((f"sort -o {b} {a}",), (f"cat {a} | sort > {b}",)),
    )


@GROUP.template("easy")
def sort_numbers(d: Draw) -> Draft:
    a, b, body = d.file(), d.file(), d.numbers(d.number(5, 9), 1, 300)
    say, goal, files = _into(
        d,
        a,
        b,
        [str(n) for n in body],
        [str(n) for n in sorted(body)],
        "Sort the numbers in {a} from small to large into {b}.",
        "Write the numbers of {a} in increasing order to {b}.",
        "Save the numbers in {a}, smallest first, in {b}.",
    )
    return Draft(say, (f"sort -n {a} > {b}",), goal, files)


@GROUP.template("easy")
def unique_lines(d: Draw) -> Draft:
    a, b, kinds = d.file(), d.file(), d.words(3, 5)
    body = d.shuffled(kinds + [d.rng.choice(kinds) for _ in range(4)])
    files = {a: text(body)}
    say = d.say(
        "Write the distinct lines of {a} in sorted order to {b}.",
        "Save {a} sorted and without duplicate lines in {b}.",
        "Put each different line of {a} once into {b}, sorted.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f"sort -u {a} > {b}",),
        [checks.file(b, text(sorted(kinds)), "lines"), *checks.unchanged(files)],
        files,
        alternatives=((f"sort {a} | uniq > {b}",),),
    )


@GROUP.template("easy")
def concatenate(d: Draw) -> Draft:
    a, b, c = d.file(), d.file(), d.file()
    files = {a: text(d.lines(1, 3)), b: text(d.lines(1, 3))}
    say = d.say(
        "Join {a} and {b}, in this order, into {c}.",
        "Write the contents of {a} followed by those of {b} to {c}.",
        "Concatenate {a} and {b} into {c}.",
        a=a,
        b=b,
        c=c,
    )
    return Draft(
        say,
        (f"cat {a} {b} > {c}",),
        [checks.file(c, files[a] + files[b], "lines"), *checks.unchanged(files)],
        files,
        alternatives=((f"cp {a} {c} && cat {b} >> {c}",),),
    )
