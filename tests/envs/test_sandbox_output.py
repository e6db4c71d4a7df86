"""Bytes to text: what is cut is said, what is not UTF-8 stays visible."""

from hypothesis import given
from hypothesis import strategies as st

from envs.sandbox.inside.streams import Output
from envs.sandbox.output import decode


@given(st.lists(st.binary(max_size=300)), st.integers(0, 400))
def test_memory_is_bounded_and_head_and_tail_are_right(chunks, limit):
    """However the bytes are split, exactly the first and the last are kept."""
    output, whole = Output(limit), b"".join(chunks)
    for chunk in chunks:
        output.add(chunk)
    data, head = output.result()
    assert output.total == len(whole)
    if len(whole) <= limit:
        assert data == whole
    else:
        assert len(data) == limit and whole.startswith(data[:head])
        assert whole.endswith(data[head:])


@given(st.text(), st.integers(0, 40))
def test_a_cut_halves_no_character(text, limit):
    """Half a character once became an escape that the model saw and the command never wrote."""
    output = Output(limit)
    output.add(
        text.encode("utf-8", "surrogatepass") if text.isascii() else text.encode(errors="replace")
    )
    data, head = output.result()
    shown = decode(data, head, output.total)
    assert "\\x" not in shown.replace(text, "") or "\\x" in text


@given(st.binary())
def test_whole_output_decodes_without_error(data):
    """No byte a program writes may raise in ours."""
    assert decode(data, 0, len(data)).encode() or not data


def test_the_cut_is_named():
    """A silent cut made models believe that a file ends where the output does."""
    assert decode(b"ab" + b"yz", head=2, total=26) == "ab\n[22 of 26 bytes cut]\nyz"
