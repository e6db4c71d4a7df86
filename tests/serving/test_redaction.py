"""Secrets leave no trace on disk, and ordinary words stay as they are."""

import asyncio
import time
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from serving.journal import Journal, Reader
from serving.redaction import Redactor, redactor
from serving.server import DAY_S, ServerOptions
from serving.turns import Feedback, Turn

from .test_gateway import ask, chat
from .test_sdks import serving
from .test_sessions import turn

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SECRETS = {
    "AWS key": f"use {'AKIA' + 'IOSFODNN7ABCDEFG'} for the bucket",
    "GitHub token": f"my token: {KEY}",
    "address with a password": "clone https://ada:s3cr3tpw@example.org/x.git",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
    "cut private key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk",
    "named password": "the password is tr0ub4dor&3 as ever",
    "assigned": "API_KEY = 'f00dfeed-9921'",
    "German": "mein Passwort lautet geheim99",
    "random word": "put Zk9xQ2vL7mN4pR8sT1wY6bC3 in the header",
    "hexadecimal": "key 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
}
GONE = (
    "IOSFODNN7",
    "a1B2c3",
    "s3cr3t",
    "MIIE",
    "b3Bl",
    "tr0ub",
    "f00d",
    "geheim99",
    "Zk9x",
    "9f86",
)
PLAIN = (
    "How are you today? Let's meet at 10:30, room 4.",
    "Is a password manager worth it? My password is too short, says the site.",
    "def configuration_of_the_renderer(self): return supercalifragilisticexpialidocious",
    "see https://example.org/articles/2024/05/how-to-write-tests-that-can-fail?page=2#top",
    "The API key goes into the header; token and secret are different words.",
    "3.14159265358979323846264338327950288419716939937510",
    "A list:\n- one\n- two\n```python\nprint('hello, world')\n```",
)


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_cut_out(name: str) -> None:
    shown = Redactor("secrets").text(SECRETS[name])
    assert "[redacted: " in shown
    assert not [piece for piece in GONE if piece in shown]


@pytest.mark.parametrize("text", PLAIN)
@pytest.mark.parametrize("kind", ["secrets", "personal"])
def test_ordinary_words_stay(text: str, kind: str) -> None:
    """A redactor that cuts ordinary words costs every turn it touches its training."""
    redact = Redactor("secrets" if kind == "secrets" else "personal")
    if "My password is too short" in text:
        assert redact.text(text).startswith("Is a password manager worth it?")
    else:
        assert redact.text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "write to ada.l@example.org please",
        "card 4111 1111 1111 1111, thanks",
        "pay to DE89 3704 0044 0532 0130 00 today",
        "call +49 30 123456 tonight",
        "my number is 536-90-4399",
    ],
)
def test_personal_data_is_cut_out_where_asked(text: str) -> None:
    assert "[redacted: " in Redactor("personal").text(text)
    assert Redactor("secrets").text(text) == text


def test_every_place_of_a_turn_and_of_feedback_is_looked_through() -> None:
    """A place that is left out keeps the secret: arguments of calls, results, corrections."""
    say = f"token {KEY}"
    call = {"id": "c1", "function": {"name": "push", "arguments": f'{{"token": "{KEY}"}}'}}
    kept = Turn(
        id="t", session="s", num_before=1, prompt_ids_P=array("i", [1]),
        token_ids_T=array("i", [2]), logprobs_T=array("d", [-1.0]), versions_T=array("i", [0]),
        text=say, reasoning=say, tool_calls=(call,),
        messages=(
            {"role": "user", "content": say},
            {"role": "user", "content": [{"type": "text", "text": say}]},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": say, "tool_call_id": "c1"},
        ),
    )  # fmt: skip
    redact = redactor("secrets")
    assert redact is not None
    assert KEY not in repr(redact(kept))
    assert KEY not in repr(redact(Feedback("t", -1, say, say, say)))
    assert redact(replace(kept, text="", reasoning="", tool_calls=(), messages=())).text == ""
    assert redactor("none") is None


def test_a_secret_leaves_no_bytes_and_neither_does_what_follows_it(
    tiny: Path, tmp_path: Path
) -> None:
    """The prompt ids of later turns spell the whole conversation: they must go, too."""

    async def play(url: str) -> None:
        asked = chat(f"my token: {KEY}")["messages"]
        _, reply, _ = await ask(url, body={"messages": asked})
        said = reply["choices"][0]["message"]
        longer = [*asked, said, {"role": "user", "content": "and now?"}]
        _, later, _ = await ask(url, body={"messages": longer})
        rating = {"id": later["id"], "rating": "down", "correction": f"never say {KEY}"}
        assert (await ask(url, path="/v1/feedback", body=rating))[0] == 200
        await ask(url, body=chat("something else"))

    options = ServerOptions(sessions=tmp_path, redact=redactor("secrets"))
    with serving(tiny, "fine", options=options) as (_, url):
        asyncio.run(play(url))
    with Reader(tmp_path) as reader:
        first, second, other = (turn for _, turn in reader.turns_after(0, 9))
        assert [said.rating for _, said in reader.feedback_after(0, 9)] == [-1]
    assert "redacted" in first.unfit and "redacted" in second.unfit
    assert not len(first.prompt_ids_P) and not len(second.prompt_ids_P)
    assert other.is_trainable and len(other.prompt_ids_P)
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert KEY.encode() not in kept and str(list(KEY.encode()))[1:-1].encode() not in kept


def test_what_is_older_than_its_time_is_removed_while_serving(tiny: Path, tmp_path: Path) -> None:
    """Whoever follows the journal hears of it: a learner removes its copies, too."""
    old = turn("old", "words of long ago", turn_id="1")
    with Journal(tmp_path) as journal:
        journal.turn(replace(old, created=time.time() - 3 * DAY_S))
        journal.turn(turn("new", "words of today"))
    with serving(tiny, "fine", options=ServerOptions(sessions=tmp_path, keep_days=2)) as (_, url):
        _, listed, _ = asyncio.run(ask(url, "GET", "/v1/sessions"))
    assert [row["id"] for row in listed["data"]] == ["new"]
    with Reader(tmp_path) as reader:
        assert [kept.text for _, kept in reader.turns_after(0, 9)] == ["words of today"]
        assert [gone for _, gone in reader.forgotten_after(0, 9)] == [old.id]
    assert not [f for f in tmp_path.iterdir() if b"long ago" in f.read_bytes()]
