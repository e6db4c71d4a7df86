"""Small functions for tasks: statistics. Untyped, since prompt tokens are the currency."""
# mypy: ignore-errors


def mean(values):
    """Return the average, or 0 for no values."""
    if len(values) == 0:
        return 0
    return sum(values) / len(values)


def test_mean():
    assert mean([1, 2, 3]) == 2.0
    assert mean([]) == 0
    assert mean([5]) == 5.0
    assert mean([1, 2]) == 1.5


def median(values):
    """Return the middle value, or the mean of the two middle ones."""
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


def test_median():
    assert median([3, 1, 2]) == 2
    assert median([1, 2, 3, 4]) == 2.5
    assert median([7]) == 7
    assert median([4, 2]) == 3.0
    assert median([9, 1, 5, 3, 7]) == 5


def value_range(values):
    """Return the largest minus the smallest value."""
    return max(values) - min(values)


def test_value_range():
    assert value_range([1, 5, 3]) == 4
    assert value_range([2]) == 0
    assert value_range([-1, 1]) == 2
    assert value_range([0, 6]) == 6


def clamp(value, low, high):
    """Keep value between low and high."""
    if value < low:
        return low
    if value > high:
        return high
    return value


def test_clamp():
    assert clamp(5, 0, 3) == 3
    assert clamp(-1, 0, 3) == 0
    assert clamp(2, 0, 3) == 2
    assert clamp(0, 0, 3) == 0
    assert clamp(3, 0, 3) == 3


def variance(values):
    """Return the mean squared distance from the mean."""
    middle = sum(values) / len(values)
    return sum((v - middle) ** 2 for v in values) / len(values)


def test_variance():
    assert variance([1, 3]) == 1.0
    assert variance([2, 2, 2]) == 0.0
    assert variance([0, 4]) == 4.0
    assert variance([1, 1, 4, 4]) == 2.25


def moving_average(values, width):
    """Return the averages of all windows of the given width."""
    result = []
    for end in range(width, len(values) + 1):
        window = values[end - width : end]
        result.append(sum(window) / width)
    return result


def test_moving_average():
    assert moving_average([1, 2, 3], 2) == [1.5, 2.5]
    assert moving_average([4, 6], 1) == [4.0, 6.0]
    assert moving_average([1], 2) == []
    assert moving_average([1, 2, 3, 7], 3) == [2.0, 4.0]


def percent(part, whole):
    """Return part of whole in percent; 0 when whole is 0."""
    if whole == 0:
        return 0
    return 100 * part / whole


def test_percent():
    assert percent(1, 4) == 25.0
    assert percent(3, 0) == 0
    assert percent(5, 5) == 100.0
    assert percent(0, 7) == 0.0


def normalize(values):
    """Scale values so that they run from 0 to 1."""
    low = min(values)
    high = max(values)
    if low == high:
        return [0.0 for _ in values]
    return [(v - low) / (high - low) for v in values]


def test_normalize():
    assert normalize([0, 5, 10]) == [0.0, 0.5, 1.0]
    assert normalize([3, 3]) == [0.0, 0.0]
    assert normalize([2, 4]) == [0.0, 1.0]
    assert normalize([-1, 1]) == [0.0, 1.0]


def mode_count(values):
    """Return how often the most frequent value occurs."""
    counts = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return max(counts.values(), default=0)


def test_mode_count():
    assert mode_count([1, 2, 2]) == 2
    assert mode_count([]) == 0
    assert mode_count(["a"]) == 1
    assert mode_count([1, 2, 1, 2, 1]) == 3
