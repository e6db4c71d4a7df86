"""From a choice that was sampled to the turn that stays of it."""

import logging
from array import array
from dataclasses import replace
from typing import Any

from .fitness import FitnessLog, unfit_reasons
from .jobs import Job
from .redaction import Redact
from .reply import Answer
from .sessions import SessionStore
from .turns import Feedback, Turn, reply_message

logger = logging.getLogger(__name__)

REDACTED = "redacted"


class Recorder:
    """Writes turns down.

    Args:
        sessions: where to.
        redact: changes a turn or feedback before it reaches the sinks; None in its place records
            nothing.

    Attributes:
        fitness: counts what can be trained on.
        num_faults: calls that could not be read.
    """

    def __init__(self, sessions: SessionStore, redact: Redact | None = None) -> None:
        self._sessions = sessions
        self._redact = redact
        self.fitness = FitnessLog()
        self.num_faults = 0

    def record(self, job: Job, index: int, answer: Answer) -> None:
        """Remember a choice for the session's next turn and for the learner."""
        place, generation = job.place, answer.generation
        self.num_faults += len(answer.parsed.faults)
        if place is None:
            self.fitness.add(("text completion",))
            return
        sampling = job.samplings_G[index]
        unfit = unfit_reasons(sampling, generation, place.kind, private=place.private)
        if not generation.token_ids_T:
            self.fitness.add(unfit)
            return
        reply = reply_message(answer.parsed.content, answer.tool_calls)
        since = 0 if place.parent is None else place.parent.num_before + 1
        turn = Turn(
            id=job.id if index == 0 else f"{job.id}#{index}",
            session=place.session,
            owner=place.owner,
            num_before=len(place.trail.messages),
            prompt_ids_P=array("i", job.prompt.ids_P),
            token_ids_T=array("i", generation.token_ids_T),
            logprobs_T=array("d", generation.logprobs_T),
            versions_T=array("i", generation.versions_T),
            text=answer.parsed.content,
            parent=None if place.parent is None else place.parent.id,
            messages=tuple(place.trail.messages[since:]),
            reasoning=answer.parsed.reasoning,
            tool_calls=answer.tool_calls,
            tools=tuple(job.tools),
            context=place.context,
            temperature=sampling.temperature,
            finish_reason=generation.finish_reason,
            kind=place.kind,
            drift=job.prompt.drift.value,
            adapter=sampling.adapter,
            unfit=unfit,
            stored=place.stores,
            node=place.trail.node(place.owner, place.scope, reply),
        )
        shown = self._shown(turn, place.parent)
        self.fitness.add((REDACTED,) if shown is None else shown.unfit)
        if shown is not None:
            asked = place.trail if place.scope is None else None
            if REDACTED in shown.unfit:  # what goes on from it spells it, too
                turn = replace(turn, unfit=(*turn.unfit, REDACTED))
            self._sessions.record(turn, asked, shown)

    def feedback(self, owner: str, said: Feedback) -> Turn | None:
        """Attach feedback to a turn of its owner and return the turn; None if there is none."""
        shown = self._changed(said)
        if shown is None:
            return self._sessions.get(owner, said.turn)
        return self._sessions.give(owner, said, shown)

    def _shown(self, turn: Turn, parent: Turn | None) -> Turn | None:
        """Return a turn as the sinks may see it; where the hook changed what was said, here or
        earlier in the conversation, without the ids that spell it."""
        if self._redact is None:
            return turn
        shown: Turn | None = self._changed(turn)
        if shown is None:
            return None
        said = (turn.text, turn.reasoning, turn.messages, turn.tool_calls)
        same = said == (shown.text, shown.reasoning, shown.messages, shown.tool_calls)
        if same and (parent is None or REDACTED not in parent.unfit):
            return shown
        none: array[int] = array("i")
        return replace(
            shown,
            prompt_ids_P=none,
            token_ids_T=none,
            logprobs_T=array("d"),
            versions_T=none,
            unfit=(*shown.unfit, REDACTED),
        )

    def _changed(self, kept: Any) -> Any:
        """Return what the hook leaves of a turn or feedback."""
        if self._redact is None:
            return kept
        try:
            return self._redact(kept)
        except Exception:  # somebody's program: what it could not look at is not kept
            logger.exception("the redaction hook failed; a turn is not recorded")
            return None
