"""Keys, their files, and how often they may ask."""

import stat
from pathlib import Path

import pytest

from serving.errors import RequestRefused, TooManyRequests
from serving.keys import Keys, RateLimit, read_keys, session_name, stored_key


def test_a_stored_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "api_key"
    key = stored_key(path)
    assert stored_key(path) == key and len(key) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_owners_and_the_admin() -> None:
    keys = Keys("main", "boss", {"k1": "Ann"})
    assert [keys.owner(key) for key in ("main", "boss", "k1", "x", "")] == [
        "",
        "",
        "Ann",
        None,
        None,
    ]
    assert [keys.is_admin(key) for key in ("main", "boss", "k1")] == [False, True, False]
    assert Keys("main").is_admin("main")
    for bad in ("", "a:b", " a", "a\n"):
        with pytest.raises(ValueError, match="API key"):
            Keys("main", others={bad: "x"})


def test_a_key_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# people\nAnn k1\nBob k2  # work\n\n")
    assert read_keys(path) == {"k1": "Ann", "k2": "Bob"}
    path.write_text("Ann k1\nBob k1\n")
    with pytest.raises(ValueError, match="line 2"):
        read_keys(path)


def test_a_rate_refills_evenly_and_per_owner() -> None:
    now = [0.0]
    rate = RateLimit(2, clock=lambda: now[0])
    rate.take("a")
    rate.take("a")
    rate.take("b")
    with pytest.raises(TooManyRequests) as refused:
        rate.take("a")
    assert refused.value.retry_after_s == 30
    now[0] = 31
    rate.take("a")
    with pytest.raises(TooManyRequests):
        rate.take("a")


def test_the_first_name_given_counts() -> None:
    assert session_name({"a": None, "b": "", "c": "x", "d": "y"}) == "x"
    with pytest.raises(RequestRefused, match="control"):
        session_name({"a": "x\r\nSet-Cookie: y"})
