"""The publication bench: well-formed rows, and what counts as a reply that was cut."""

import pytest

from benchmarks.perf import publication
from benchmarks.perf.load import Reply
from benchmarks.perf.publication import Period, Plan, Published, is_cut

SMALL = Plan(
    clients=3,
    publications=2,
    alone=1,
    drained=1,
    calm_s=0.3,
    pause_s=0.1,
    reply_tokens=24,
    model="tiny",
)


def test_rows_come_from_the_real_gateway():
    """No reply is cut and no request refused, whatever the machine's speed."""
    rows = {row.case: row for row in publication.measure(SMALL)}
    under = "2 publications under 3 streams: "
    assert rows[under + "replies cut"].ours == 0
    assert rows[under + "requests refused"].ours == 0
    assert rows[under + "replies"].ours
    first = rows["optimiser step to the first token sampled with it, 3 streams"]
    assert first.ours and first.peer and first.unit == "s"


def reply(**fields) -> Reply:
    whole = {
        "asked_at": 0.0,
        "status": 200,
        "finish_reason": "length",
        "done": True,
        "times_T": [1.0, 2.0],
        "versions_T": [0, 1],
    }
    return Reply(**{**whole, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"error": "reset"},
        {"done": False},
        {"finish_reason": "cancelled"},
        {"finish_reason": ""},
        {"times_T": [1.0]},
    ],
)
def test_every_way_to_lose_a_reply_counts(fields):
    """A stream that ends without a reason, or with fewer tokens than were sampled, is cut."""
    assert is_cut(reply(**fields)) and not is_cut(reply())


def test_first_token_is_of_any_stream_and_gaps_belong_to_their_end():
    """The clock runs from the step, not from the load; a stall is where it ends."""
    period = Period(0.0, replies=[reply(), reply(times_T=[1.5, 1.75, 5.0], versions_T=[0, 1, 1])])
    assert period.first_token_s([Published(1, 1.0, 0.0, 0.0), Published(9, 1.0, 0, 0)]) == [0.75]
    assert period.longest_gap_s(0.0, 2.0) == 1.0
    assert period.longest_gap_s(2.0, 9.0) == 3.25
    assert period.longest_gap_s(9.0, 10.0) is None
