"""A command's bytes as text: the head and the tail that the server kept, and a line between."""

CONTINUATION = range(0x80, 0xC0)


def decode(data: bytes, head: int, total: int) -> str:
    """Return text of ``data``, of whose ``total`` bytes only these are left, cut after ``head``.

    Bytes that are not UTF-8 stay visible as escapes; a character halved by the cut is dropped.

    Example:
        >>> decode(b"ab" + b"yz", head=2, total=26)
        'ab\\n[22 of 26 bytes cut]\\nyz'
    """
    if total <= len(data):
        return data.decode("utf-8", "backslashreplace")
    first, last = _drop_half_character(data[:head]), data[head:]
    for _ in range(3):
        if last[:1] and last[0] in CONTINUATION:
            last = last[1:]
    text = [part.decode("utf-8", "backslashreplace") for part in (first, last)]
    return f"{text[0]}\n[{total - len(data)} of {total} bytes cut]\n{text[1]}"


def _drop_half_character(data: bytes) -> bytes:
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead in CONTINUATION:
            continue
        length = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        return data[:-back] if length > back else data
    return data
