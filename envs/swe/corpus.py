"""The functions bugs are put into, read as text from ``functions/``. Nothing of them is imported.

Example:
    >>> median = load_functions()["median"]
    >>> median.file, median.checks[0]
    ('stats.py', Check(call='median([3, 1, 2])', expected='2'))
"""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "functions"


@dataclass(frozen=True)
class Check:
    """One hidden check.

    Attributes:
        call: expression evaluated beside the agent's source.
        expected: literal it must equal; never leaves the host.
    """

    call: str
    expected: str


@dataclass(frozen=True)
class Function:
    """One function of the corpus.

    Attributes:
        name: unique over the corpus.
        file: name of the file it is handed out in.
        source: the right source, as handed out but for the bug.
        checks: what must hold; at least three.
    """

    name: str
    file: str
    source: str
    checks: tuple[Check, ...]


@cache
def load_functions() -> dict[str, Function]:
    """Return every function of the corpus by name, in the order of files and lines.

    Raises:
        ValueError: a function without checks, or a check that is not ``call == literal``.
    """
    functions: dict[str, Function] = {}
    for path in sorted(_FOLDER.glob("*.py")):
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        nodes = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        for name, node in nodes.items():
            if name.startswith("test_"):
                continue
            source = (ast.get_source_segment(text, node) or "") + "\n"
            checks = tuple(_read_checks(nodes[f"test_{name}"], text))
            if name in functions or len(checks) < 3:
                raise ValueError(f"{path.name}: {name} is a second one or has under three checks")
            functions[name] = Function(name, path.name, source, checks)
    return functions


def _read_checks(test: ast.FunctionDef, text: str) -> list[Check]:
    checks = []
    for statement in test.body:
        match statement:
            case ast.Assert(
                test=ast.Compare(left=ast.Call() as call, ops=[ast.Eq()], comparators=[literal])
            ):
                ast.literal_eval(literal)
                expected = ast.get_source_segment(text, literal) or ""
                checks.append(Check(ast.get_source_segment(text, call) or "", expected))
            case _:
                raise ValueError(f"{test.name}: line {statement.lineno} is not call == literal")
    return checks
