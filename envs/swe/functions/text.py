"""Small functions for tasks: strings. Untyped, since prompt tokens are the currency."""
# mypy: ignore-errors
# ruff: noqa: E712, B905


def truncate(text, width):
    """Shorten text to at most width characters, ending in '...' when cut."""
    if len(text) <= width:
        return text
    return text[: width - 3] + "..."


def test_truncate():
    assert truncate("hello", 5) == "hello"
    assert truncate("hello world", 8) == "hello..."
    assert truncate("abcdefgh", 7) == "abcd..."
    assert truncate("", 3) == ""
    assert truncate("abc", 4) == "abc"


def is_palindrome(text):
    """Tell whether the letters and digits read the same both ways."""
    clean = [c.lower() for c in text if c.isalnum()]
    return clean == clean[::-1]


def test_is_palindrome():
    assert is_palindrome("Level") == True
    assert is_palindrome("hello") == False
    assert is_palindrome("A man, a plan") == False
    assert is_palindrome("No lemon, no melon") == True
    assert is_palindrome("ab") == False


def count_vowels(text):
    """Count the vowels, in either case."""
    total = 0
    for letter in text.lower():
        if letter in "aeiou":
            total += 1
    return total


def test_count_vowels():
    assert count_vowels("banana") == 3
    assert count_vowels("SKY") == 0
    assert count_vowels("AEIOU") == 5
    assert count_vowels("") == 0
    assert count_vowels("Queue") == 4


def title_case(sentence):
    """Put every word's first letter in upper case, the rest in lower case."""
    words = sentence.split()
    return " ".join(word[0].upper() + word[1:].lower() for word in words)


def test_title_case():
    assert title_case("hello world") == "Hello World"
    assert title_case("PYTHON") == "Python"
    assert title_case("a bC d") == "A Bc D"
    assert title_case("") == ""


def caesar(text, shift):
    """Shift each lower-case letter along the alphabet, wrapping at z."""
    result = ""
    for c in text:
        if "a" <= c <= "z":
            c = chr((ord(c) - 97 + shift) % 26 + 97)
        result += c
    return result


def test_caesar():
    assert caesar("abc", 1) == "bcd"
    assert caesar("xyz", 3) == "abc"
    assert caesar("a-z!", 1) == "b-a!"
    assert caesar("hello", 0) == "hello"
    assert caesar("b", -1) == "a"
    assert caesar("AZ", 2) == "AZ"


def longest_word(sentence):
    """Return the longest word; the first of them when several are as long."""
    best = ""
    for word in sentence.split():
        if len(word) > len(best):
            best = word
    return best


def test_longest_word():
    assert longest_word("a quick fox") == "quick"
    assert longest_word("one two six") == "one"
    assert longest_word("") == ""
    assert longest_word("big tiny") == "tiny"


def run_length(text):
    """Encode runs of equal characters: 'aab' becomes 'a2b1'."""
    result = ""
    i = 0
    while i < len(text):
        j = i
        while j < len(text) and text[j] == text[i]:
            j += 1
        result += text[i] + str(j - i)
        i = j
    return result


def test_run_length():
    assert run_length("aab") == "a2b1"
    assert run_length("") == ""
    assert run_length("abc") == "a1b1c1"
    assert run_length("zzzz") == "z4"
    assert run_length("aabaa") == "a2b1a2"


def snake_case(name):
    """Turn CamelCase into snake_case."""
    result = ""
    for i, c in enumerate(name):
        if c.isupper() and i > 0:
            result += "_"
        result += c.lower()
    return result


def test_snake_case():
    assert snake_case("CamelCase") == "camel_case"
    assert snake_case("word") == "word"
    assert snake_case("Word") == "word"
    assert snake_case("getUserName") == "get_user_name"
    assert snake_case("aB") == "a_b"


def initials(name):
    """Return the upper-case first letters of a name, each with a dot."""
    letters = [part[0].upper() for part in name.split()]
    return ".".join(letters) + "."


def test_initials():
    assert initials("ada lovelace") == "A.L."
    assert initials("Grace Brewster Hopper") == "G.B.H."
    assert initials("plato") == "P."


def mask(number, shown):
    """Replace all but the last shown characters with '*'."""
    hidden = len(number) - shown
    if hidden <= 0:
        return number
    return "*" * hidden + number[hidden:]


def test_mask():
    assert mask("12345678", 4) == "****5678"
    assert mask("123", 4) == "123"
    assert mask("1234", 4) == "1234"
    assert mask("12", 1) == "*2"


def common_prefix(first, second):
    """Return the longest common beginning of two strings."""
    size = 0
    for a, b in zip(first, second):
        if a != b:
            break
        size += 1
    return first[:size]


def test_common_prefix():
    assert common_prefix("flower", "flow") == "flow"
    assert common_prefix("abc", "xyz") == ""
    assert common_prefix("abcd", "abxd") == "ab"
    assert common_prefix("", "a") == ""
    assert common_prefix("same", "same") == "same"


def is_anagram(first, second):
    """Tell whether two words have the same letters, whatever the case."""
    return sorted(first.lower()) == sorted(second.lower())


def test_is_anagram():
    assert is_anagram("listen", "silent") == True
    assert is_anagram("Night", "thing") == True
    assert is_anagram("abc", "abd") == False
    assert is_anagram("thing", "Night") == True
    assert is_anagram("aab", "abb") == False
