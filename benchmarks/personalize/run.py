"""One cell: a served policy, a method, a user or several, session after session."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.served import Program, RunFailed, serve
from envs import registry
from envs.chat.tasks import load_tasks
from envs.types import Task
from serving.errors import PolicyError
from serving.types import Message, Sampling

METHODS = ("none", "memory", "binary", "opd", "hybrid")
LEARNING = ("binary", "opd", "hybrid")
SYSTEM = "You are a helpful assistant."
IN_A_ROW = 3
FAREWELL_TOKENS = 8
REMEMBERED = 6  # corrections a memory keeps


@dataclass(frozen=True)
class Cell:
    """What is played.

    Attributes:
        method: one of ``METHODS``.
        personas: who talks, by turns.
        seed: of questions, users and sampling.
        cap: most sessions of each persona.
        past: sessions played on after convergence.
        skill: held-out questions asked before and after.
        settings: for ``rl.train``.
    """

    method: str
    personas: tuple[str, ...]
    seed: int
    model: str
    cap: int
    past: int
    reply_tokens: int
    temperature: float
    skill: int
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For people and folders."""
        return f"{self.method}-{'+'.join(self.personas)}-seed{self.seed}"


@dataclass
class Memory:
    """What a plain memory remembers of a user: their corrections, in their words."""

    heard: list[str] = field(default_factory=list)

    def system(self) -> str:
        """Return the system message of the next session."""
        if not self.heard:
            return SYSTEM
        lines = "\n".join(f"- {text}" for text in self.heard[-REMEMBERED:])
        return f"{SYSTEM} In earlier sessions this user said of your replies:\n{lines}"


async def play(cell: Cell, out: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Play a cell and return its sessions, convergence and skill before and after.

    Raises:
        RunFailed: the program under test ended or stood still.
    """
    begun = time.monotonic()
    folder = out / cell.name
    if folder.exists():  # of a cell that was not finished
        folder.rename(folder.with_name(f"{folder.name}.unfinished-{secrets.token_hex(3)}"))
    async with serve(_command(cell, folder), folder) as program:
        before = await _skill(cell, program)
        sessions: list[dict[str, Any]] = []
        memories = {name: Memory() for name in cell.personas}
        open_ends = dict.fromkeys(cell.personas, cell.cap)  # sessions still to be played
        rows: dict[str, list[bool]] = {name: [] for name in cell.personas}
        while any(open_ends.values()):
            for name in [n for n, left in open_ends.items() if left]:
                session = await _session(cell, program, name, len(rows[name]), memories[name])
                if cell.method in LEARNING:
                    await program.settle()
                rows[name].append(bool(session["clean"]))
                sessions.append({**session, "minutes": (time.monotonic() - begun) / 60})
                open_ends[name] = _left(cell, rows[name])
                say(
                    f"  {name} session {len(rows[name])}: first reply "
                    f"{session['score']:.2f}, {session['replies']} replies, "
                    f"version {session['version']}"
                )
        after = await _skill(cell, program)
    return {
        "sessions": sessions,
        "converged": {name: converged(clean) for name, clean in rows.items()},
        "skill_before": before,
        "skill_after": after,
        "minutes": (time.monotonic() - begun) / 60,
    }


def converged(clean: Sequence[bool]) -> int | None:
    """Return the number of the session that was the third clean one in a row, or None."""
    for end in range(IN_A_ROW, len(clean) + 1):
        if all(clean[end - IN_A_ROW : end]):
            return end
    return None


def _left(cell: Cell, clean: Sequence[bool]) -> int:
    """Return how many sessions of a persona are still to be played."""
    at = converged(clean)
    end = cell.cap if at is None else min(cell.cap, at + cell.past)
    return max(0, end - len(clean))


async def _session(
    cell: Cell, program: Program, persona: str, number: int, memory: Memory
) -> dict[str, Any]:
    """Talk until the user leaves, and say goodbye, so that the last reply has a next state too."""
    task = _task(persona, number, cell.seed)
    env = registry.make("chat", tasks=[task])
    name = f"{cell.name}-{persona}-{number}"
    seen, _ = env.reset(seed=cell.seed * 1009 + number, options={"task": task})
    system = memory.system() if cell.method == "memory" else SYSTEM
    messages: list[Message] = [{"role": "system", "content": system}, _user(seen)]
    score, clean, version, replies, over = 0.0, False, 0, 0, False
    corrections = 0
    while not over:
        reply = await _ask(program, messages, name, cell, cell.reply_tokens)
        replies += 1
        version = max(version, *reply.generation.versions_T)
        seen, reward, terminated, truncated, info = env.step(reply.text)
        if replies == 1:
            score, clean = float(reward), bool(info["first_reply_clean"])
        over = terminated or truncated
        if info["move"] == "correct":
            memory.heard.append(str(seen["message"]))
            corrections += 1
        messages += [{"role": "assistant", "content": reply.text}, _user(seen)]
    await _ask(program, messages, name, cell, FAREWELL_TOKENS)
    return {
        "persona": persona, "number": number, "score": score, "clean": clean,
        "replies": replies, "version": version, "corrections": corrections,
    }  # fmt: skip


async def _ask(
    program: Program, messages: Sequence[Message], session: str, cell: Cell, tokens: int
) -> Any:
    program.check()
    try:
        return await program.client.complete(
            messages,
            session=session,
            sampling=Sampling(max_tokens=tokens, temperature=cell.temperature),
        )
    except PolicyError as error:
        raise RunFailed(f"no reply: {error}") from error


async def _skill(cell: Cell, program: Program) -> float | None:
    """Return the share of held-out questions whose kept answer is in a greedy first reply."""
    if not cell.skill:
        return None
    tasks = [
        task
        for task in load_tasks()
        if task.split == "heldout" and task.data["requests"][0].get("answer")
    ]
    right = []
    for number, task in enumerate(tasks[:: max(1, len(tasks) // cell.skill)][: cell.skill]):
        env = registry.make("chat", tasks=[task])
        seen, _ = env.reset(seed=0, options={"task": task})
        messages = [{"role": "system", "content": SYSTEM}, _user(seen)]
        greedy = replace(cell, temperature=0.0)
        session = f"skill-{number}-{secrets.token_hex(4)}"
        reply = await _ask(program, messages, session, greedy, cell.reply_tokens)
        right.append(bool(env.step(reply.text)[4]["answered"]))
    return sum(right) / len(right) if right else None


def _task(persona: str, number: int, seed: int) -> Task:
    """Return the session's task: another question each time, the wishes of that session."""
    tasks = [t for t in load_tasks() if t.family == persona and t.split == "train"]
    task = tasks[(number * 7 + seed * 13) % len(tasks)]
    return replace(task, id=f"{task.id}#{number}", data={**task.data, "session": number})


def _user(seen: Mapping[str, Any]) -> Message:
    return {"role": "user", "content": str(seen["message"])}


def _command(cell: Cell, folder: Path) -> list[str]:
    """Return the program under test: a live run, or a server that learns nothing."""
    if cell.method not in LEARNING:
        return ["serving", f"model={cell.model}"]
    return [
        "rl.train", "env=chat", f"model={cell.model}", f"run={folder}",
        f"algorithm={cell.method}", f"seed={cell.seed}",
        "algorithm.train_truncated=true",  # reply_tokens cuts most: the user answers what there is
        *cell.settings,
    ]  # fmt: skip
