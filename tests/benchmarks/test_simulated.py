"""The probe of the judge: talk of simulated users, labelled by what they meant."""

from benchmarks import simulated
from benchmarks.judge import CLASSES
from envs.chat.personas import names
from envs.chat.phrasings import GIVE_UPS, THANKS


def test_labels_follow_from_what_the_user_did() -> None:
    """A probe that labelled by the words would agree with a judge that reads the same words."""
    rows = simulated.rows()
    assert len({row["id"] for row in rows}) == len(rows) > 900
    assert {row["style"] for row in rows} == set(names())
    assert {row["label"] for row in rows} == set(CLASSES)
    left = [said for lines in GIVE_UPS.values() for said in lines]
    pleased = tuple(said for lines in THANKS.values() for said in lines)
    for row in rows:
        (message,) = row["next_state"]
        if row["kind"].startswith("thanks_"):
            assert message["content"].startswith(pleased) and row["label"] == 1
        if row["kind"] == "give_up":
            assert message["content"] in left and row["label"] == -1
        if row["kind"] in ("correction", "off_topic"):
            assert row["label"] == -1


def test_the_history_is_the_talk_so_far() -> None:
    for row in simulated.rows():
        roles = [message["role"] for message in row["history"]]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        assert row["reply"]["content"].strip()
