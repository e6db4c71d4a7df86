"""Hand-made turns of a chat."""

from array import array
from dataclasses import replace
from typing import Any

from serving.turns import Turn


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def turn(name: str, text: str = "hi", parent: str | None = None, **changes: Any) -> Turn:
    made = Turn(
        id=name,
        session=changes.pop("session", "s"),
        num_before=1,
        prompt_ids_P=array("i", [1, 2, 3]),
        token_ids_T=array("i", [4, 5]),
        logprobs_T=array("d", [-0.5, -0.6]),
        versions_T=array("i", [0, 0]),
        text=f"reply of {name}",
        parent=parent,
        messages=(said(text),),
        node=name,
        created=changes.pop("created", 1000.0),
    )
    return replace(made, **changes)
