"""Image tags come from content, and a missing image says how to get it."""

import subprocess
import sys

import pytest

from envs import images
from envs.errors import MissingDependency
from envs.images.base import import_failure, split_reference


def test_every_family_has_its_files():
    """The families that tasks name exist and copy the in-container server."""
    assert {"terminal", "swe"} <= set(images.families())
    for family in images.families():
        files = images.context_files(family)
        assert {"Dockerfile", "inside/server.py"} <= set(files)
        assert not any("certs" in name or "__pycache__" in name for name in files)


def test_families_with_one_dockerfile_have_images_of_their_own():
    """A shared Dockerfile reads each family's lists: equal tags would hand out the wrong image."""
    python, swe = (images.context_files(family) for family in ("python", "swe"))
    assert python["Dockerfile"] == swe["Dockerfile"]
    assert python["requirements.txt"] != swe["requirements.txt"]
    assert images.reference("python") != images.reference("swe")


def test_the_tag_follows_the_content(tmp_path, monkeypatch):
    """An image built from older files was used silently after an edit."""
    for name in ("Dockerfile", "extra.txt"):
        (tmp_path / "fam").mkdir(exist_ok=True)
        (tmp_path / "fam" / name).write_text("a")
    monkeypatch.setattr(images, "ROOT", tmp_path)
    before = images.reference("fam")
    assert before == images.reference("fam")
    (tmp_path / "fam" / "extra.txt").write_text("b")
    assert images.reference("fam") != before


def test_dockerfiles_suit_old_builders():
    """Engine 20.10 builds without BuildKit: no heredocs, no mounts, no syntax line."""
    for family in images.families():
        text = images.context_files(family)["Dockerfile"].read_text()
        assert "<<" not in text and "--mount" not in text and "# syntax" not in text
        assert text.index("ARG BASE") < text.index("FROM ")


def test_unknown_family_names_the_legal_ones():
    """A mistyped family is the user's mistake: exit 2 and the legal set."""
    command = [sys.executable, "-m", "envs.images", "build", "terminl"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "terminal" in done.stderr


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("debian", ("debian", "latest")),
        ("debian:12", ("debian", "12")),
        ("host:5000/x", ("host:5000/x", "latest")),
        ("host:5000/x/y:1", ("host:5000/x/y", "1")),
        ("x@sha256:ab", ("x", "sha256:ab")),
    ],
)
def test_a_reference_is_split_where_its_tag_begins(image, parts):
    """CLAWGYM_BASE=debian asked the registry for an image without a name, tagged debian."""
    assert split_reference(image) == parts


def test_a_failed_import_is_seen():
    """The engine reports it in an answer of status 200: a missing base looked like a made one."""
    assert import_failure('{"status": "x"}\n{"error": "no space left"}\n') == "no space left"
    assert import_failure('{"status": "sha256:12"}\n') == import_failure("") == ""


@pytest.mark.docker
def test_family_and_full_reference_resolve(terminal_image):
    """A spec may name a family or any image of the engine's."""
    assert images.resolve("terminal") == terminal_image == images.resolve(terminal_image)


@pytest.mark.docker
def test_missing_images_name_the_command(terminal_image, monkeypatch):
    """The remedy is a command to paste."""
    monkeypatch.setattr(images, "reference", lambda family: "clawgym/terminal:000000000000")
    with pytest.raises(MissingDependency, match=r"python -m envs\.images build terminal"):
        images.resolve("terminal")
    with pytest.raises(MissingDependency, match="terminal"):
        images.resolve("nonesuch:1")
