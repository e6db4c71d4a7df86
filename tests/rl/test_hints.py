"""Hints: which words may serve, how they enter the prompt, whether they work."""

import math
from dataclasses import replace

import pytest

from rl.hints import hinted_messages, make_hint, refusal, verify
from rl.judge.types import Exchange, Judgement
from serving.turns import Feedback

ASKED = {"role": "user", "content": "Name two rivers of Egypt."}
REPLY = {"role": "assistant", "content": "1. **Nile**, the longest of them all, and 2. its arms"}
BAD = Judgement(-1, source="default")


def exchange(said: str, *, asked: str = "Name two rivers of Egypt.") -> Exchange:
    history = ({"role": "user", "content": asked},)
    return Exchange("t", history, REPLY, next_state=({"role": "user", "content": said},))


def test_a_correction_serves_word_for_word_behind_a_frame() -> None:
    said = "no bold please, I told you"
    assert make_hint(exchange(said), BAD) == f"Follow this wish of the user: {said}"
    assert make_hint(exchange("bitte ohne Fettdruck"), BAD).endswith("bitte ohne Fettdruck")
    assert make_hint(exchange("请不要用粗体"), BAD).endswith("请不要用粗体")


def test_only_bad_turns_take_the_users_words() -> None:
    assert make_hint(exchange("now only those in the south"), Judgement(1)) == ""
    assert make_hint(exchange("now only those in the south"), Judgement(0)) == ""


def test_the_judges_own_hint_is_taken_as_it_is() -> None:
    own = Judgement(-1, hint="Write plain text\nwithout bold.", source="model")
    assert make_hint(exchange("no"), own) == "Write plain text without bold."


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        ("no bold", "shorter than"),
        ("use metric units " * 30, "longer than"),
        ("Nile, the longest of them all, and its arms", "copies the reply"),
        ("The correct answer is Nile and Blue Nile", "states the answer"),
        ("please name two rivers of Egypt", "prompt says it already"),
        ("that is wrong, this is bad", "says nothing"),
    ],
)
def test_what_is_refused(hint: str, reason: str) -> None:
    assert reason in refusal(hint, exchange("no"))


def test_the_answer_a_user_wrote_is_not_leaked_by_a_judges_hint() -> None:
    edited = replace(exchange("no"), feedback=(Feedback("t", edit="Only the Nile flows there."),))
    assert refusal("Say that only the Nile flows there.", edited) == "it copies the answer"
    assert refusal("Write one sentence without a list.", edited) == ""


def test_a_mere_complaint_is_no_hint() -> None:
    assert make_hint(exchange("this is useless garbage honestly"), BAD) == ""


def test_the_block_goes_into_the_last_user_message_and_nowhere_else() -> None:
    history = [{"role": "system", "content": "Be brief."}, ASKED, REPLY, ASKED,
               {"role": "tool", "content": "x"}]  # fmt: skip
    found = hinted_messages(history, "Use no bold.")
    assert found[3]["content"] == "Name two rivers of Egypt.\n\n[Hint]\nUse no bold."
    assert [m for i, m in enumerate(found) if i != 3] == [
        m for i, m in enumerate(history) if i != 3
    ]
    assert history[3] is ASKED and ASKED["content"] == "Name two rivers of Egypt."
    assert hinted_messages(history, "") == history


def test_the_block_fits_parts_and_a_prompt_without_user() -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert hinted_messages(parts, "Use no bold.")[0]["content"][1]["text"].startswith("[Hint]")
    system = [{"role": "system", "content": "x"}]
    assert hinted_messages(system, "Use no bold.")[1]["role"] == "user"


def test_a_hint_that_works_lowers_the_sampled_reply() -> None:
    found = verify([-1.0, -1.0, -0.5], [-2.0, -0.5, -2.0])
    assert math.isclose(found.gap, (-1.0 + 0.5 - 1.5) / 3) and found.holds
    assert math.isclose(found.share_down, 2 / 3)
    assert not verify([-1.0], [-0.5]).holds
    assert not verify([-1.0], [-1.0]).holds
    for wrong in (([], []), ([-1.0], [-1.0, -2.0]), ([-1.0], [-math.inf])):
        with pytest.raises(ValueError):
            verify(*wrong)
