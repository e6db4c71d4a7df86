# ruff: noqa: E501  (tables of sentences)
"""Problems in mathematics: a text, a cell that finds the answer, and the answer.

The answer is computed here, not by the cell: a wrong cell or a wrong answer shows when both meet.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

SPREAD = 2654435761


@dataclass(frozen=True)
class Problem:
    """One problem.

    Attributes:
        text: of the question.
        code: a cell that prints the answer.
        answer: as text.
        form: of the answer, see ``envs.toolcall.code.answers``.
        names: of the variables an expression may hold.
    """

    text: str
    code: str
    answer: str
    form: str = "number"
    names: tuple[str, ...] = ()


@dataclass
class Draw:
    """Chance, and numbers of one side: those of two digits or more are held out or they are not.

    Attributes:
        used: the numbers drawn that only one side has.
    """

    rng: random.Random
    held: bool
    used: list[int] = field(default_factory=list)

    def number(self, low: int, high: int) -> int:
        """Draw a number of this side in [low, high]."""
        while True:
            value = self.rng.randint(low, high)
            if abs(value) < 10:
                return value
            if is_held(value) == self.held:
                self.used.append(value)
                return value

    def numbers(self, count: int, low: int, high: int) -> list[int]:
        """Draw numbers that differ."""
        found: list[int] = []
        while len(found) < count:
            value = self.number(low, high)
            if value not in found:
                found.append(value)
        return found

    def says(self, *wordings: str, **values: object) -> str:
        """Draw a wording and fill it."""
        return self.rng.choice(wordings).format(**values)


def is_held(value: int) -> bool:
    """True for a number that only held-out problems hold."""
    return abs(value) * SPREAD % 2**32 % 7 < 2


def arithmetic(draw: Draw) -> Problem:
    a, b, c = draw.number(11, 99), draw.number(11, 99), draw.number(11, 999)
    plus = draw.rng.random() < 0.5
    sign, value = ("+", a * b + c) if plus else ("-", a * b - c)
    return Problem(
        draw.says("What is {a} * {b} {s} {c}?", "Compute {a} * {b} {s} {c}.", "Find the value of {a} * {b} {s} {c}.", a=a, b=b, c=c, s=sign),
        f"{a} * {b} {sign} {c}", str(value),
    )  # fmt: skip


def fractions(draw: Draw) -> Problem:
    a, b, c, d = draw.number(1, 30), draw.number(11, 40), draw.number(1, 30), draw.number(11, 40)
    sign = draw.rng.choice("+-")
    value = Fraction(a, b) + (Fraction(c, d) if sign == "+" else -Fraction(c, d))
    return Problem(
        draw.says("What is {a}/{b} {s} {c}/{d} as a fraction?", "Compute {a}/{b} {s} {c}/{d} exactly.", a=a, b=b, c=c, d=d, s=sign),
        f"from fractions import Fraction\nprint(Fraction({a}, {b}) {sign} Fraction({c}, {d}))", str(value),
    )  # fmt: skip


def remainder(draw: Draw) -> Problem:
    a, b, m = draw.number(11, 99), draw.number(11, 400), draw.number(11, 300)
    return Problem(
        draw.says("What is the remainder of {a}**{b} divided by {m}?", "Find {a}**{b} modulo {m}.", a=a, b=b, m=m),
        f"pow({a}, {b}, {m})", str(pow(a, b, m)),
    )  # fmt: skip


def divisors(draw: Draw) -> Problem:
    k = draw.number(2, 9)
    a, b = k * draw.number(11, 99), k * draw.number(11, 99)
    draw.used += [n for n in (a, b) if is_held(n) == draw.held]
    name = draw.rng.choice(("gcd", "lcm"))
    words = {"gcd": "greatest common divisor", "lcm": "least common multiple"}[name]
    return Problem(
        draw.says("What is the {w} of {a} and {b}?", "Find the {w} of {a} and {b}.", w=words, a=a, b=b),
        f"import math\nprint(math.{name}({a}, {b}))", str(getattr(math, name)(a, b)),
    )  # fmt: skip


def multiples(draw: Draw) -> Problem:
    n, (a, b, c) = draw.number(100, 2000), draw.numbers(3, 2, 9)
    value = sum((i % a == 0 or i % b == 0) and i % c != 0 for i in range(1, n + 1))
    return Problem(
        draw.says("How many integers from 1 to {n} are divisible by {a} or {b} but not by {c}?", "Count the integers from 1 to {n} that {a} or {b} divides and {c} does not.", n=n, a=a, b=b, c=c),
        f"print(sum((i % {a} == 0 or i % {b} == 0) and i % {c} != 0 for i in range(1, {n} + 1)))", str(value),
    )  # fmt: skip


def sets(draw: Draw) -> Problem:
    pool = draw.numbers(8, 10, 60)
    left, right = sorted(pool[:5]), sorted(pool[3:])
    name, sign = draw.rng.choice((("union", "|"), ("intersection", "&"), ("difference", "-")))
    value = {"|": {*left, *right}, "&": {*left} & {*right}, "-": {*left} - {*right}}[sign]
    a, b = (str(each).replace("[", "{").replace("]", "}") for each in (left, right))
    return Problem(
        draw.says("A = {a} and B = {b}. What is the {n} of A and B?", "Let A = {a} and B = {b}. Give the {n} of A and B.", a=a, b=b, n=name if sign != "-" else "difference (A without B)").replace("difference (A without B) of A and B", "set A without B"),
        f"print({a} {sign} {b})", str(value), "set",
    )  # fmt: skip


def digits(draw: Draw) -> Problem:
    a, b = draw.number(2, 60), draw.number(20, 200)
    return Problem(
        draw.says("What is the sum of the digits of {a}**{b}?", "Add up the decimal digits of {a}**{b}.", a=a, b=b),
        f"print(sum(int(c) for c in str({a}**{b})))", str(sum(int(c) for c in str(a**b))),
    )  # fmt: skip


def mean(draw: Draw) -> Problem:
    values = [draw.number(10, 99) for _ in range(draw.rng.randint(4, 7))]
    value = Fraction(sum(values), len(values))
    return Problem(
        draw.says("What is the mean of {v}, as a fraction?", "Find the exact mean of {v}.", v=", ".join(map(str, values))),
        f"from fractions import Fraction\nv = {values}\nprint(Fraction(sum(v), len(v)))", str(value),
    )  # fmt: skip


def choose(draw: Draw) -> Problem:
    n, k = draw.number(11, 60), draw.number(2, 9)
    ordered = draw.rng.random() < 0.5
    name, value = ("perm", math.perm(n, k)) if ordered else ("comb", math.comb(n, k))
    how = "when the order counts" if ordered else "when the order does not count"
    return Problem(
        draw.says("In how many ways can {k} of {n} things be chosen {h}?", "How many choices of {k} out of {n} people are there {h}?", n=n, k=k, h=how),
        f"import math\nprint(math.{name}({n}, {k}))", str(value),
    )  # fmt: skip


def system(draw: Draw) -> Problem:
    while True:
        a, b, c, d = (draw.rng.randint(1, 9) for _ in range(4))
        if a * d != b * c:
            break
    p, q = draw.number(10, 99), draw.number(10, 99)
    det = a * d - b * c
    x, y = Fraction(p * d - b * q, det), Fraction(a * q - p * c, det)
    code = (
        "from fractions import Fraction\n"
        f"d = {a} * {d} - {b} * {c}\n"
        f"x, y = Fraction({p} * {d} - {b} * {q}, d), Fraction({a} * {q} - {p} * {c}, d)\n"
        'print(f"({x}, {y})")'
    )
    return Problem(
        draw.says("Solve {a}x + {b}y = {p} and {c}x + {d}y = {q}. Answer as (x, y).", "{a}x + {b}y = {p}, {c}x + {d}y = {q}. What is (x, y)?", a=a, b=b, c=c, d=d, p=p, q=q),
        code, f"({x}, {y})", "tuple",
    )  # fmt: skip


def expand(draw: Draw) -> Problem:
    a, b, c, d = draw.number(2, 9), draw.number(10, 40), draw.number(2, 9), draw.number(10, 40)
    return Problem(
        draw.says("Expand ({a}*x + {b})*({c}*x - {d}).", "Multiply out ({a}*x + {b})*({c}*x - {d}).", a=a, b=b, c=c, d=d),
        f"from sympy import *\nx = symbols('x')\nprint(expand(({a}*x + {b})*({c}*x - {d})))",
        f"{a * c}*x**2 + {b * c - a * d}*x - {b * d}", "expression", ("x",),
    )  # fmt: skip


def roots(draw: Draw) -> Problem:
    r, s = draw.numbers(2, -60, 60)
    b, c = -(r + s), r * s
    text = f"x**2 {'+' if b >= 0 else '-'} {abs(b)}*x {'+' if c >= 0 else '-'} {abs(c)} = 0"
    return Problem(
        draw.says("Which integers solve {t}?", "Find the set of solutions of {t}.", t=text),
        f"print({{x for x in range(-100, 101) if x**2 + {b}*x + {c} == 0}})", str({r, s}), "set",
    )  # fmt: skip


def recurrence(draw: Draw) -> Problem:
    a, b, n = draw.number(10, 50), draw.number(2, 9), draw.number(10, 40)
    m = draw.number(100, 999)
    value = a
    for _ in range(n):
        value = (value * b + 1) % m
    return Problem(
        draw.says("Start with {a} and {n} times replace x by ({b}*x + 1) modulo {m}. Which number comes out?", "x is {a} at first. Do x = ({b}*x + 1) % {m} for {n} times. What is x?", a=a, b=b, n=n, m=m),
        f"x = {a}\nfor i in range({n}):\n    x = ({b}*x + 1) % {m}\nprint(x)", str(value),
    )  # fmt: skip


def inverse(draw: Draw) -> Problem:
    m = draw.number(100, 999)
    while True:
        a = draw.number(11, 99)
        if math.gcd(a, m) == 1:
            break
    return Problem(
        draw.says("What is the inverse of {a} modulo {m}?", "Which x in 0..{e} has {a}*x = 1 modulo {m}?", a=a, m=m, e=m - 1),
        f"pow({a}, -1, {m})", str(pow(a, -1, m)),
    )  # fmt: skip


def percent(draw: Draw) -> Problem:
    price, up, down = draw.number(100, 999), draw.number(11, 60), draw.number(11, 60)
    value = Fraction(price) * (100 + up) / 100 * (100 - down) / 100
    return Problem(
        draw.says("A price of {p} rises by {u} percent and then falls by {d} percent. What is it then, exactly?", "{p} goes up by {u}% and down by {d}%. Give the exact result.", p=price, u=up, d=down),
        f"from fractions import Fraction\nprint(Fraction({price}) * ({100 + up}) / 100 * ({100 - down}) / 100)", str(value),
    )  # fmt: skip


def primes(draw: Draw) -> Problem:
    a = draw.number(100, 900)
    b = a + draw.number(50, 300)
    value = sum(all(n % d for d in range(2, math.isqrt(n) + 1)) for n in range(a, b + 1))
    return Problem(
        draw.says("How many primes are there from {a} to {b}?", "Count the prime numbers between {a} and {b}, ends included.", a=a, b=b),
        f"print(sum(all(n % d for d in range(2, n)) for n in range({a}, {b} + 1)))", str(value),
    )  # fmt: skip


def derivative(draw: Draw) -> Problem:
    a, b, c, n = draw.number(10, 40), draw.number(10, 40), draw.number(10, 99), draw.number(3, 7)
    return Problem(
        draw.says("Differentiate {a}*t**{n} - {b}*t + {c} with respect to t.", "What is the derivative of {a}*t**{n} - {b}*t + {c} in t?", a=a, b=b, c=c, n=n),
        f"from sympy import *\nt = symbols('t')\nprint(diff({a}*t**{n} - {b}*t + {c}, t))",
        f"{a * n}*t**{n - 1} - {b}", "expression", ("t",),
    )  # fmt: skip


TOPICS: Sequence[tuple[str, Callable[[Draw], Problem], str, bool]] = (
    ("arithmetic", arithmetic, "trivial", False),
    ("remainder", remainder, "trivial", False),
    ("choose", choose, "easy", False),
    ("divisors", divisors, "easy", False),
    ("digits", digits, "easy", False),
    ("fractions", fractions, "easy", False),
    ("mean", mean, "easy", False),
    ("sets", sets, "easy", False),
    ("multiples", multiples, "medium", False),
    ("roots", roots, "medium", False),
    ("recurrence", recurrence, "medium", False),
    ("system", system, "hard", False),
    ("expand", expand, "hard", False),
    ("inverse", inverse, "trivial", True),
    ("percent", percent, "easy", True),
    ("primes", primes, "medium", True),
    ("derivative", derivative, "hard", True),
)
