"""Small functions for tasks: parsing. Untyped, since prompt tokens are the currency."""
# mypy: ignore-errors
# ruff: noqa: E712


def parse_pairs(text):
    """Turn 'a=1;b=2' into a dict of strings."""
    result = {}
    for item in text.split(";"):
        if "=" in item:
            key, value = item.split("=", 1)
            result[key.strip()] = value.strip()
    return result


def test_parse_pairs():
    assert parse_pairs("a=1;b=2") == {"a": "1", "b": "2"}
    assert parse_pairs("") == {}
    assert parse_pairs("x = 1 ") == {"x": "1"}
    assert parse_pairs("u=a=b") == {"u": "a=b"}
    assert parse_pairs("k;v=2") == {"v": "2"}


def parse_version(text):
    """Turn '1.2.3' into (1, 2, 3); a leading 'v' is dropped."""
    if text.startswith("v"):
        text = text[1:]
    return tuple(int(part) for part in text.split("."))


def test_parse_version():
    assert parse_version("1.2.3") == (1, 2, 3)
    assert parse_version("v2.0") == (2, 0)
    assert parse_version("10") == (10,)
    assert parse_version("v7") == (7,)


def parse_range(text):
    """Turn '3-6' into [3, 4, 5, 6] and '7' into [7]."""
    if "-" not in text:
        return [int(text)]
    first, last = text.split("-")
    return list(range(int(first), int(last) + 1))


def test_parse_range():
    assert parse_range("3-6") == [3, 4, 5, 6]
    assert parse_range("7") == [7]
    assert parse_range("2-2") == [2]
    assert parse_range("0-1") == [0, 1]


def parse_bool(text):
    """Read yes, true, on or 1, in any case, as True."""
    return text.strip().lower() in ("yes", "true", "on", "1")


def test_parse_bool():
    assert parse_bool("yes") == True
    assert parse_bool("TRUE") == True
    assert parse_bool(" on ") == True
    assert parse_bool("0") == False
    assert parse_bool("1") == True
    assert parse_bool("off") == False


def split_name(path):
    """Split 'dir/name.ext' into ('name', 'ext')."""
    name = path.split("/")[-1]
    if "." not in name:
        return name, ""
    stem, ext = name.rsplit(".", 1)
    return stem, ext


def test_split_name():
    assert split_name("a/b/c.txt") == ("c", "txt")
    assert split_name("README") == ("README", "")
    assert split_name("x.tar.gz") == ("x.tar", "gz")
    assert split_name("v1.0/file") == ("file", "")


def parse_hex_color(text):
    """Turn '#ff8000' into (255, 128, 0)."""
    digits = text.lstrip("#")
    return tuple(int(digits[i : i + 2], 16) for i in (0, 2, 4))


def test_parse_hex_color():
    assert parse_hex_color("#ff8000") == (255, 128, 0)
    assert parse_hex_color("000000") == (0, 0, 0)
    assert parse_hex_color("#0000ff") == (0, 0, 255)
    assert parse_hex_color("#ffffff") == (255, 255, 255)


def balanced(text):
    """Tell whether every ( has its ) in the right order."""
    depth = 0
    for c in text:
        if c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
        if depth < 0:
            return False
    return depth == 0


def test_balanced():
    assert balanced("(a)(b)") == True
    assert balanced("((") == False
    assert balanced(")(") == False
    assert balanced("") == True
    assert balanced("(()())") == True
    assert balanced("a)") == False


def parse_roman(text):
    """Read a Roman number."""
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
    total = 0
    previous = 0
    for letter in reversed(text):
        value = values[letter]
        if value < previous:
            total -= value
        else:
            total += value
        previous = value
    return total


def test_parse_roman():
    assert parse_roman("III") == 3
    assert parse_roman("IV") == 4
    assert parse_roman("XVI") == 16
    assert parse_roman("XL") == 40
    assert parse_roman("LXXXIX") == 89
    assert parse_roman("C") == 100


def clean_lines(text):
    """Return the lines without blanks around them, comments and empty ones dropped."""
    lines = [line.strip() for line in text.split("\n")]
    return [line for line in lines if line and not line.startswith("#")]


def test_clean_lines():
    assert clean_lines("a\n\n b ") == ["a", "b"]
    assert clean_lines("# no\nyes") == ["yes"]
    assert clean_lines("") == []
    assert clean_lines("x # y") == ["x # y"]


def parse_money(text):
    """Turn '$1,234.50' into cents."""
    digits = text.replace("$", "").replace(",", "")
    dollars, _, cents = digits.partition(".")
    return int(dollars) * 100 + int(cents or 0)


def test_parse_money():
    assert parse_money("$1,234.50") == 123450
    assert parse_money("7") == 700
    assert parse_money("$0.05") == 5
    assert parse_money("12.00") == 1200
