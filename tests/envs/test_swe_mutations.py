"""Procedural bugs: every kind there is, in a fixed order, taken back exactly."""

import pytest

from envs.swe.mutant_tasks import load_table, split_of
from envs.swe.mutations import Mutation, chosen_order, differs, mutations
from envs.swe.mutators import KINDS
from envs.swe.releases import load_pairs

SOURCE = '''
class Shelf:
    def __init__(self, size=3, name="é"):
        self.size = size
        self.name = name

    def fits(self, books, strict=True):
        """Say whether ä shelf holds books."""
        total = 0
        for book in books:
            if not book:
                continue
            if book in self.name or book is None:
                break
            total += len(book) * 2
        total = total - 1
        if strict and total >= self.size:
            raise ValueError("full")
        elif total < 0:
            self.report(total, key=books)
        return (total if strict else -total), str(total), books[1:], books[0]


def shelve(books, place):
    try:
        found = place.find(sorted(books, key=len, reverse=True))
    except KeyError:
        found = max(len(books), 7)
    print("shelved", found)
    return found.strip()
'''.encode()


def test_every_kind_of_bug_is_made_and_each_is_another_program() -> None:
    """A kind that never applies, or offsets that count characters where bytes are meant, would
    leave fewer kinds than are claimed or spoil text around the place."""
    bugs = mutations(SOURCE)
    made = [bug for bug in bugs if differs(SOURCE, bug.apply(SOURCE))]
    assert {bug.kind for bug in made} == set(KINDS)
    assert len(KINDS) >= 12
    for bug in bugs:
        assert bug.inverse().apply(bug.apply(SOURCE)) == SOURCE
        assert bug.lines[0] <= SOURCE[: bug.at].count(b"\n") + 2


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("comparison", ">=", ">"),
        ("boolean", "and", "or"),
        ("negation", "not book", "book"),
        ("swapped-arguments", "len(books), 7", "7, len(books)"),
        ("dropped-keyword", ", reverse=True", ""),
        ("wrong-exception", "KeyError", "IndexError"),
        ("slice-bound", "1", ""),
        ("off-by-one", "total - 1", "total"),
        ("wrong-default", "3", "4"),
        ("missing-return", "return found.strip()", "found.strip()"),
    ],
)
def test_a_bug_is_the_slip_its_kind_says(kind: str, old: str, new: str) -> None:
    assert any((b.kind, b.old, b.new) == (kind, old, new) for b in mutations(SOURCE))


def test_the_order_is_the_seeds_alone_and_takes_kinds_in_turn() -> None:
    """Rows of the table are found again by seed; one kind must not crowd out the others."""
    bugs = mutations(SOURCE)
    first = chosen_order({"a.py": bugs}, 1)
    assert first == chosen_order({"a.py": list(reversed(bugs))}, 1)
    assert first != chosen_order({"a.py": bugs}, 2)
    assert len({bug.kind for _, bug in first[: len(KINDS)]}) == len(KINDS)


def test_what_is_no_python_or_no_text_has_no_bugs() -> None:
    assert mutations(b"def f(:\n") == []
    assert mutations(b"\xff\xfe") == []
    assert mutations(b"X = 1 + 2\n") == []


def test_a_bug_does_not_fit_another_file() -> None:
    """Applied to a release that moved on, it must be refused, not put somewhere."""
    with pytest.raises(ValueError, match="does not begin"):
        Mutation("constant", 3, "7", "8").apply(b"def f(): return 7\n")


def test_layout_beyond_one_line_stays() -> None:
    source = b"def f(a, b):\r\n    return (a  # first\r\n            + b)\r\n"
    changed = [bug.apply(source) for bug in mutations(source) if bug.kind == "arithmetic"]
    assert changed == []  # a comment stands between: no place to be sure of
    source = b"def f(a, b):\r\n    return (a\r\n            + b)\r\n"
    assert [b.apply(source) for b in mutations(source) if b.kind == "arithmetic"] == [
        source.replace(b"+", b"-")
    ]


def test_the_table_keeps_splits_apart_by_package() -> None:
    """A package seen in training must not be measured, by a bug or by a release."""
    table = load_table()
    sides = {package.name: split_of(package.name) for package, _ in table}
    assert set(sides.values()) == {"train", "heldout"}
    assert all(sides.get(pair.package, "heldout") == "heldout" for pair in load_pairs())
    names = [(package.name, row["name"]) for package, rows in table for row in rows]
    assert len(names) == len(set(names))
    assert all(row["fails"] for _, rows in table for row in rows)
    assert len({row["kind"] for _, rows in table for row in rows}) >= 12
