"""The verifier inside the sandbox, started as it is there, on states made by hand."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from envs.terminal import checks

PROGRAM = (files("envs.terminal") / "inspector.py").read_text("utf-8")


def run(root: Path, *specs: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-I", "-B", "-c", PROGRAM],
        input=json.dumps({"root": str(root), "checks": specs}).encode(),
        capture_output=True,
        timeout=30,
    )


def judge(root: Path, *specs: dict[str, Any]) -> list[bool]:
    done = run(root, *specs)
    assert done.returncode == 0, done.stderr.decode()
    return [ok for ok, _ in json.loads(done.stdout)]


@pytest.mark.parametrize(
    ("found", "want", "how", "right"),
    [
        ("7\n", 7, "number", True),
        ("  7", 7, "number", True),
        ("7.0\n\n", 7, "number", True),
        ("7 a.txt\n", 7, "number", False),
        ("", 7, "number", False),
        ("a b", "a b\n", "text", True),
        ("a b\n\n", "a b", "text", True),
        (" a b\n", "a b", "text", False),
        ("a  \nb\n", "a\nb", "lines", True),
        ("b\na\n", "a\nb", "lines", False),
        ("b\na\n", "a\nb", "any_order", True),
        ("x/b\n./a\n", "y/a\nb\n", "names", True),
        ("a\n", "a", "bytes", False),
        ("a\n", "a\n", "bytes", True),
    ],
)
def test_contents_are_compared_as_documented(
    tmp_path: Path, found: str, want: str | int, how: Any, right: bool
) -> None:
    (tmp_path / "f").write_text(found)
    assert judge(tmp_path, checks.file("f", want, how)) == [right]


def test_existence_modes_links(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_text("x")
    (tmp_path / "f").chmod(0o640)
    (tmp_path / "s").symlink_to("f")
    (tmp_path / "gone").symlink_to("nothing")
    specs = {
        "dir": (checks.exists("d", "dir"), True),
        "file is no dir": (checks.exists("f", "dir"), False),
        "link to a dir is no dir": (checks.exists("s", "file"), False),
        "absent": (checks.absent("q"), True),
        "a broken link is there": (checks.absent("gone"), False),
        "mode": (checks.mode("f", "640"), True),
        "other mode": (checks.mode("f", "644"), False),
        "has": (checks.mode("f", has="400", lacks="111"), True),
        "link": (checks.link("s", "f"), True),
        "other link": (checks.link("s", "d"), False),
        "file is no link": (checks.link("f", "f"), False),
        "link is no file": (checks.file("s", "x"), False),
    }
    assert judge(tmp_path, *(spec for spec, _ in specs.values())) == [r for _, r in specs.values()]


def test_a_copy_must_not_be_a_hard_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    os.link(tmp_path / "a", tmp_path / "b")
    assert judge(tmp_path, checks.file("b", "x", own=True), checks.file("b", "x")) == [False, True]


def test_trees(tmp_path: Path) -> None:
    (tmp_path / "t/x").mkdir(parents=True)
    (tmp_path / "t/a").write_text("1")
    (tmp_path / "t/x/b").write_text("2")
    wanted = {"a": "1", "x/b": None}
    assert judge(tmp_path, checks.tree("t", wanted)) == [True]
    (tmp_path / "t/extra").symlink_to("x")
    assert judge(tmp_path, checks.tree("t", wanted)) == [False]


def test_archives(tmp_path: Path) -> None:
    wanted = {"d/a": "1", "d/b": "2"}
    (tmp_path / "d").mkdir()
    for name, text in wanted.items():
        (tmp_path / name).write_text(text)
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        tar.add(tmp_path / "d", "./d")
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "d", "d")
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as pack:
        for name in wanted:
            pack.write(tmp_path / name, Path(name).name)
    (tmp_path / "f.gz").write_bytes(gzip.compress(b"x"))
    specs = [
        (checks.archive("t.tar", wanted, "tar"), True),
        (checks.archive("t.tar.gz", wanted, "tar.gz"), True),
        (checks.archive("t.tar", wanted, "tar.gz"), False),
        (checks.archive("t.zip", wanted, "zip"), False),
        (checks.archive("t.zip", wanted, "zip", strip=True), True),
        (checks.archive("t.tar", {"d/a": "1"}, "tar"), False),
        (checks.archive("t.tar", wanted | {"d/b": "other"}, "tar"), False),
        (checks.archive("f.gz", wanted, "tar"), False),
        (checks.archive("d/a", wanted, "zip"), False),
        (checks.compressed("f.gz", "x"), True),
        (checks.compressed("d/a", "1"), False),
    ]
    assert judge(tmp_path, *(spec for spec, _ in specs)) == [right for _, right in specs]


def test_traps_fail_the_check_and_never_hang(tmp_path: Path) -> None:
    """Bug prevented: a pipe or an endless device at the path stops the verifier for good."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(64 << 20)))
    (tmp_path / "dir").mkdir()
    (tmp_path / "cut.tar.gz").write_bytes(gzip.compress(bytes(3000))[:20])
    start = time.monotonic()
    names = ["pipe", "zero", "loop", "latin", "huge", "dir", "pipe/x", "missing"]
    results = judge(
        tmp_path,
        *(checks.file(name, "x") for name in names),
        *(checks.number(name, 1) for name in names),
        *(checks.archive(name, {}, "tar") for name in [*names, "bomb.gz", "cut.tar.gz"]),
        *(checks.compressed(name, "x") for name in [*names, "bomb.gz", "cut.tar.gz"]),
        *(checks.tree(name, {"a": "x"}) for name in names),
    )
    assert results == [False] * len(results)
    assert time.monotonic() - start < 10


def _zip(method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as pack:
        pack.writestr("a", "x" * 500)
    return buffer.getvalue()


def test_a_damaged_archive_is_the_agents_doing(tmp_path: Path) -> None:
    """Bug prevented: a decoder's own error crashed the verifier, and the episode had no score."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as pack:
        pack.addfile(tarfile.TarInfo("a"))
    whole = {
        "gz": gzip.compress(b"x" * 5000),
        "bz2": bz2.compress(b"x" * 5000),
        "xz": lzma.compress(b"x" * 5000),
        "tar": tar.getvalue(),
        "deflated.zip": _zip(zipfile.ZIP_DEFLATED),
        "lzma.zip": _zip(zipfile.ZIP_LZMA),
    }
    random_ = random.Random(0)
    specs = []
    for kind, data in whole.items():
        for number in range(60):
            spoilt = bytearray(data)
            for _ in range(random_.choice([1, 3, 20])):
                spoilt[random_.randrange(2, min(len(data), 600))] = random_.randrange(256)
            name = f"{number}.{kind}"
            (tmp_path / name).write_bytes(spoilt)
            packing: Any = "zip" if "zip" in kind else "tar"
            specs += [checks.archive(name, {"other": ""}, packing), checks.compressed(name, "y")]
    assert not any(judge(tmp_path, *specs))


def test_what_cannot_be_looked_at_fails() -> None:
    """Bug prevented: ``chmod 000`` crashed the verifier, or hid what should have been removed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # another user must reach it
        root = Path(folder)
        root.chmod(0o755)
        _shut_in_turn(root)


def _shut_in_turn(root: Path) -> None:
    (root / "d/shut").mkdir(parents=True)
    (root / "d/shut/extra").write_text("x")
    specs = [checks.absent("d/shut/extra"), checks.tree("d", {}), checks.file("d/shut/extra", "x")]
    for shut in (root / "d/shut", root / "d", root):
        shut.chmod(0)
        program = f"import os; os.setgroups([]); os.setuid(65534)\n{PROGRAM}"
        done = subprocess.run(
            ["/usr/bin/python3", "-I", "-B", "-c", program],
            input=json.dumps({"root": str(root), "checks": specs}).encode(),
            capture_output=True,
        )
        shut.chmod(0o755)
        assert done.returncode == 0, done.stderr.decode()
        assert [ok for ok, _ in json.loads(done.stdout)] == [False] * 3


def test_processes(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "87.25"]) as child:
        try:
            (tmp_path / "pid").write_text(f"{child.pid}\n")
            (tmp_path / "other").write_text("1")
            argv = ["sleep", "87.25"]
            results = judge(
                tmp_path,
                checks.process(argv, running=True),
                checks.process(argv, running=True, pid_file="pid"),
                checks.process(argv, running=True, pid_file="other"),
                checks.process(argv, running=False),
                checks.process(["sleep", "87.26"], running=False),
            )
        finally:
            child.kill()
    assert results == [True, True, False, False, True]


def test_a_malformed_check_crashes_instead_of_failing(tmp_path: Path) -> None:
    """Bug prevented: an author's typing mistake scores every episode 0."""
    (tmp_path / "f").write_text("x")
    assert run(tmp_path, {"kind": "fiel", "path": "f"}).returncode != 0
    assert run(tmp_path, {"kind": "file", "path": "f", "text": "x", "how": "?"}).returncode != 0


def test_inspecting_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    before = [(p.name, p.stat().st_mtime_ns) for p in tmp_path.iterdir()]
    judge(tmp_path, checks.file("a", "x"), checks.tree(".", {"a": "x"}))
    assert [(p.name, p.stat().st_mtime_ns) for p in tmp_path.iterdir()] == before
