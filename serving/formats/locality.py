"""How far a chat template looks around a message; a turn is rendered without its history then.

Proved from the template's syntax tree, never guessed. The template must be one loop over the
messages, and what it writes for a message may depend on that message, on the one before and the one
after it, on whether it is the first or the last, on the first message, and on what the request
offers beside the messages. So what it writes behind a reply does not depend on messages further
away. Anything else (counters, namespaces, macros, a list of messages cut in two, a look ahead for
the last question) is of no known reach, which costs time and nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import nodes

# nodes that compute from their parts alone and keep no state between two messages
PLAIN = (
    *("Add", "And", "Assign", "Call", "Compare", "Concat", "CondExpr", "Const", "Dict", "Filter"),
    *("For", "Getattr", "Getitem", "If", "Keyword", "List", "Mul", "Name", "Neg", "Not", "Operand"),
    *("Or", "Output", "Pair", "Slice", "Sub", "TemplateData", "Test", "Tuple"),
)
FUNCTIONS = ("raise_exception", "range", "dict")  # others may keep a state, as joiner() does
MESSAGES, LOOP = "messages", "loop"


class _Unfit(Exception):
    """A part of a template whose reach is not known."""


def reach(source: str) -> int | None:
    """Return 0 if a template writes each message by itself, 1 if it also looks at its neighbours,
    None if neither is known."""
    from jinja2 import Environment, TemplateSyntaxError
    from jinja2.nodes import For

    try:
        tree = Environment(trim_blocks=True, lstrip_blocks=True).parse(source)
    except TemplateSyntaxError:  # a tag of transformers' own, say
        return None
    loops = [node for node in tree.body if isinstance(node, For) and _is_name(node.iter, MESSAGES)]
    if len(loops) != 1 or not _is_plain_loop(loops[0]):
        return None
    (loop,) = loops
    around, inside = _Walk("", ""), _Walk(loop.target.name, LOOP)  # type: ignore[attr-defined]
    try:
        for node in tree.body:
            if node is not loop:
                around.visit(node)
        for node in loop.body:
            inside.visit(node)
    except _Unfit:
        return None
    return int(inside.sees_neighbours)


@dataclass
class _Walk:
    """Visits what stands around the loop over the messages, or in it.

    Attributes:
        message: the name of the loop's variable; "" around it.
        loop: the name of that loop's own state where it can be seen.
    """

    message: str
    loop: str
    sees_neighbours: bool = False

    def visit(self, node: "nodes.Node") -> None:
        """Look at a node and all below it; raises ``_Unfit``."""
        from jinja2 import nodes

        if _is_item(node, lambda at: _is_const(at, 0)) or self._is_known(node):
            return
        if type(node).__name__ not in PLAIN:
            raise _Unfit
        match node:
            case nodes.Name(name=name):
                if name in (MESSAGES, self.loop) or (node.ctx != "load" and name == self.message):
                    raise _Unfit
            case nodes.Call() if not isinstance(node.node, nodes.Getattr):
                if not (isinstance(node.node, nodes.Name) and node.node.name in FUNCTIONS):
                    raise _Unfit
            case nodes.Assign() if not isinstance(node.target, nodes.Name):  # of a namespace
                raise _Unfit
            case nodes.Filter(name="random"):
                raise _Unfit
            case nodes.For():
                self._visit_inner(node)
                return
        for part in node.iter_child_nodes():
            self.visit(part)

    def _visit_inner(self, node: "nodes.For") -> None:
        """A loop over something else: its own ``loop`` hides the one over the messages."""
        self.visit(node.iter)
        inner = _Walk(self.message, "")
        for part in (*node.body, *node.else_, *([node.test] if node.test else [])):
            inner.visit(part)
        inner.visit(node.target)
        self.sees_neighbours |= inner.sees_neighbours

    def _is_known(self, node: "nodes.Node") -> bool:
        """Whether a node tells no more than a message's own place and its neighbours."""
        from jinja2 import nodes

        if not self.loop:
            return False
        if _is_state(node, "first"):
            return True
        if isinstance(node, nodes.Compare) and _is_state(node.expr, "index0"):
            with_zero = [each.op in ("eq", "ne") and _is_const(each.expr, 0) for each in node.ops]
            return with_zero == [True]
        if _is_state(node, "last", "previtem", "nextitem") or _is_item(node, _is_beside):
            self.sees_neighbours = True
            return True
        return False


def _is_plain_loop(loop: "nodes.For") -> bool:
    from jinja2.nodes import Name

    return isinstance(loop.target, Name) and not (loop.test or loop.else_ or loop.recursive)


def _is_name(node: Any, name: str) -> bool:
    from jinja2.nodes import Name

    return isinstance(node, Name) and node.name == name


def _is_const(node: Any, value: int) -> bool:
    from jinja2.nodes import Const

    return isinstance(node, Const) and type(node.value) is int and node.value == value


def _is_state(node: Any, *attributes: str) -> bool:
    """``loop.first`` and such."""
    from jinja2.nodes import Getattr

    return isinstance(node, Getattr) and _is_name(node.node, LOOP) and node.attr in attributes


def _is_item(node: Any, fits: Callable[[Any], bool]) -> bool:
    """``messages[…]``"""
    from jinja2.nodes import Getitem

    return isinstance(node, Getitem) and _is_name(node.node, MESSAGES) and fits(node.arg)


def _is_beside(node: Any) -> bool:
    """``loop.index0 - 1`` or ``loop.index0 + 1``"""
    from jinja2.nodes import Add, Sub

    is_sum = isinstance(node, Add | Sub)
    return is_sum and _is_state(node.left, "index0") and _is_const(node.right, 1)
