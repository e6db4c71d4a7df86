"""Tasks in the text editor, and between the editor and a window."""

from envs.gui.tasks.drafts import Draft, Group, Row, goal
from envs.terminal.draw import Draw

GROUP = Group()
FOLDER = "/workspace"


def _editor(path: str) -> tuple[str, ...]:
    return ("mousepad", "--disable-server", path)


@GROUP.template("trivial")
def write_file(draw: Draw) -> Draft:
    """Type a word into an empty file and save it."""
    path, word = f"{FOLDER}/{draw.file()}", draw.word()
    say = draw.say("Type {word} and save.", "Write {word} in the file and save it.", word=word)
    check = {"kind": "file", "path": path, "text": word}
    return Draft(say, (f"type {word}", "key ctrl+s"), [check], files={path: ""},
                 apps=(_editor(path),))  # fmt: skip


@GROUP.template("easy")
def append_word(draw: Draw) -> Draft:
    """Add a word on a new line at the end and save."""
    path, (old, word) = f"{FOLDER}/{draw.file()}", draw.words(2)
    say = f"Add {word} on a line of its own at the end, and save."
    oracle = ("key ctrl+End", f"type {word}", "key ctrl+s")
    check = {"kind": "file", "path": path, "text": f"{old}\n{word}"}
    return Draft(say, oracle, [check], files={path: f"{old}\n"}, apps=(_editor(path),))


@GROUP.template("easy", heldout=True)
def replace_all(draw: Draw) -> Draft:
    """Replace everything by one word and save."""
    path, (old, word) = f"{FOLDER}/{draw.file()}", draw.words(2)
    say = f"Replace the whole text by {word} and save."
    oracle = ("key ctrl+a", f"type {word}", "key ctrl+s")
    check = {"kind": "file", "path": path, "text": word}
    return Draft(say, oracle, [check], files={path: f"{old}\n"}, apps=(_editor(path),))


@GROUP.template("hard")
def copy_into_field(draw: Draw) -> Draft:
    """Copy the word an editor shows into a field of another window."""
    path, word = f"{FOLDER}/{draw.file()}", draw.word()
    rows: list[Row] = [{"kind": "entry", "name": "Word"}, {"kind": "button", "name": "Send"}]
    say = "Type the word that the editor shows into the field Word, then click Send."
    oracle = (f'fill "Word" {word}', 'click "Send"')
    return Draft(say, oracle, [goal(rows, ("Send",), {"Word": word})],
                 {"title": draw.noun().title(), "rows": rows}, {path: word},
                 (_editor(path),))  # fmt: skip
