"""The environment of simulated users."""

import random
from collections.abc import Sequence
from typing import Any, TypedDict, cast

import gymnasium
import numpy as np
from gymnasium import spaces

from envs.chat.compose import compose
from envs.chat.session import Plan, RulesUser, Session, User, first_verdict
from envs.core import Finish, TaskEnv
from envs.spaces import Unicode
from envs.types import Task, Verdict


class ChatObservation(TypedDict):
    """What the assistant sees: the user's message, and whether the user has left with it."""

    message: str
    left: np.int64


class ChatEnv(TaskEnv[ChatObservation]):
    """A session with a user who has wishes for the form of replies and does not say so at first.

    Action space: ``Unicode``: the assistant's reply.
    Observation space: ``Dict(message, left)``: the user's message; 1 when it was the last one.
    Reward: at the first step, the share of the user's wishes that the *first* reply meets, in
    [0, 1]; 0 at all others: a reply mended after a correction earns nothing, so what pays is to
    know the user. A reply that says nothing to the request meets no wish. Whether the answer is
    right is told in ``info`` and is not part of the reward.
    Endings: ``terminated`` when the user leaves, satisfied or not; ``truncated`` at the task's
    ``max_steps``. Under ``finish="submit"`` the user goes through all questions of the task; under
    ``solved`` they leave at the first reply that meets every wish, without further questions.
    Info of a step: ``move`` (of the user), ``met`` (wish → bool), ``violated`` (names), ``hint``
    (the wishes the user spoke of, as plain sentences), ``answered``, ``first_reply_clean``; at the
    end ``verdict``. Nothing of it is in the observation but the user's own words.
    Task data: ``persona``, ``session`` (how many the user had before; wishes may drift with it) and
    ``requests`` (see ``envs.chat.request``).

    Equal seeds, tasks and replies give equal messages, unless a model plays the user.

    Args:
        tasks, finish, render_mode: see ``TaskEnv``.
        user: finds the user's words; by default the sentences of ``envs.chat.phrasings``, or the
            model behind the URL in the environment variable ``CLAWGYM_USER_URL``.

    Version history: v0.
    """

    idle = ""

    def __init__(
        self,
        tasks: Sequence[Task],
        finish: Finish = "submit",
        render_mode: str | None = None,
        user: User | None = None,
    ) -> None:
        super().__init__(tasks, finish, render_mode)
        self.action_space = Unicode(
            max_length=1 << 16,
            samples=("The answer is 12.", "**12**", "1. Add\n2. Divide", "Why do you ask?"),
        )
        parts: dict[str, spaces.Space[Any]] = {"message": Unicode(), "left": spaces.Discrete(2)}
        self.observation_space = cast("spaces.Space[ChatObservation]", spaces.Dict(parts))
        self._user = user or _default_user()
        self._session: Session | None = None
        self._ended = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ChatObservation, dict[str, Any]]:
        """Start a session: ``options={"task": Task | id}``, else one drawn with ``seed``.

        Raises:
            TaskError: an unknown id, or a task that is no session.
        """
        super().reset(seed=seed)
        self._session, self._ended = None, True
        task = self._choose(options)
        plan = Plan.of(task)
        rng = random.Random(int(self.np_random.integers(1 << 62)))
        self._session = Session(plan, self._user, rng, one_question=self.finish == "solved")
        self._task, self._steps, self._ended = task, 0, False
        text = plan.requests[0].text
        self._transcript = [f"user: {text}"]
        info = {"task": task.id, "persona": plan.persona.name, "session": plan.session}
        return ChatObservation(message=text, left=np.int64(0)), info

    def step(self, action: str) -> tuple[ChatObservation, float, bool, bool, dict[str, Any]]:
        """Give the user a reply.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset`` or after the end.
            EnvError: the user found no words; the episode has no reward.
        """
        if self._session is None or self._task is None or self._ended:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        self._steps += 1
        reply = action.encode("utf-8", "replace").decode()  # a lone surrogate has no bytes
        reaction = self._session.reply(reply)
        verdict = self.grade()
        terminated = reaction.move.ends
        truncated = self._steps >= self._task.limits.max_steps and not terminated
        self._ended = terminated or truncated
        self._transcript += [f"assistant: {reply}", f"user: {reaction.message}"]
        info: dict[str, Any] = {
            "move": str(reaction.move),
            "met": reaction.met,
            "violated": reaction.violated,
            "hint": reaction.hint,
            "answered": reaction.answered,
            "first_reply_clean": verdict.solved,
        }
        if self._ended:
            info["verdict"] = verdict
        seen = ChatObservation(message=reaction.message, left=np.int64(terminated))
        return seen, verdict.reward if self._steps == 1 else 0.0, terminated, truncated, info

    def grade(self) -> Verdict:
        """Return the verdict on the first reply; without one, that on silence.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset``.
        """
        if self._session is None:
            raise gymnasium.error.ResetNeeded("call reset() before grade()")
        plan = self._session.plan
        return self._session.verdict or first_verdict(plan.wishes, plan.requests[0], "")

    def oracle(self, task: Task) -> Sequence[str]:
        """Return a good reply to every message of the session, in order."""
        plan = Plan.of(task)
        return [compose(request, plan.wishes) for request in plan.requests]

    def close(self) -> None:
        """End the session. Idempotent."""
        self._session = None


def _default_user() -> User:
    from envs.chat.llm_user import LLMUser

    return LLMUser.named() or RulesUser()
