"""Every wish as a rule: what meets it, what breaks it, and what only looks as if it did."""

import time

import pytest

from envs.chat import criteria
from envs.chat.criteria import answered, check, find, on_topic
from envs.chat.request import Request
from envs.errors import TaskError

SUM = Request("What is 15 percent of 80?", "12", ("The answer is 12.",))
OPEN = Request("Why is the sky blue?", "", ("The air scatters blue light most.",))

MEETS = {
    "no_bold": [
        "2 * 3 * 4 = 24",
        "2**3 is 8 and 4**2 is 16",
        "x**2 + y**2 = z**2",
        "x ** 2 + y ** 2",
        "(a)**2 + (b)**2",
        "f(*args, **kwargs) and g(**a,**b)",
        "*only italics*",
        "Call `**bold**` in Markdown",
        "```\n**code**\n```",
        "def __init__(self): and __name__",
        "my__odd__name",
        r"\*\*escaped\*\*",
        "a ** b",
        "****",
    ],
    "no_numbered_list": [
        "It is 1.5 litres.",
        "1.5 is the answer\n2.5 is not",
        "42. That is the answer.",
        "In 2024. Then\n2025. Then",
        "First, add. Then divide.",
        "```\n1. in code\n2. in code\n```",
        "Question 1) asks for x.",
        "f(1) and f(2)",
        "The steps 1 and 2 are short.",
    ],
    "no_boxed_answer": ["The boxed set costs 12.", "a box of 12", r"\frac{1}{2}", "[12]"],
    "no_bullets": [
        "-5 degrees",
        "4 - 3 = 1",
        "  12\n+ 30\n----\n  42",
        "- - -\ntext",
        "* * *",
        "**Bold** start of a line",
        "a well-known thing",
        "```\n- in code\n```",
    ],
    "bullets": ["- one\n- two", "* one\n* two\n* three", "• one\n• two", "Yes:\n  - a b\n  - c d"],
    "at_least_words(5)": ["one two three four five", "a b c d 12.5", "it's a well-known old fact"],
    "at_most_words(5)": ["one two three four five", "12.5", "it's a well-known old fact"],
    "gives_reasons": [
        "Twelve, because a tenth is 8.",
        "Since a tenth is 8, it is 12.",
        "I wrote it down so that you see it.",
        "Since the numbers are even, halve them.",
        "Das gilt, weil es warm ist.",
    ],
    "warm": [
        "Well done, that was hard.",
        "I'm glad to help with this.",
        "Don’t worry, take your time.",
        "It's 12. Keep it\nup!",
        "We do not know yet, but thank you for asking.",
    ],
    "language(de)": [
        "Das ist die Hauptstadt von Peru und sie liegt am Meer.",
        "Die Antwort ist 12.",
        "`the of and` ist hier der Code und nicht der Text.",
    ],
    "language(fr)": ["La réponse est 12 et elle est juste.", "Il faut une heure pour le gâteau."],
    "language(es)": ["La respuesta es 12 y no es difícil.", "Hay que cocer el arroz con agua."],
    "metric_units": [
        "Use 250 ml of milk and 2 tablespoons of oil.",
        "a cup of tea helps",
        "He inches closer; miles away.",
        "It costs 5 euros.",
        "5 in total",
        "Heat the oven to 180 °C.",
        "5 million people",
        "One pointed end, one feature",
        "3 footballs",
    ],
    "ends_with_summary": [
        "A long story.\nIn short: it works well.",
        "A.\n\n**Summary:** three good words here.\n",
        "A line\nTL;DR keep it very short",
    ],
    "no_emoji": ["a → b", "20 °C ©", "a tick ✓ here", "smile :)", "2 × 3 ≤ 7", "日本語", "é"],
    "no_exclamation": [
        "a != b", "5! = 120", "The value of 5! is 120.", "`wow!`", "n! / k! = 2", "Hi.",
    ],
    "plain_text": [
        "3 * 4 * 5 = 60",
        "snake_case_name and other_name",
        "We are #1 here.",
        "#1 priority",
        "x > 5",
        "a|b",
        "C# is a language",
        "1. first\n2. second",
        "[see above]",
        "don`t",
        "2*3*4",
    ],
    "begins_with_answer": [
        "12.", "The answer is 12.", "**12** is right", "It is 12, as 8 + 4 is 12",
    ],
    "json_only": ['{"answer": 12}', ' [1, 2]\n', '{"a": {"b": []}}'],
}  # fmt: skip
BREAKS = {
    "no_bold": [
        "**12**",
        "The answer is **twelve**.",
        "**Note**s for all",
        "***both***",
        "__strong__ words",
        "<b>12</b>",
        '<strong class="x">12</strong>',
        r"\textbf{12}",
        "2**3 is **eight**",
        "**two\nlines**",
        "- **Point:** text",
    ],
    "no_numbered_list": [
        "1. Add\n2. Divide",
        "Do this:\n\n  1) Add",
        "**1.** Add\n**2.** Divide",
        "3. Add\n4. Divide",
        "Step 1: add",
        "### Step 2: divide\n### Step 3: rest",
        "(1) add\n(2) divide",
        "1) add the numbers, 2) divide them",
        "> 1. quoted",
        "1️⃣ Add\n2️⃣ Divide",
    ],
    "no_boxed_answer": [r"\boxed{12}", r"$\boxed {12}$", r"\fbox{12}", "boxed{12}", "┌──┐\n│12│"],
    "no_bullets": [
        "- one", "* one\n* two", "Yes:\n  + one", "• one", "•one", "> - quoted", "- 3 cats",
    ],
    "bullets": ["- one", "one, two", "-one\n-two", "1. one\n2. two", "+ 1\n+ 2"],
    "at_least_words(5)": ["one two three four", "", "- - - - - -", "well-known it's a fact"],
    "at_most_words(5)": ["one two three four five six", "", "..."],
    "gives_reasons": [
        "It is 12.", "Open since 1990.", "I like causes.", "Ever since then it rains.",
    ],
    "warm": [
        "It is 12.",
        "That is not well done.",
        "I'm not happy to help.",
        "It isn't good work.",
        "Warm water boils sooner.",
    ],
    "language(de)": [
        "The capital of Peru is Lima.",
        "Lima",
        "Die",
        "The answer is in the book and it is long. Das ist gut.",
        "La capital es Lima y no está lejos.",
    ],
    "language(fr)": ["La respuesta es que no hay nada de eso.", "The answer is 12.", "Oui."],
    "language(es)": ["Le résultat est de douze et il est juste.", "The answer is no.", "Sí."],
    "metric_units": [
        "Add 2 cups of flour.",
        "half a cup of milk",
        "½ cup",
        "350 °F",
        "350F",
        "It is two miles away.",
        "a 5-foot wall",
        "6 oz",
        "10 sq m or 3 square feet",
        "200 degrees Fahrenheit",
        "a few inches",
        "3/4 pounds",
    ],
    "ends_with_summary": [
        "In short: it works well.",
        "In short, no.\nMore text follows here.",
        "A line\nSummary:",
        "A line\nSummaries are useful for people",
        "A line\nIn short: " + "word " * 31,
        "",
    ],
    "no_emoji": ["Nice 😀", "❤️", "🇩🇪", "✨ new", "⭐", "1️⃣", "☀️", "⚠️"],
    "no_exclamation": [
        "Hi!", "You scored 5!", "Wow!!", "¡Hola", "Yes!  ", "x != y is true!", "OK !",
    ],
    "plain_text": [
        "**12**",
        "*twelve*",
        "_twelve_",
        "# Title",
        "Title\n=====",
        "- one",
        "use `ls`",
        "```\nls\n```",
        "[page](http://x)",
        "| a | b |\n|---|---|",
        "> quote",
        "![x](y)",
    ],
    "begins_with_answer": [
        "",
        "Sure, it is 12.",
        "To find it, take a tenth of 80, which gives 8, and add 4 to get 12.",
        "It is 120.",
        "It is 12.5.",
        "You asked for a share. It is 12.",
        "Great question! 12.",
    ],
    "json_only": [
        '```json\n{"a": 1}\n```',
        'Here: {"a": 1}',
        "12",
        '"text"',
        "{}",
        "{'a': 1}",
        '{"a": NaN}',
        "[" * 100000,
        "",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "reply"), [(name, reply) for name, replies in MEETS.items() for reply in replies]
)
def test_replies_that_meet_a_wish(name: str, reply: str) -> None:
    assert find(name).holds(SUM, reply)


@pytest.mark.parametrize(
    ("name", "reply"), [(name, reply) for name, replies in BREAKS.items() for reply in replies]
)
def test_replies_that_break_a_wish(name: str, reply: str) -> None:
    assert not find(name).holds(SUM, reply)


def test_every_rule_has_both_kinds_of_cases_a_docstring_and_a_hint() -> None:
    """Bug prevented: a rule added without the cases that show where it ends."""
    kinds = {find(name).kind for name in MEETS}
    assert kinds == {find(name).kind for name in BREAKS} == set(criteria.RULES)
    assert set(criteria.HINTS) == set(criteria.RULES)
    assert all((rule.__doc__ or "").startswith("Hold ") for rule in criteria.RULES.values())


def test_an_answer_is_only_asked_for_where_one_was_kept() -> None:
    wish = find("begins_with_answer")
    assert wish.holds(OPEN, "The air scatters blue light most.")
    assert not wish.holds(OPEN, "Let's see: the air scatters blue light.")


@pytest.mark.parametrize(
    "reply",
    ["12", "The result is twelve percent.", "It is 12 as a tenth is 8.", "80 times 0.15 gives it"],
)
def test_replies_to_the_request_are_on_topic(reply: str) -> None:
    assert on_topic(SUM, reply)


@pytest.mark.parametrize("reply", ["", "  \n", "submit", "ok", "What is 15 percent of 80?", "{}"])
def test_nothing_an_echo_and_something_else_are_off_topic(reply: str) -> None:
    """Bug prevented: the empty reply, a constant or the request itself earn what forbids markup."""
    assert not on_topic(SUM, reply)
    assert check(["no_bold", "no_emoji"], SUM, reply) == {"no_bold": False, "no_emoji": False}


def test_answers_are_compared_as_whole_numbers_and_words() -> None:
    large = Request("How many?", "1200")
    assert answered(large, "There are 1,200 of them.")
    assert not answered(large, "12000 or 1200.5 or x1200")
    assert answered(Request("Capital?", "Canberra"), "it is canberra, of course")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_blod", "no criterion 'no_blod'"),
        ("no_bold(3)", "no criterion"),
        ("at_least_words", "no criterion"),
        ("at_least_words(0)", "from 1 on"),
        ("at_least_words(x)", "at_least_words"),
        ("language(xx)", "choose one of en, de"),
    ],
)
def test_a_wrong_name_is_refused(name: str, message: str) -> None:
    with pytest.raises(TaskError, match=message.replace("(", r"\(").replace(")", r"\)")):
        find(name)


@pytest.mark.parametrize(
    "piece",
    [
        "`",
        "**a ",
        "__a ",
        "[",
        "[a](",
        " ",
        "1",
        "1) a ",
        "<b>",
        "!",
        "not well done ",
        "- ",
        "#",
        "{",
    ],
)
def test_no_reply_keeps_the_judge_busy(piece: str) -> None:
    """Bug prevented: a pattern that goes over an odd reply again and again stops a worker."""
    reply = "12 " + piece * (30000 // len(piece))
    began = time.process_time()
    for name in MEETS:
        find(name).holds(SUM, reply)
    on_topic(SUM, reply)
    assert time.process_time() - began < 5
