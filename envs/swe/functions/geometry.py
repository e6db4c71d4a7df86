"""Small functions for tasks: geometry and grids. Untyped, since prompt tokens are the currency."""
# mypy: ignore-errors
# ruff: noqa: E712


def rect_area(width, height):
    """Return the area of a rectangle, 0 when a side is negative."""
    if width < 0 or height < 0:
        return 0
    return width * height


def test_rect_area():
    assert rect_area(2, 3) == 6
    assert rect_area(-1, 3) == 0
    assert rect_area(3, -1) == 0
    assert rect_area(1, 1) == 1
    assert rect_area(-2, -3) == 0


def perimeter(width, height):
    """Return the perimeter of a rectangle."""
    return 2 * (width + height)


def test_perimeter():
    assert perimeter(2, 3) == 10
    assert perimeter(1, 1) == 4
    assert perimeter(0, 5) == 10
    assert perimeter(4, 0) == 8
    assert perimeter(0, 0) == 0


def distance(x1, y1, x2, y2):
    """Return the straight distance of two points."""
    dx = x2 - x1
    dy = y2 - y1
    return (dx * dx + dy * dy) ** 0.5


def test_distance():
    assert distance(0, 0, 3, 4) == 5.0
    assert distance(1, 1, 1, 1) == 0.0
    assert distance(2, 0, 5, 0) == 3.0
    assert distance(0, 1, 0, 3) == 2.0
    assert distance(1, 2, 4, 6) == 5.0


def manhattan(x1, y1, x2, y2):
    """Return the distance along streets."""
    return abs(x1 - x2) + abs(y1 - y2)


def test_manhattan():
    assert manhattan(0, 0, 3, 4) == 7
    assert manhattan(1, 1, 1, 1) == 0
    assert manhattan(5, 2, 1, 2) == 4
    assert manhattan(2, 1, 2, 7) == 6


def inside(x, y, left, top, right, bottom):
    """Tell whether a point lies in a box, edges included."""
    return left <= x <= right and top <= y <= bottom


def test_inside():
    assert inside(1, 1, 0, 0, 2, 2) == True
    assert inside(0, 0, 0, 0, 2, 2) == True
    assert inside(3, 1, 0, 0, 2, 2) == False
    assert inside(1, 3, 0, 0, 2, 2) == False
    assert inside(2, 2, 0, 0, 2, 2) == True
    assert inside(-1, 1, 0, 0, 2, 2) == False


def transpose(grid):
    """Swap the rows and columns of a grid."""
    return [[row[i] for row in grid] for i in range(len(grid[0]))]


def test_transpose():
    assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]
    assert transpose([[1, 2, 3]]) == [[1], [2], [3]]
    assert transpose([[5]]) == [[5]]


def is_triangle(a, b, c):
    """Tell whether three lengths can form a triangle."""
    return a + b > c and a + c > b and b + c > a


def test_is_triangle():
    assert is_triangle(3, 4, 5) == True
    assert is_triangle(1, 2, 3) == False
    assert is_triangle(9, 1, 1) == False
    assert is_triangle(1, 9, 1) == False
    assert is_triangle(2, 2, 2) == True
    assert is_triangle(1, 1, 9) == False


def diagonal_sum(grid):
    """Add the numbers on the main diagonal of a square grid."""
    total = 0
    for i in range(len(grid)):
        total += grid[i][i]
    return total


def test_diagonal_sum():
    assert diagonal_sum([[1, 2], [3, 4]]) == 5
    assert diagonal_sum([[7]]) == 7
    assert diagonal_sum([]) == 0
    assert diagonal_sum([[1, 0, 0], [0, 1, 0], [0, 0, 1]]) == 3


def neighbors(x, y, width, height):
    """Return the cells left, right, above and below that lie on the grid."""
    cells = [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]
    return [(a, b) for a, b in cells if 0 <= a < width and 0 <= b < height]


def test_neighbors():
    assert neighbors(0, 0, 2, 2) == [(1, 0), (0, 1)]
    assert neighbors(1, 1, 3, 3) == [(0, 1), (2, 1), (1, 0), (1, 2)]
    assert neighbors(0, 0, 1, 1) == []
    assert neighbors(1, 1, 2, 2) == [(0, 1), (1, 0)]


def midpoint(x1, y1, x2, y2):
    """Return the point half-way between two points."""
    return (x1 + x2) / 2, (y1 + y2) / 2


def test_midpoint():
    assert midpoint(0, 0, 2, 4) == (1.0, 2.0)
    assert midpoint(1, 1, 1, 1) == (1.0, 1.0)
    assert midpoint(-1, 0, 1, 0) == (0.0, 0.0)
    assert midpoint(0, 3, 0, 5) == (0.0, 4.0)
