"""Edits in place, columns and sums: replace, delete lines, extract, add up."""

from envs.terminal import checks
from envs.terminal.draw import Draft, Draw, Group, text

GROUP = Group("text")


@GROUP.template("easy")
def replace_word(d: Draw) -> Draft:
    path, body = d.path(), d.lines(3, 6)
    old = d.rng.choice(body).split()[0]
    new = next(w for w in d.shuffled(list(d.pool.words)) if w not in text(body) and w != old)
    say = d.say(
        "Replace every {o} with {n} in {p}.",
        "In {p}, change all {o} to {n}.",
        "Change the word {o} to {n} everywhere in {p}.",
        o=old,
        n=new,
        p=path,
    )
    return Draft(
        say,
        (f"sed -i 's/{old}/{new}/g' {path}",),
        [checks.file(path, text(body).replace(old, new), "lines")],
        {path: text(body)},
        alternatives=((f"sed 's/{old}/{new}/g' {path} > /tmp/x", f"mv /tmp/x {path}"),),
    )


@GROUP.template("easy")
def delete_lines_with(d: Draw) -> Draft:
    path, body = d.file(), d.lines(5, 9)
    word = d.rng.choice(body).split()[0]
    kept = [line for line in body if word not in line]
    say = d.say(
        "Delete the lines containing {w} from {p}.",
        "Remove every line with the word {w} from {p}.",
        "In {p}, delete all lines that contain {w}.",
        w=word,
        p=path,
    )
    return Draft(
        say,
        (f"sed -i '/{word}/d' {path}",),
        [checks.file(path, text(kept), "lines")],
        {path: text(body)},
        alternatives=((f"grep -v {word} {path} > /tmp/x; mv /tmp/x {path}",),),
    )


@GROUP.template("easy", heldout=True)
def delete_line_number(d: Draw) -> Draft:
    path, body = d.file(), d.lines(5, 9)
    n = d.number(2, len(body) - 1)
    say = d.say(
        "Delete line {n} of {p}.",
        "Remove line number {n} from {p}.",
        "Take line {n} out of {p}.",
        n=n,
        p=path,
    )
    return Draft(
        say,
        (f"sed -i {n}d {path}",),
        [checks.file(path, text(body[: n - 1] + body[n:]), "lines")],
        {path: text(body)},
    )


@GROUP.template("easy")
def to_uppercase(d: Draw) -> Draft:
    a, b, body = d.file(), d.file(), text(d.lines(2, 4))
    say = d.say(
        "Write {a} in upper case to {b}.",
        "Convert the text of {a} to capital letters and save it in {b}.",
        "Save an uppercase copy of {a} as {b}.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f"tr a-z A-Z < {a} > {b}",),
        [checks.file(b, body.upper(), "lines"), *checks.unchanged({a: body})],
        {a: body},
        alternatives=(
            (f"cat {a} | tr '[:lower:]' '[:upper:]' > {b}",),
            (f"awk '{{print toupper($0)}}' {a} > {b}",),
        ),
    )


def _table(d: Draw, rows: int) -> tuple[list[str], list[tuple[str, str, int]]]:
    """A CSV of name, thing, count without a header, and its rows."""
    people = d.people(rows)
    counts = d.numbers(rows, 1, 99)
    table = [(who, d.word(), count) for who, count in zip(people, counts, strict=True)]
    return [f"{who},{thing},{count}" for who, thing, count in table], table


@GROUP.template("easy")
def extract_column(d: Draw) -> Draft:
    a, b, column = d.file("csv"), d.file(), d.number(1, 3)
    body, table = _table(d, d.number(4, 7))
    ordinal = ("first", "second", "third")[column - 1]
    say = d.say(
        "Write column {c} of {a} to {b}.",
        "Extract the {o} column of {a} into {b}.",
        "Save only the {o} comma-separated field of each line of {a} in {b}.",
        a=a,
        b=b,
        c=column,
        o=ordinal,
    )
    files, want = {a: text(body)}, [str(row[column - 1]) for row in table]
    return Draft(
        say,
        (f"cut -d, -f{column} {a} > {b}",),
        [
            checks.file(b, text(want), "lines"),
            *checks.unchanged(files),
        ],
        files,
        alternatives=((f"awk -F, '{{print ${column}}}' {a} > {b}",),),
    )


@GROUP.template("easy")
def sum_numbers(d: Draw) -> Draft:
    a, b, body = d.file(), d.file(), d.numbers(d.number(4, 8))
    files = {a: text(body)}
    say = d.say(
        "Add up the numbers in {a} and write the sum to {b}.",
        "Write the sum of all numbers in {a} to {b}.",
        "Compute the total of the numbers in {a}; save it in {b}.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f"awk '{{s+=$1}} END {{print s}}' {a} > {b}",),
        [checks.number(b, sum(body)), *checks.unchanged(files)],
        files,
        alternatives=(
            (f"paste -sd+ {a} | python3 -c 'print(eval(input()))' > {b}",),
            (f"s=0; while read n; do s=$((s+n)); done < {a}; echo $s > {b}",),
        ),
    )


@GROUP.template("easy", heldout=True)
def largest_number(d: Draw) -> Draft:
    a, b, body = d.file(), d.file(), d.numbers(d.number(5, 9), 1, 500)
    files = {a: text(body)}
    say = d.say(
        "Write the largest number in {a} to {b}.",
        "Find the maximum of the numbers in {a} and save it in {b}.",
        "Which number in {a} is the biggest? Write it to {b}.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f"sort -n {a} | tail -n 1 > {b}",),
        [checks.number(b, max(body)), *checks.unchanged(files)],
        files,
        alternatives=((f"sort -rn {a} | head -1 > {b}",),),
    )


@GROUP.template("easy")
def set_option(d: Draw) -> Draft:
    path, keys = d.file("cfg"), d.words(3, 5)
    old = d.numbers(len(keys), 1, 999)
    key, new = d.rng.choice(keys), d.number(1000, 9999)
    body = [f"{k}={v}" for k, v in zip(keys, old, strict=True)]
    want = [f"{k}={new if k == key else v}" for k, v in zip(keys, old, strict=True)]
    say = d.say(
        "In {p}, set {k} to {n}.",
        "Change the value of {k} in {p} to {n}.",
        "Edit {p} so that {k} has the value {n}.",
        p=path,
        k=key,
        n=new,
    )
    return Draft(
        say,
        (f"sed -i 's/^{key}=.*/{key}={new}/' {path}",),
        [checks.file(path, text(want), "lines")],
        {path: text(body)},
        alternatives=((f"sed -i 's/{key}={old[keys.index(key)]}$/{key}={new}/' {path}",),),
    )


@GROUP.template("trivial", heldout=True)
def overwrite_file(d: Draw) -> Draft:
    path, phrase = d.file(), d.phrase()
    say = d.say(
        "Overwrite {p} with the text: {w}",
        "Replace the whole content of {p} by: {w}",
        "Make '{w}' the only content of {p}.",
        p=path,
        w=phrase,
    )
    return Draft(
        say,
        (f'echo "{phrase}" > {path}',),
        [checks.file(path, phrase)],
        {path: text(d.lines(2, 4))},
    )


@GROUP.template("medium")
def sum_column(d: Draw) -> Draft:
    a, b = d.file("csv"), d.file()
    body, table = _table(d, d.number(5, 9))
    files = {a: "name,item,count\n" + text(body)}
    say = d.say(
        "{a} has a header line. Write the sum of its count column to {b}.",
        "Add up the count column of {a} (first line is a header); save the sum in {b}.",
        "What is the total of the column count in {a}? Write the number to {b}.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f"tail -n +2 {a} | awk -F, '{{s+=$3}} END {{print s}}' > {b}",),
        [checks.number(b, sum(row[2] for row in table)), *checks.unchanged(files)],
        files,
        alternatives=((f"echo $(( $(tail -n +2 {a} | cut -d, -f3 | paste -sd+) )) > {b}",),),
    )


@GROUP.template("medium")
def filter_rows(d: Draw) -> Draft:
    a, b = d.file("csv"), d.file("csv")
    body, table = _table(d, d.number(6, 9))
    bound = sorted(row[2] for row in table)[len(table) // 2]
    files = {a: text(body)}
    want = [line for line, row in zip(body, table, strict=True) if row[2] > bound]
    say = d.say(
        "Write the lines of {a} whose third field is greater than {n} to {b}.",
        "{a} is comma-separated. Keep only the lines with a third column above {n}; save to {b}.",
        "Save all rows of {a} in which column 3 exceeds {n} in {b}.",
        a=a,
        b=b,
        n=bound,
    )
    return Draft(
        say,
        (f"awk -F, '$3 > {bound}' {a} > {b}",),
        [checks.file(b, text(want), "lines"), *checks.unchanged(files)],
        files,
        alternatives=(
            (f"while IFS=, read x y z; do [ $z -gt {bound} ] && echo $x,$y,$z; done < {a} > {b}",),
        ),
    )


@GROUP.template("medium", heldout=True)
def sort_by_column(d: Draw) -> Draft:
    a, b = d.file("csv"), d.file("csv")
    body, table = _table(d, d.number(5, 9))
    files = {a: text(body)}
    order = sorted(range(len(table)), key=lambda i: -table[i][2])
    say = d.say(
        "Sort the lines of {a} by the number in column 3, largest first, into {b}.",
        "Write {a} to {b}, its lines ordered by the third field from high to low.",
        "Order the rows of {a} by their third comma-separated number, descending; save as {b}.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f"sort -t, -k3,3nr {a} > {b}",),
        [checks.file(b, text([body[i] for i in order]), "lines"), *checks.unchanged(files)],
        files,
        alternatives=((f"sort -t , -k 3 -n {a} | tac > {b}",),),
    )
