"""Small functions for tasks: numbers. Untyped, since prompt tokens are the currency."""
# mypy: ignore-errors
# ruff: noqa: E712, SIM110


def is_prime(n):
    """Tell whether n is a prime number."""
    if n < 2:
        return False
    for divisor in range(2, int(n**0.5) + 1):
        if n % divisor == 0:
            return False
    return True


def test_is_prime():
    assert is_prime(2) == True
    assert is_prime(1) == False
    assert is_prime(9) == False
    assert is_prime(13) == True
    assert is_prime(0) == False
    assert is_prime(25) == False


def factorial(n):
    """Return 1 * 2 * ... * n; factorial(0) is 1."""
    result = 1
    for k in range(2, n + 1):
        result *= k
    return result


def test_factorial():
    assert factorial(0) == 1
    assert factorial(1) == 1
    assert factorial(3) == 6
    assert factorial(5) == 120


def gcd(a, b):
    """Return the greatest common divisor."""
    while b != 0:
        a, b = b, a % b
    return a


def test_gcd():
    assert gcd(12, 8) == 4
    assert gcd(7, 3) == 1
    assert gcd(5, 0) == 5
    assert gcd(6, 6) == 6


def fibonacci(n):
    """Return the n-th Fibonacci number; the first two are 0 and 1."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def test_fibonacci():
    assert fibonacci(0) == 0
    assert fibonacci(1) == 1
    assert fibonacci(6) == 8
    assert fibonacci(10) == 55


def digit_sum(n):
    """Add up the decimal digits of n."""
    total = 0
    while n > 0:
        total += n % 10
        n //= 10
    return total


def test_digit_sum():
    assert digit_sum(123) == 6
    assert digit_sum(0) == 0
    assert digit_sum(9) == 9
    assert digit_sum(100) == 1


def divisors(n):
    """Return all divisors of n in rising order."""
    return [d for d in range(1, n + 1) if n % d == 0]


def test_divisors():
    assert divisors(6) == [1, 2, 3, 6]
    assert divisors(1) == [1]
    assert divisors(7) == [1, 7]
    assert divisors(4) == [1, 2, 4]


def collatz_steps(n):
    """Count the steps of halving or 3n + 1 until n is 1."""
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def test_collatz_steps():
    assert collatz_steps(1) == 0
    assert collatz_steps(2) == 1
    assert collatz_steps(8) == 3
    assert collatz_steps(3) == 7


def is_leap(year):
    """Tell whether a year has 366 days."""
    if year % 100 == 0:
        return year % 400 == 0
    return year % 4 == 0


def test_is_leap():
    assert is_leap(2024) == True
    assert is_leap(2023) == False
    assert is_leap(1900) == False
    assert is_leap(2000) == True
    assert is_leap(2022) == False


def to_binary(n):
    """Write n in base two."""
    if n == 0:
        return "0"
    bits = ""
    while n > 0:
        bits = str(n % 2) + bits
        n //= 2
    return bits


def test_to_binary():
    assert to_binary(0) == "0"
    assert to_binary(1) == "1"
    assert to_binary(6) == "110"
    assert to_binary(8) == "1000"


def round_to(value, step):
    """Round value down to a multiple of step."""
    return value - value % step


def test_round_to():
    assert round_to(17, 5) == 15
    assert round_to(20, 5) == 20
    assert round_to(4, 5) == 0
    assert round_to(9, 2) == 8


def perfect_square(n):
    """Tell whether n is the square of a whole number."""
    root = 0
    while root * root < n:
        root += 1
    return root * root == n


def test_perfect_square():
    assert perfect_square(16) == True
    assert perfect_square(15) == False
    assert perfect_square(0) == True
    assert perfect_square(2) == False
    assert perfect_square(1) == True


def sign(number):
    """Return 1, 0 or -1 for positive, zero and negative numbers."""
    if number > 0:
        return 1
    if number < 0:
        return -1
    return 0


def test_sign():
    assert sign(5) == 1
    assert sign(-3) == -1
    assert sign(0) == 0
    assert sign(1) == 1
    assert sign(-1) == -1


def power(base, exponent):
    """Raise base to a whole exponent by repeated squaring."""
    result = 1
    while exponent > 0:
        if exponent % 2 == 1:
            result *= base
        base *= base
        exponent //= 2
    return result


def test_power():
    assert power(2, 0) == 1
    assert power(3, 2) == 9
    assert power(2, 5) == 32
    assert power(7, 1) == 7
    assert power(2, 10) == 1024
