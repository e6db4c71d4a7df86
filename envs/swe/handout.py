"""What a package task hands out, and the patch that mends it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from envs.errors import TaskError
from envs.swe.mutant_tasks import spoilt
from envs.swe.patches import unified
from envs.swe.release_tasks import pass_to_pass, read_blob
from envs.swe.trees import Tree, pack, unpack


def given_tree(data: Mapping[str, Any]) -> Tree:
    """Return the tree the agent starts from. Raises ``TaskError``."""
    try:
        tree = unpack(read_blob(data["source"]))
    except ValueError as error:
        raise TaskError(f"{data['source']['path']}: {error}") from error
    return spoilt(tree, data["mutation"]) if "mutation" in data else tree


def given_archive(data: Mapping[str, Any]) -> bytes:
    """Return that tree as a gzipped tar. Raises ``TaskError``."""
    return pack(given_tree(data)) if "mutation" in data else read_blob(data["source"])


def gold_patch(data: Mapping[str, Any]) -> str:
    """Return the patch that mends the tree. Raises ``TaskError``."""
    if "mutation" not in data:
        return read_blob(data["gold"]).decode("utf-8")
    path = data["mutation"]["path"]
    right = unpack(read_blob(data["source"]))
    return unified({path: spoilt(right, data["mutation"])[path]}, {path: right[path]})


def must_hold(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the node ids that must keep passing. Raises ``TaskError``."""
    return _without(pass_to_pass(data["facts"]), frozenset(data["fail_to_pass"]))


@lru_cache(maxsize=32)
def _without(names: tuple[str, ...], others: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in others)
