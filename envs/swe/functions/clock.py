"""Small functions for tasks: dates and times. Untyped, since prompt tokens are the currency."""
# mypy: ignore-errors


def to_seconds(clock):
    """Turn 'h:mm:ss' into seconds."""
    hours, minutes, seconds = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds)


def test_to_seconds():
    assert to_seconds("0:00:05") == 5
    assert to_seconds("0:01:00") == 60
    assert to_seconds("1:00:00") == 3600
    assert to_seconds("2:03:04") == 7384


def format_duration(seconds):
    """Write seconds as minutes and seconds, like '2:05'."""
    minutes = seconds // 60
    rest = seconds % 60
    return f"{minutes}:{rest:02d}"


def test_format_duration():
    assert format_duration(125) == "2:05"
    assert format_duration(0) == "0:00"
    assert format_duration(60) == "1:00"
    assert format_duration(59) == "0:59"


def days_in_month(year, month):
    """Return the number of days of a month."""
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return 29 if leap else 28
    if month in (4, 6, 9, 11):
        return 30
    return 31


def test_days_in_month():
    assert days_in_month(2023, 1) == 31
    assert days_in_month(2023, 2) == 28
    assert days_in_month(2024, 2) == 29
    assert days_in_month(1900, 2) == 28
    assert days_in_month(2000, 2) == 29
    assert days_in_month(2023, 4) == 30
    assert days_in_month(2023, 11) == 30


def twelve_hour(hour):
    """Write an hour of 0 to 23 as '12 am' to '11 pm'."""
    suffix = "am" if hour < 12 else "pm"
    hour = hour % 12
    if hour == 0:
        hour = 12
    return f"{hour} {suffix}"


def test_twelve_hour():
    assert twelve_hour(0) == "12 am"
    assert twelve_hour(9) == "9 am"
    assert twelve_hour(12) == "12 pm"
    assert twelve_hour(15) == "3 pm"
    assert twelve_hour(23) == "11 pm"


def overlap(start1, end1, start2, end2):
    """Return how long two time spans overlap, 0 when they do not."""
    start = max(start1, start2)
    end = min(end1, end2)
    return max(0, end - start)


def test_overlap():
    assert overlap(1, 5, 3, 8) == 2
    assert overlap(1, 2, 3, 4) == 0
    assert overlap(0, 10, 2, 4) == 2
    assert overlap(3, 6, 1, 5) == 2
    assert overlap(1, 3, 3, 5) == 0


def day_of_year(year, month, day):
    """Return the number of a date within its year, from 1."""
    lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        lengths[1] = 29
    return sum(lengths[: month - 1]) + day


def test_day_of_year():
    assert day_of_year(2023, 1, 1) == 1
    assert day_of_year(2023, 3, 1) == 60
    assert day_of_year(2024, 3, 1) == 61
    assert day_of_year(2023, 12, 31) == 365
    assert day_of_year(1900, 3, 1) == 60
    assert day_of_year(2000, 12, 31) == 366


def add_minutes(hour, minute, extra):
    """Return the time as (hour, minute) after some minutes, past midnight too."""
    total = hour * 60 + minute + extra
    return total // 60 % 24, total % 60


def test_add_minutes():
    assert add_minutes(10, 30, 15) == (10, 45)
    assert add_minutes(10, 50, 20) == (11, 10)
    assert add_minutes(23, 59, 1) == (0, 0)
    assert add_minutes(0, 0, 120) == (2, 0)
