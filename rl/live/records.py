"""A judged turn of a chat as the episode and the signal that learning knows."""

from agents.types import Episode, StopReason
from agents.types import Turn as EpisodeTurn
from rl.judge.types import Exchange, Judgement
from rl.types import Hint, TurnSignal
from serving.turns import Turn

ENV = "chat"


def episode_id(turn_id: str) -> str:
    """Return the id of a turn's episode; its group has the same."""
    return f"chat:{turn_id}"


def turn_id(episode: str) -> str:
    """Inverse of ``episode_id``."""
    return episode.removeprefix("chat:")


def episode_of(turn: Turn, exchange: Exchange, judgement: Judgement) -> Episode:
    """Return a turn as an episode of one turn, in a group of its own.

    Its reward is the judged quality: 0 bad, 0.5 no verdict, 1 good. Methods for chat read the
    signal instead.
    """
    name = episode_id(turn.id)
    played = EpisodeTurn(
        prompt_ids_P=tuple(turn.prompt_ids_P),
        token_ids_T=tuple(turn.token_ids_T),
        logprobs_T=tuple(turn.logprobs_T),
        versions_T=tuple(turn.versions_T),
        finish_reason=turn.finish_reason,
        text=turn.text,
        action=turn.text,
        observation="\n".join(_words(message) for message in exchange.next_state),
        reward=(judgement.score + 1) / 2,
    )
    return Episode(
        id=name,
        group_id=name,
        task_id=f"chat/{turn.session}",
        env=ENV,
        split="train",
        family=turn.owner or "owner",
        turns=(played,),
        reward=(judgement.score + 1) / 2,
        stop_reason=StopReason.SUBMITTED,
        temperature=turn.temperature,
        started_at=turn.created,
        meta={"relation": exchange.relation.value, "source": judgement.source},
    )


def signal_of(turn: Turn, exchange: Exchange, judgement: Judgement, hint: str) -> TurnSignal:
    """Return what was found about a turn."""
    return TurnSignal(
        episode_id(turn.id),
        0,
        score=judgement.score,
        confidence=judgement.confidence,
        subject=exchange.subject,
        hints=(Hint(hint),) if hint else (),
        reason=f"{judgement.source}: {judgement.reason}",
    )


def _words(message: object) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else str(content or "")
