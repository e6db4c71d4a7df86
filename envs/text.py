"""Text that left a sandbox: whatever bytes the agent put there, what goes on is plain UTF-8."""


def printable(text: str) -> str:
    """Return text with every lone surrogate (an undecodable byte, say of a file name) escaped.

    A lone surrogate has no UTF-8 form: a policy server refuses the request that holds one.

    Example:
        >>> printable("caf\\u00e9 \\udcff")
        'café \\\\xff'
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        data = text.encode("utf-8", "backslashreplace")
    return data.decode("utf-8", "backslashreplace")
