"""Counting, grouping and joining text: pipelines and small programs."""

import json
from collections import Counter

from envs.terminal import checks
from envs.terminal.draw import Draft, Draw, Group, text

GROUP = Group("text")


def _skewed(d: Draw, values: list[str]) -> list[str]:
    """Each value a different number of times, shuffled: no ties in any ranking."""
    times = d.rng.sample(range(1, len(values) + 4), len(values))
    return d.shuffled([v for v, n in zip(values, times, strict=True) for _ in range(n)])


@GROUP.template("medium")
def most_common_line(d: Draw) -> Draft:
    a, b = d.file("log"), d.file()
    body = _skewed(d, d.words(4, 5))
    files = {a: text(body)}
    say = d.say(
        "Write the line that occurs most often in {a} to {b}, without its count.",
        "Which line is the most frequent in {a}? Write only this line to {b}.",
        "Find the most common line of {a} and save just the line in {b}.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f"sort {a} | uniq -c | sort -rn | head -n 1 | awk '{{print $2}}' > {b}",),
        [checks.file(b, Counter(body).most_common(1)[0][0], "lines"), *checks.unchanged(files)],
        files,
    )


@GROUP.template("medium")
def count_distinct(d: Draw) -> Draft:
    a, b = d.file("log"), d.file()
    body = _skewed(d, d.people(4, 7))
    files = {a: text(body)}
    say = d.say(
        "Write the number of different lines in {a} to {b}.",
        "How many distinct lines does {a} contain? Save the number in {b}.",
        "Count the different lines of {a}, duplicates once, and write the number to {b}.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f"sort -u {a} | wc -l > {b}",),
        [checks.number(b, len(set(body))), *checks.unchanged(files)],
        files,
        alternatives=((f"awk '!seen[$0]++' {a} | wc -l > {b}",),),
    )


@GROUP.template("medium")
def longest_line(d: Draw) -> Draft:
    a, b = d.file(), d.file()
    body = [d.phrase(1, 2) for _ in range(d.number(4, 7))]
    longest = d.phrase(4, 5)
    body.insert(d.number(0, len(body)), longest)
    files = {a: text(body)}
    say = d.say(
        "Write the longest line of {a} to {b}.",
        "Find the line with the most characters in {a} and save it in {b}.",
        "Which line of {a} is the longest? Write it to {b}.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f"awk 'length > n {{n = length; s = $0}} END {{print s}}' {a} > {b}",),
        [checks.file(b, longest, "lines"), *checks.unchanged(files)],
        files,
        alternatives=((f'python3 -c \'print(max(open("{a}"), key=len), end="")\' > {b}',),),
    )


@GROUP.template("medium")
def json_value(d: Draw) -> Draft:
    a, b = d.file("json"), d.file()
    outer, keys = d.noun(), d.words(3, 4)
    value = {key: d.number(10, 999) for key in keys}
    files = {a: json.dumps({outer: value, "version": d.number(1, 9)}) + "\n"}
    key = d.rng.choice(keys)
    say = d.say(
        "Write the value of {k} inside {o} in {a} to {b}.",
        "{a} is JSON. Save the number at {o}.{k} in {b}.",
        "Read {o}.{k} from the JSON file {a} and write it to {b}.",
        a=a,
        b=b,
        o=outer,
        k=key,
    )
    code = f'import json; print(json.load(open("{a}"))["{outer}"]["{key}"])'
    return Draft(
        say,
        (f"python3 -c '{code}' > {b}",),
        [checks.number(b, value[key]), *checks.unchanged(files)],
        files,
        alternatives=((f"grep -o '\"{key}\": [0-9]*' {a} | cut -d' ' -f2 > {b}",),),
    )


@GROUP.template("medium")
def common_lines(d: Draw) -> Draft:
    a, b, c, words = d.file(), d.file(), d.file(), d.words(9)
    left, right = d.shuffled(words[:6]), d.shuffled(words[3:])
    files = {a: text(left), b: text(right)}
    say = d.say(
        "Write the lines that are in both {a} and {b} to {c}, sorted.",
        "Which lines do {a} and {b} share? Save them in sorted order in {c}.",
        "Put the lines common to {a} and {b} into {c}, in alphabetical order.",
        a=a,
        b=b,
        c=c,
    )
    return Draft(
        say,
        (f"sort {a} {b} | uniq -d > {c}",),
        [checks.file(c, text(sorted(words[3:6])), "lines"), *checks.unchanged(files)],
        files,
        alternatives=(
            (f"comm -12 <(sort {a}) <(sort {b}) > {c}",),
            (f"grep -Fxf {a} {b} | sort > {c}",),
        ),
    )


@GROUP.template("medium", heldout=True)
def missing_lines(d: Draw) -> Draft:
    a, b, c, words = d.file(), d.file(), d.file(), d.words(8)
    left, right = d.shuffled(words), d.shuffled(words[3:])
    files = {a: text(left), b: text(right)}
    say = d.say(
        "Write the lines of {a} that are not in {b} to {c}, sorted.",
        "Which lines of {a} are missing from {b}? Save them in sorted order in {c}.",
        "Put the lines found in {a} but not in {b} into {c}, in alphabetical order.",
        a=a,
        b=b,
        c=c,
    )
    return Draft(
        say,
        (f"grep -vxFf {b} {a} | sort > {c}",),
        [checks.file(c, text(sorted(words[:3])), "lines"), *checks.unchanged(files)],
        files,
        alternatives=((f"comm -23 <(sort {a}) <(sort {b}) > {c}",),),
    )


@GROUP.template("hard")
def word_frequencies(d: Draw) -> Draft:
    a, b = d.file(), d.file()
    words = _skewed(d, d.words(4, 5))
    body = [" ".join(words[i : i + 3]) for i in range(0, len(words), 3)]
    files = {a: text(body)}
    want = [f"{word} {count}" for word, count in Counter(words).most_common()]
    say = d.say(
        "Count how often each word occurs in {a}. Write lines 'word count' to {b}, highest count "
        "first.",
        "Write a word frequency table of {a} to {b}: one 'word count' per line, most frequent "
        "first.",
        "For each word in {a} write a line with the word, a blank and its count to {b}, largest "
        "count first.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f"tr -s ' ' '\\n' < {a} | sort | uniq -c | sort -rn | awk '{{print $2, $1}}' > {b}",),
        [checks.file(b, text(want), "lines"), *checks.unchanged(files)],
        files,
    )


@GROUP.template("hard")
def sum_by_group(d: Draw) -> Draft:
    a, b, people = d.file("csv"), d.file(), d.people(3, 4)
    rows = [(who, d.number(1, 50)) for who in people for _ in range(d.number(2, 3))]
    rows = d.shuffled(rows)
    files = {a: text([f"{who},{amount}" for who, amount in rows])}
    totals: Counter[str] = Counter()
    for who, amount in rows:
        totals[who] += amount
    say = d.say(
        "{a} has lines 'name,amount'. Write each name and its total as 'name total' to {b}, "
        "sorted by name.",
        "Add up the amounts per name in {a} (lines 'name,amount'); write 'name total' lines to "
        "{b}, names in order.",
        "For every name in {a} (name,amount per line) write 'name total' to {b} in alphabetical "
        "order.",
        a=a,
        b=b,
    )
    return Draft(
        say,
        (f"awk -F, '{{t[$1]+=$2}} END {{for (n in t) print n, t[n]}}' {a} | sort > {b}",),
        [
            checks.file(b, text([f"{who} {totals[who]}" for who in sorted(totals)]), "lines"),
            *checks.unchanged(files),
        ],
        files,
    )


@GROUP.template("hard")
def join_tables(d: Draw) -> Draft:
    a, b, c, people = d.file("csv"), d.file("csv"), d.file("csv"), d.people(5)
    things = d.words(5)
    amounts = d.numbers(5)
    left = [f"{who},{thing}" for who, thing in zip(people, things, strict=True)]
    right = [f"{who},{n}" for who, n in zip(people, amounts, strict=True)]
    want = sorted(f"{w},{t},{n}" for w, t, n in zip(people, things, amounts, strict=True))
    files = {a: text(d.shuffled(left)), b: text(d.shuffled(right))}
    say = d.say(
        "{a} has lines 'name,item', {b} lines 'name,count'. Write 'name,item,count' for each "
        "name to {c}, sorted by name.",
        "Join {a} (name,item) and {b} (name,count) on the name into {c} with lines "
        "name,item,count sorted by name.",
        "Combine {a} (name,item) with {b} (name,count): write name,item,count per name to {c}, "
        "in order of names.",
        a=a,
        b=b,
        c=c,
    )
    return Draft(
        say,
        (f"join -t, <(sort {a}) <(sort {b}) > {c}",),
        [checks.file(c, text(want), "lines"), *checks.unchanged(files)],
        files,
    )


@GROUP.template("hard", heldout=True)
def transpose_table(d: Draw) -> Draft:
    a, b = d.file("csv"), d.file("csv")
    rows = [[str(n) for n in d.numbers(3)] for _ in range(d.number(4, 5))]
    files = {a: text([",".join(row) for row in rows])}
    want = text([",".join(column) for column in zip(*rows, strict=True)])
    say = d.say(
        "Transpose the comma-separated table {a} into {b}: its columns become lines.",
        "Write {a} to {b} with rows and columns exchanged; keep commas between fields.",
        "Turn each column of {a} into one comma-separated line of {b}, in order.",
        a=a,
        b=b,
    )
    code = (
        f'rows = [line.strip().split(",") for line in open("{a}")]\n'
        'for column in zip(*rows): print(",".join(column))'
    )
    return Draft(
        say,
        (f"python3 -c '{code}' > {b}",),
        [checks.file(b, want, "lines"), *checks.unchanged(files)],
        files,
        alternatives=((f"for i in 1 2 3; do cut -d, -f$i {a} | paste -sd,; done > {b}",),),
    )
