"""Small functions for tasks: lists. Untyped, since prompt tokens are the currency."""
# mypy: ignore-errors
# ruff: noqa: E711, E712, SIM110


def chunks(items, size):
    """Cut items into lists of the given size; the last may be shorter."""
    result = []
    for start in range(0, len(items), size):
        result.append(items[start : start + size])
    return result


def test_chunks():
    assert chunks([1, 2, 3, 4], 2) == [[1, 2], [3, 4]]
    assert chunks([1, 2, 3], 2) == [[1, 2], [3]]
    assert chunks([], 3) == []
    assert chunks([1, 2], 1) == [[1], [2]]


def flatten(rows):
    """Put the items of all rows into one list."""
    flat = []
    for row in rows:
        flat.extend(row)
    return flat


def test_flatten():
    assert flatten([[1, 2], [3]]) == [1, 2, 3]
    assert flatten([]) == []
    assert flatten([[], [1]]) == [1]
    assert flatten([[], []]) == []


def unique(items):
    """Drop repeated items, keeping the first of each."""
    seen = []
    for item in items:
        if item not in seen:
            seen.append(item)
    return seen


def test_unique():
    assert unique([1, 1, 2]) == [1, 2]
    assert unique([3, 1, 3, 2]) == [3, 1, 2]
    assert unique([]) == []
    assert unique(["b", "a", "b"]) == ["b", "a"]


def rotate(items, steps):
    """Move the first steps items to the end."""
    if not items:
        return items
    cut = steps % len(items)
    return items[cut:] + items[:cut]


def test_rotate():
    assert rotate([1, 2, 3], 1) == [2, 3, 1]
    assert rotate([1, 2, 3], 4) == [2, 3, 1]
    assert rotate([], 2) == []
    assert rotate([1, 2], 0) == [1, 2]
    assert rotate([1, 2, 3], 3) == [1, 2, 3]


def second_largest(numbers):
    """Return the second largest different number, or None."""
    ranked = sorted(set(numbers), reverse=True)
    if len(ranked) < 2:
        return None
    return ranked[1]


def test_second_largest():
    assert second_largest([1, 5, 3]) == 3
    assert second_largest([4, 4]) == None
    assert second_largest([9, 9, 7]) == 7
    assert second_largest([]) == None
    assert second_largest([1, 2]) == 1


def running_total(numbers):
    """Return the list of sums of the first one, two, three ... numbers."""
    total = 0
    sums = []
    for number in numbers:
        total += number
        sums.append(total)
    return sums


def test_running_total():
    assert running_total([1, 2, 3]) == [1, 3, 6]
    assert running_total([]) == []
    assert running_total([5]) == [5]
    assert running_total([2, -2]) == [2, 0]
    assert running_total([0, 0]) == [0, 0]


def pairs(items):
    """Return every item together with the next one."""
    result = []
    for i in range(len(items) - 1):
        result.append((items[i], items[i + 1]))
    return result


def test_pairs():
    assert pairs([1, 2, 3]) == [(1, 2), (2, 3)]
    assert pairs([1]) == []
    assert pairs([]) == []
    assert pairs(["a", "b"]) == [("a", "b")]


def group_by_length(words):
    """Map each length to the words of that length."""
    groups = {}
    for word in words:
        groups.setdefault(len(word), []).append(word)
    return groups


def test_group_by_length():
    assert group_by_length(["a", "bb", "c"]) == {1: ["a", "c"], 2: ["bb"]}
    assert group_by_length([]) == {}
    assert group_by_length(["x"]) == {1: ["x"]}


def partition(numbers, pivot):
    """Split numbers into those below the pivot and all others."""
    low = [n for n in numbers if n < pivot]
    high = [n for n in numbers if n >= pivot]
    return low, high


def test_partition():
    assert partition([1, 5, 3], 3) == ([1], [5, 3])
    assert partition([], 1) == ([], [])
    assert partition([4, 2], 9) == ([4, 2], [])
    assert partition([4, 7], 1) == ([], [4, 7])


def interleave(first, second):
    """Take items from both lists in turn; the rest follows at the end."""
    result = []
    size = min(len(first), len(second))
    for i in range(size):
        result.append(first[i])
        result.append(second[i])
    return result + first[size:] + second[size:]


def test_interleave():
    assert interleave([1, 3], [2, 4]) == [1, 2, 3, 4]
    assert interleave([1], [2, 4]) == [1, 2, 4]
    assert interleave([1, 3, 5], [2]) == [1, 2, 3, 5]
    assert interleave([], [7]) == [7]
    assert interleave([], []) == []


def is_sorted(items):
    """Tell whether no item is smaller than the one before it."""
    for i in range(1, len(items)):
        if items[i] < items[i - 1]:
            return False
    return True


def test_is_sorted():
    assert is_sorted([1, 2, 3]) == True
    assert is_sorted([1, 1]) == True
    assert is_sorted([2, 1]) == False
    assert is_sorted([]) == True
    assert is_sorted([1, 3, 2]) == False


def most_common(items):
    """Return the item that occurs most often; the first of them on a tie."""
    best = None
    best_count = 0
    for item in items:
        count = items.count(item)
        if count > best_count:
            best = item
            best_count = count
    return best


def test_most_common():
    assert most_common([1, 2, 2]) == 2
    assert most_common(["a", "b"]) == "a"
    assert most_common([]) == None
    assert most_common([3, 1, 1, 3, 3]) == 3
