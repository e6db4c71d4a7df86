"""Finds markup in a reply: pure functions over text, shared by the criteria.

What stands in code (fenced or between backticks) is not markup; ``prose`` takes it out first.
Spans have a greatest length, so that no reply, however long and odd, takes more than a moment.
"""

import re

_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\n\n).){1,1000}?(?<!`)\1(?!`)", re.DOTALL)

_STARS = re.compile(
    r"(?<![\w)\]*\\])(\*{2,3})(?=[^\s*])((?:(?!\n\n).){1,500}?)(?<=[^\s*\\])\1(?!\*)", re.DOTALL
)
_UNDERSCORES = re.compile(
    r"(?<![\w\\])__(?=[^\s_])((?:(?!\n\n).){1,500}?)(?<=[^\s_\\])__(?!\w)", re.DOTALL
)
_TAG = re.compile(
    r"<(b|strong)(?:\s[^<>]*)?>.{0,500}?</\1>|\\(?:textbf|mathbf|bm)\s*\{", re.DOTALL | re.I
)
_DUNDER = re.compile(
    r"(?:init|name|main|str|repr|len|eq|hash|call|dict|file|all|doc|iter|next|enter|exit|new|del"
    r"|add|sub|mul|lt|gt|le|ge|ne|getitem|setitem|contains|class|version|slots|post_init)"
)

_NUMBERED = re.compile(
    r"^[ \t>]*(?:#{1,6}[ \t]+)?(?:\*\*|__)?\(?(\d{1,3})(?:[.):]|\ufe0f?\u20e3)(?:\*\*|__)?[ \t]+\S",
    re.MULTILINE,
)
_STEP = re.compile(
    r"^[ \t>#*_]*(?:step|schritt|étape|paso)[ \t]+(\d{1,3})\b[ \t]*[:.)-]", re.I | re.M
)
_INLINE = re.compile(r"(?<![\w)])\(?1\)[ \t]+\S[^\n]{0,500}?(?<![\w)])\(?2\)[ \t]+\S")

_BULLET = re.compile(r"^[ \t>]*(?:[-*+][ \t]+|[•‣◦▪●∙][ \t]*)(\S.*)$", re.MULTILINE)

_HEADING = re.compile(
    r"^ {0,3}#{1,6}[ \t]+\S|^[^\s|>-][^\n]*\n(?:={3,}|-{3,})[ \t]*$", re.MULTILINE
)
_ITALIC = re.compile(r"(?<![\w*\\)])\*(?=[^\s*])[^*\n]*?[^\s*\\]\*(?![\w*])")
_LOW_ITALIC = re.compile(r"(?<![\w\\])_(?=[^\s_])[^_\n]*?[^\s_\\]_(?!\w)")
_LINK = re.compile(r"!?\[[^\]\n]{1,300}\]\([^)\s]{1,500}(?:[ \t][^)\n]{0,200})?\)")
_TABLE = re.compile(r"^[ \t]{0,8}\|?[ \t]{0,8}:?-{2,}:?[ \t]{0,8}\|[ \t:|-]*$", re.MULTILINE)
_QUOTE = re.compile(r"^ {0,3}>[ \t]+\S", re.MULTILINE)


def prose(text: str) -> str:
    """Return the text without what stands in fences and between backticks."""
    return _SPAN.sub(" ", _FENCE.sub("\n", text))


def has_bold(text: str) -> bool:
    """True for bold text in Markdown, HTML or LaTeX; a power ``2**3`` is none."""
    text = prose(text)
    if _TAG.search(text) or any(_is_bold(match, text) for match in _STARS.finditer(text)):
        return True
    return any(not _DUNDER.fullmatch(match[1]) for match in _UNDERSCORES.finditer(text))


def _is_bold(match: re.Match[str], text: str) -> bool:
    """A closing mark may be followed by the rest of a word, not by a name or a number."""
    after = text[match.end() : match.end() + 1]
    return not (after.isalnum() or after in ("_", "(")) or (
        after.isalpha() and match[2][-1:].isalpha()
    )


def numbered_items(text: str) -> int:
    """Return how many items numbered lists have; a lone ``42. …`` line is no list."""
    text = prose(text)
    numbers = [int(match[1]) for match in _NUMBERED.finditer(text)]
    numbers += [int(match[1]) for match in _STEP.finditer(text)]
    if len(numbers) < 2 and 1 not in numbers:
        numbers = []
    return len(numbers) or 2 * bool(_INLINE.search(text))


def bullet_items(text: str) -> int:
    """Return how many bulleted lines there are; sums in columns and rules of dashes are none."""
    return sum(any(char.isalpha() for char in match[1]) for match in _BULLET.finditer(prose(text)))


def has_markdown(text: str) -> bool:
    """True for any Markdown a plain-text reader would see as stray signs."""
    if _FENCE.search(text) or _SPAN.search(text) or has_bold(text) or bullet_items(text):
        return True
    patterns = (_HEADING, _ITALIC, _LOW_ITALIC, _LINK, _TABLE, _QUOTE)
    return any(pattern.search(text) for pattern in patterns)
