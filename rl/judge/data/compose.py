"""Makes the labelled exchanges of the hand-written parts beside it.

``python -m rl.judge rows part=NAME`` prints one; equal files give equal rows. A part has scenes
(request, reply, reactions of several writers to it), reactions that fit any scene, reactions in
other languages, and tool calls with what came back. Some exchanges get an earlier one of the same
part as history. No scene, reaction or writer's style is in two parts; a test checks it.

A reaction may leave words open: ``{shorter|longer}`` is one of them, ``$Q`` the scene's request,
``$N`` the request of another scene. Such a line gives several exchanges.

    train   what the default judge learns from
    test    in sight while the judge was built
    fresh   written when the features of the first model were settled; since then in sight
    fresh2  written when those of the second were settled, judged once
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KINDS = {
    "cor": ("correction", -1),
    "ask": ("re_ask", -1),
    "thx": ("thanks", 1),
    "top": ("topic_change", 0),
    "sar": ("sarcasm", -1),
    "not": ("not_meant_right_answer", -1),
    "acc": ("terse_acceptance", 1),
    "con": ("continuation", 1),
    "cmp": ("complaint", -1),
    "cla": ("clarification_question", 0),
    "giv": ("give_up", -1),
    "par": ("partly_right", -1),
    "tnx": ("thanks_then_question", 1),
    "sml": ("small_talk", 0),
    "bye": ("farewell", 0),
}
STYLES = {
    "F": "formal", "C": "chatty", "T": "terse", "P": "polite", "N": "non_native",
    "D": "developer", "B": "blunt",
    "I": "indirect", "V": "dictated", "R": "weary", "W": "reviewer", "K": "pupil", "M": "rambling",
    "Y": "typos", "E": "emoji", "S": "slang", "L": "long_winded", "O": "old_fashioned",
    "A": "academic", "H": "helpdesk", "U": "understated", "X": "texting", "J": "reporter",
    "l": "laconic", "t": "telegraphic", "g": "gamer", "r": "regional", "o": "office",
    "h": "hasty", "e": "effusive", "w": "warm", "n": "neighbourly", "u": "unpunctuated",
    "b": "businesslike", "d2": "devops", "k2": "schoolchild", "an": "anxious", "te": "teacherly",
    "sp": "sporty", "ph": "philosophical", "sh": "shopkeeper", "ca": "capitals", "eu": "literal",
}  # fmt: skip
TOOL_KINDS = {"fail": ("tool_failure", -1), "done": ("tool_success", 0)}
PARTS: dict[str, tuple[str, ...]] = {
    "train": (
        "train", "train_wishes", "train_content", "train_leaving", "train_pleased",
        "train_neutral", "train_asked", "train_languages", "train_terse", "train_gratitude",
        "train_going_on", "train_between", "train_world",
    ),
    "test": ("test",),
    "fresh": ("fresh",),
    "fresh2": ("fresh2",),
}  # fmt: skip
# of the reactions in other languages
REGISTERS = {"train": "plain", "test": "casual", "fresh": "familiar", "fresh2": "curt"}
WITH_HISTORY = 0.3
DRAWS = {-1: 4, 0: 9, 1: 8}  # by label, so that no label outnumbers the others by far

OPEN = r"\{([^{}]*\|[^{}]*)\}"  # one of several words

Row = dict[str, Any]


@dataclass
class Scene:
    """A request, its reply and the reactions to it as (kind, style, label, text)."""

    request: str = ""
    reply: str = ""
    reactions: list[tuple[str, str, int, str]] = field(default_factory=list)

    def messages(self) -> list[dict[str, str]]:
        """Return request and reply."""
        return [
            {"role": "user", "content": self.request},
            {"role": "assistant", "content": self.reply},
        ]


def compose(part: str) -> list[Row]:
    """Return the rows of one of ``PARTS``, in the format of ``rl.judge.labelled``."""
    draw = random.Random(part)
    texts = [(HERE / f"{name}.txt").read_text(encoding="utf-8") for name in PARTS[part]]
    scenes = _scenes("\n".join(texts), REGISTERS[part])
    told = [scene for scene in scenes if scene.request]
    rows = [row for scene in scenes for row in _scene_rows(scene, told, draw)]
    tools = HERE / f"tools_{part}.txt"
    rows += _tool_rows(tools.read_text(encoding="utf-8")) if tools.exists() else ()
    return [{"id": f"{part}-{place:04d}", **row} for place, row in enumerate(rows)]


def _scene_rows(scene: Scene, told: list[Scene], draw: random.Random) -> Iterator[Row]:
    for kind, style, label, text in scene.reactions:
        seen: set[str] = set()
        for _ in range(_num_draws(text, label)):
            at = scene if scene.request else draw.choice(told)
            earlier = draw.choice(told)
            before = (
                earlier.messages() if draw.random() < WITH_HISTORY and earlier is not at else []
            )
            said = _filled(text, at, told, draw)
            if said in seen:
                continue
            seen.add(said)
            yield {
                "kind": kind,
                "style": style,
                "history": [*before, at.messages()[0]],
                "reply": at.messages()[1],
                "next_state": [{"role": "user", "content": said}],
                "label": label,
            }


def _num_draws(text: str, label: int) -> int:
    """Return how many exchanges are drawn of a line; more where many words may stand."""
    choices: list[str] = re.findall(OPEN, text)
    if not choices and "$" not in text:
        return 1
    return max([DRAWS[label], *(choice.count("|") + 1 for choice in choices)])


def _filled(text: str, at: Scene, told: list[Scene], draw: random.Random) -> str:
    """Return a reaction with its open words chosen."""
    said = re.sub(OPEN, lambda m: draw.choice(m[1].split("|")), text)
    if "$N" in said:
        other = draw.choice([scene for scene in told if scene is not at])
        said = said.replace("$N", other.request)
    return said.replace("$Q", at.request)


def _scenes(text: str, register: str) -> list[Scene]:
    scenes: list[Scene] = []
    for line in _lines(text):
        head, _, rest = line.partition(" ")
        if head == "@":
            scenes.append(Scene())
        elif head in ("Q", "A"):
            setattr(scenes[-1], "request" if head == "Q" else "reply", _unescaped(rest))
        elif head == "lang":
            language, score, said = rest.split(" ", 2)
            style = f"{language}_{register}"
            scenes[-1].reactions.append(("other_language", style, int(score), said))
        else:
            kind, label = KINDS[head]
            style, _, said = rest.partition(" ")
            if said.startswith("0 "):
                label, said = 0, said[2:]
            scenes[-1].reactions.append((kind, STYLES[style], label, said))
    return scenes


def _tool_rows(text: str) -> Iterator[Row]:
    request, said = "", ""
    calls: list[Row] = []
    results: list[Row] = []
    for line in _lines(text):
        head, _, rest = line.partition(" ")
        if head == "T":
            request, calls, results, said = rest, [], [], ""
        elif head == "C":
            name, _, arguments = rest.partition(" ")
            function = {"name": name, "arguments": arguments}
            calls.append({"id": f"call-{len(calls)}", "type": "function", "function": function})
        elif head == "R":
            call_id = f"call-{len(results)}"
            result = {"role": "tool", "tool_call_id": call_id, "content": _unescaped(rest)}
            results.append(result)
        elif head == "U":
            said = rest
        else:
            kind, style, *label = rest.split(" ")
            name, score = TOOL_KINDS.get(kind, ("tool_success", int(label[0]) if label else 0))
            yield {
                "kind": name,
                "style": STYLES[style],
                "history": [{"role": "user", "content": request}],
                "reply": {"role": "assistant", "content": "", "tool_calls": calls},
                "next_state": [*results, *([{"role": "user", "content": said}] if said else [])],
                "label": score,
            }


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.strip() and not line.startswith("#"))


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")
