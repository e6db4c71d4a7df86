"""A small window of buttons and fields for generated tasks: ``form.py SPEC STATE``.

SPEC is JSON: ``title`` and ``rows``, each with ``kind`` (button, entry, check, radio, combo, spin,
label), ``name`` and what it starts with. STATE is a file that always holds what the window says:
``pressed`` (buttons in order) and ``values`` (name to value), and behind it on a line of its own
their HMAC. The key comes over standard input and stays in this process, which nobody may look
into: whoever else writes that file cannot sign what he writes.
"""

from __future__ import annotations

import ctypes
import hmac
import json
import os
import sys
from typing import Any

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gtk  # noqa: E402

PR_SET_DUMPABLE = 4


class Form:
    """The window and the file that follows it."""

    def __init__(self, spec: dict[str, Any], path: str, key: bytes) -> None:
        self.path, self.key = path, key
        self.pressed: list[str] = []
        self.values: dict[str, Any] = {}
        self.window = Gtk.Window(title=spec["title"])
        self.window.set_default_size(360, 120)
        self.window.connect("destroy", Gtk.main_quit)
        self.box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=6, margin=12)
        self.window.add(self.box)
        for row in spec["rows"]:
            getattr(self, f"add_{row['kind']}")(row)
        self.save()
        self.window.show_all()

    def save(self) -> None:
        state = json.dumps({"pressed": self.pressed, "values": self.values})
        signature = hmac.new(self.key, state.encode(), "sha256").hexdigest()
        with open(f"{self.path}.new", "w") as file:
            file.write(f"{state}\n{signature}\n")
        os.replace(f"{self.path}.new", self.path)

    def note(self, name: str, value: Any) -> None:
        self.values[name] = value
        self.save()

    def labelled(self, row: dict[str, Any], widget: Any) -> None:
        line = Gtk.Box(spacing=8)
        line.pack_start(Gtk.Label(label=row["name"], xalign=0.0, width_chars=12), False, False, 0)
        line.pack_start(widget, True, True, 0)
        widget.get_accessible().set_name(row["name"])
        self.box.pack_start(line, False, False, 0)

    def add_label(self, row: dict[str, Any]) -> None:
        self.box.pack_start(Gtk.Label(label=row["name"], xalign=0.0), False, False, 0)

    def add_button(self, row: dict[str, Any]) -> None:
        button = Gtk.Button(label=row["name"])

        def press(_: Any) -> None:
            self.pressed.append(row["name"])
            self.save()

        button.connect("clicked", press)
        self.box.pack_start(button, False, False, 0)

    def add_entry(self, row: dict[str, Any]) -> None:
        entry = Gtk.Entry(text=row.get("text", ""))
        self.values[row["name"]] = row.get("text", "")
        entry.connect("changed", lambda widget: self.note(row["name"], widget.get_text()))
        self.labelled(row, entry)

    def add_spin(self, row: dict[str, Any]) -> None:
        spin = Gtk.SpinButton.new_with_range(0, 1000, 1)
        spin.set_value(row.get("number", 0))
        self.values[row["name"]] = row.get("number", 0)
        spin.connect("value-changed", lambda w: self.note(row["name"], w.get_value_as_int()))
        self.labelled(row, spin)

    def add_check(self, row: dict[str, Any]) -> None:
        check = Gtk.CheckButton(label=row["name"], active=row.get("on", False))
        self.values[row["name"]] = row.get("on", False)
        check.connect("toggled", lambda widget: self.note(row["name"], widget.get_active()))
        self.box.pack_start(check, False, False, 0)

    def add_radio(self, row: dict[str, Any]) -> None:
        first = None
        self.values[row["name"]] = row["options"][0]
        for option in row["options"]:
            radio = Gtk.RadioButton.new_with_label_from_widget(first, option)
            first = first or radio
            radio.connect("toggled", self.chosen, row["name"], option)
            self.box.pack_start(radio, False, False, 0)

    def chosen(self, radio: Any, name: str, option: str) -> None:
        if radio.get_active():
            self.note(name, option)

    def add_combo(self, row: dict[str, Any]) -> None:
        combo = Gtk.ComboBoxText()
        for option in row["options"]:
            combo.append_text(option)
        combo.set_active(0)
        self.values[row["name"]] = row["options"][0]
        combo.connect("changed", lambda widget: self.note(row["name"], widget.get_active_text()))
        self.labelled(row, combo)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    form = Form(json.loads(sys.argv[1]), sys.argv[2], sys.stdin.readline().strip().encode())
    Gtk.main()
