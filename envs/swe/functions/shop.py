"""Small functions for tasks: money and measures. Untyped, since prompt tokens are the currency."""
# mypy: ignore-errors
# ruff: noqa: E712


def discount(price, percent):
    """Return the price after a discount in percent."""
    return price - price * percent / 100


def test_discount():
    assert discount(200, 10) == 180.0
    assert discount(50, 0) == 50.0
    assert discount(80, 100) == 0.0
    assert discount(40, 25) == 30.0


def cart_total(items):
    """Add up price times quantity of all (price, quantity) items."""
    total = 0
    for price, quantity in items:
        total += price * quantity
    return total


def test_cart_total():
    assert cart_total([(2, 3)]) == 6
    assert cart_total([]) == 0
    assert cart_total([(1, 1), (5, 2)]) == 11
    assert cart_total([(4, 0)]) == 0


def shipping(weight, total):
    """Return the shipping cost: free from 50, else 5, or 9 above 10 kg."""
    if total >= 50:
        return 0
    if weight > 10:
        return 9
    return 5


def test_shipping():
    assert shipping(1, 50) == 0
    assert shipping(1, 20) == 5
    assert shipping(10, 20) == 5
    assert shipping(11, 20) == 9
    assert shipping(20, 60) == 0


def change(amount):
    """Return the number of coins of 25, 10, 5 and 1 that make the amount."""
    count = 0
    for coin in (25, 10, 5, 1):
        count += amount // coin
        amount %= coin
    return count


def test_change():
    assert change(0) == 0
    assert change(30) == 2
    assert change(41) == 4
    assert change(4) == 4
    assert change(25) == 1


def to_celsius(fahrenheit):
    """Turn degrees Fahrenheit into degrees Celsius."""
    return (fahrenheit - 32) * 5 / 9


def test_to_celsius():
    assert to_celsius(32) == 0.0
    assert to_celsius(212) == 100.0
    assert to_celsius(50) == 10.0
    assert to_celsius(-40) == -40.0


def grade(score):
    """Return the letter for a score of 0 to 100."""
    if score >= 90:
        return "A"
    if score >= 75:
        return "B"
    if score >= 50:
        return "C"
    return "F"


def test_grade():
    assert grade(90) == "A"
    assert grade(89) == "B"
    assert grade(75) == "B"
    assert grade(60) == "C"
    assert grade(50) == "C"
    assert grade(49) == "F"


def restock(stock, minimum):
    """Return the sorted names whose count is below the minimum."""
    return sorted(name for name, count in stock.items() if count < minimum)


def test_restock():
    assert restock({"pen": 1, "ink": 5}, 3) == ["pen"]
    assert restock({}, 3) == []
    assert restock({"b": 0, "a": 1}, 2) == ["a", "b"]
    assert restock({"cap": 3}, 3) == []


def split_bill(total, people):
    """Split cents among people; the first ones pay the odd cents."""
    share = total // people
    extra = total % people
    return [share + 1 if i < extra else share for i in range(people)]


def test_split_bill():
    assert split_bill(100, 2) == [50, 50]
    assert split_bill(100, 3) == [34, 33, 33]
    assert split_bill(5, 4) == [2, 1, 1, 1]
    assert split_bill(0, 2) == [0, 0]


def ticket_price(age):
    """Return the price: free below 6, 5 below 18 and from 65, else 10."""
    if age < 6:
        return 0
    if age < 18 or age >= 65:
        return 5
    return 10


def test_ticket_price():
    assert ticket_price(5) == 0
    assert ticket_price(6) == 5
    assert ticket_price(17) == 5
    assert ticket_price(18) == 10
    assert ticket_price(64) == 10
    assert ticket_price(65) == 5


def compound(amount, rate, years):
    """Return the amount after yearly interest in percent."""
    for _ in range(years):
        amount += amount * rate / 100
    return amount


def test_compound():
    assert compound(100, 10, 1) == 110.0
    assert compound(100, 50, 2) == 225.0
    assert compound(80, 5, 0) == 80
    assert compound(200, 0, 3) == 200.0


def can_vote(age, citizen):
    """Tell whether a person may vote: a citizen of 18 or more."""
    return citizen and age >= 18


def test_can_vote():
    assert can_vote(18, True) == True
    assert can_vote(17, True) == False
    assert can_vote(30, False) == False
    assert can_vote(40, True) == True


def tax(income):
    """Return the tax: nothing up to 1000, then a fifth of the rest."""
    if income <= 1000:
        return 0
    return (income - 1000) / 5


def test_tax():
    assert tax(1000) == 0
    assert tax(1500) == 100.0
    assert tax(200) == 0
    assert tax(2000) == 200.0
