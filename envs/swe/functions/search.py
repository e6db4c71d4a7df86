"""Small functions for tasks: search and sort. Untyped, since prompt tokens are the currency."""
# mypy: ignore-errors
# ruff: noqa: E711


def find_index(items, target):
    """Return the first position of target, or -1."""
    for i in range(len(items)):
        if items[i] == target:
            return i
    return -1


def test_find_index():
    assert find_index([4, 5, 6], 5) == 1
    assert find_index([4, 5], 9) == -1
    assert find_index([], 1) == -1
    assert find_index([7, 7], 7) == 0


def binary_search(items, target):
    """Return the position of target in sorted items, or -1."""
    low = 0
    high = len(items) - 1
    while low <= high:
        middle = (low + high) // 2
        if items[middle] == target:
            return middle
        if items[middle] < target:
            low = middle + 1
        else:
            high = middle - 1
    return -1


def test_binary_search():
    assert binary_search([1, 3, 5], 5) == 2
    assert binary_search([1, 3, 5], 1) == 0
    assert binary_search([1, 3, 5], 4) == -1
    assert binary_search([], 1) == -1
    assert binary_search([2], 2) == 0
    assert binary_search([1, 2, 3, 4, 5, 6], 6) == 5


def insertion_sort(items):
    """Return the items in rising order."""
    result = []
    for item in items:
        place = 0
        while place < len(result) and result[place] <= item:
            place += 1
        result.insert(place, item)
    return result


def test_insertion_sort():
    assert insertion_sort([3, 1, 2]) == [1, 2, 3]
    assert insertion_sort([]) == []
    assert insertion_sort([1, 2]) == [1, 2]
    assert insertion_sort([2, 1, 2]) == [1, 2, 2]


def merge(first, second):
    """Merge two sorted lists into one."""
    result = []
    i = j = 0
    while i < len(first) and j < len(second):
        if first[i] <= second[j]:
            result.append(first[i])
            i += 1
        else:
            result.append(second[j])
            j += 1
    return result + first[i:] + second[j:]


def test_merge():
    assert merge([1, 3], [2]) == [1, 2, 3]
    assert merge([], [1]) == [1]
    assert merge([5], []) == [5]
    assert merge([1, 2], [3, 4]) == [1, 2, 3, 4]
    assert merge([3, 4], [1, 2]) == [1, 2, 3, 4]


def top_scores(scores, count):
    """Return the count best scores, best first."""
    return sorted(scores, reverse=True)[:count]


def test_top_scores():
    assert top_scores([1, 9, 5], 2) == [9, 5]
    assert top_scores([3], 2) == [3]
    assert top_scores([], 1) == []
    assert top_scores([2, 8], 1) == [8]


def two_sum(numbers, target):
    """Return the first two positions whose numbers add up to target, or None."""
    for i in range(len(numbers)):
        for j in range(i + 1, len(numbers)):
            if numbers[i] + numbers[j] == target:
                return i, j
    return None


def test_two_sum():
    assert two_sum([2, 7, 11], 9) == (0, 1)
    assert two_sum([3, 2, 4], 6) == (1, 2)
    assert two_sum([1, 2], 9) == None
    assert two_sum([], 0) == None
    assert two_sum([5, 1, 3], 8) == (0, 2)


def rank(score, scores):
    """Return the place of score among scores; the best is 1."""
    return 1 + sum(1 for other in scores if other > score)


def test_rank():
    assert rank(9, [9, 5, 7]) == 1
    assert rank(5, [9, 5, 7]) == 3
    assert rank(7, [9, 7, 7]) == 2
    assert rank(1, []) == 1


def peak(values):
    """Return the first position that is larger than both neighbours, or -1."""
    for i in range(1, len(values) - 1):
        if values[i] > values[i - 1] and values[i] > values[i + 1]:
            return i
    return -1


def test_peak():
    assert peak([1, 3, 2]) == 1
    assert peak([1, 2, 3]) == -1
    assert peak([3, 2, 1]) == -1
    assert peak([1, 1, 5, 2]) == 2
    assert peak([]) == -1


def missing_number(numbers):
    """Return the one number of 0 to n that is not in the list."""
    n = len(numbers)
    return n * (n + 1) // 2 - sum(numbers)


def test_missing_number():
    assert missing_number([0, 1, 3]) == 2
    assert missing_number([1]) == 0
    assert missing_number([0]) == 1
    assert missing_number([2, 0, 3, 1]) == 4


def longest_run(values):
    """Return the length of the longest run of equal values."""
    best = 0
    length = 0
    for i, value in enumerate(values):
        if i > 0 and value == values[i - 1]:
            length += 1
        else:
            length = 1
        best = max(best, length)
    return best


def test_longest_run():
    assert longest_run([1, 1, 2]) == 2
    assert longest_run([]) == 0
    assert longest_run([5]) == 1
    assert longest_run([1, 2, 2, 2, 1]) == 3
    assert longest_run([1, 2, 3]) == 1
