"""Images of SWE rows: the row's own where it is here or can be pulled, else one built here.

A built image follows upstream's recipe on our SWE image: the pinned interpreter, the pinned
packages and the package itself in an environment at conda's place, the tree at ``/testbed`` as one
commit without history. ``conda activate testbed`` in a judging script activates that environment.
Its tag is made of all that goes into it; upstream's local name for the instance points to it too.

The tree of ``repo`` comes from ``CLAWGYM_GIT`` (a folder of clones ``owner__name``, bare or not, or
a URL to put before ``owner/name``; GitHub when unset), that of ``pypi/NAME`` from the package
index, ``base_commit`` being its version. An interpreter other than the image's comes from pyenv.

Left out: conda packages that pip does not know, ``environment.yml``, submodules.
"""

import gzip
import hashlib
import io
import logging
import os
import shlex
import subprocess
import tarfile
import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from envs.errors import SetupError, TaskError
from envs.images import ensure
from envs.images.base import pull
from envs.images.build import PASSED_ON
from envs.sandbox.engine import connect, has_image
from envs.swe.formats.recipes import ACTIVATE, ON_INDEX, PLACE, Recipe, recipe_of
from envs.swe.formats.rows import Row, image_names
from envs.swe.releases import archive
from envs.swe.trees import unpack

log = logging.getLogger(__name__)

BUILD_TIMEOUT_S = 3600.0
GIT_TIMEOUT_S = 900.0
_ENVIRONMENT = "/opt/miniconda3/envs/testbed"
_ACTIVATE = f"""conda() {{ :; }}
export PATH={_ENVIRONMENT}/bin:$PATH VIRTUAL_ENV={_ENVIRONMENT}
"""
_DOCKERFILE = """ARG BASE
FROM ${BASE}
USER root
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
ENV PIP_RETRIES=3
ARG PIP_INDEX_URL
COPY content/ /
RUN bash /opt/make-testbed && rm -f /opt/make-testbed
WORKDIR /testbed
"""


def have_image(row: Row) -> str:
    """Return the reference of a row's image, pulled or built where it is missing.

    Raises:
        TaskError: there is none, and nothing says how to build it, or it lacks a part.
        SetupError: the build failed; carries its last lines.
        MissingDependency: no engine.
    """
    local, public = image_names(row)
    if not row.repo.startswith(ON_INDEX):
        for name in dict.fromkeys((row.image, public, local)):
            if name and has_image(name):
                return name
        if pull(public):
            return public
    recipe = recipe_of(row)
    if recipe is None:
        raise TaskError(
            f"{row.instance_id}: its image {public} is neither here nor to be pulled, and no "
            f"recipe is known for {row.repo or 'its repository'} {row.version}"
        )
    return _built(row, recipe, local)


def _built(row: Row, recipe: Recipe, name: str) -> str:
    base = ensure("swe")
    digest = hashlib.sha256(f"{base}\0{_DOCKERFILE}\0{_script(row, recipe)}".encode())
    digest.update(f"{row.repo}\0{row.base_commit}".encode())
    tag = f"clawgym/row:{digest.hexdigest()[:16]}"
    if has_image(tag):
        return tag
    log.info("building %s for %s", tag, row.instance_id)
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        _add(tar, "Dockerfile", _DOCKERFILE.encode())
        _add(tar, "content/opt/make-testbed", _script(row, recipe).encode())
        _add(tar, f"content{ACTIVATE}", _ACTIVATE.encode())
        _add(tar, "content/opt/testbed.tar.gz", _tree(row))
        if (folder := interpreter(recipe.python)) is not None:
            tar.add(folder, f"content{folder}", filter=_without_tests)
    context.seek(0)
    _build(tag, context, {"BASE": base}, row.instance_id)
    api = connect()
    try:
        api.tag(tag, name.partition(":")[0], "latest")
    finally:
        api.close()
    return tag


def _script(row: Row, recipe: Recipe) -> str:
    """Return what makes the environment, run as root while the image is built."""
    folder = interpreter(recipe.python)
    python = "/usr/bin/python3" if folder is None else f"{folder}/bin/python"
    pip = "python -m pip install -q --disable-pip-version-check"
    asked = " ".join(map(shlex.quote, recipe.packages or ("pytest",)))
    files = " ".join(map(shlex.quote, recipe.requirements))
    lines = [
        "set -euo pipefail",
        f"{python} -m venv {_ENVIRONMENT} && source {ACTIVATE}",
        f"mkdir -p {PLACE} && cd {PLACE} && tar -xzf /opt/testbed.tar.gz && rm /opt/testbed.tar.gz",
        "git config --global user.name clawgym && git config --global user.email clawgym@localhost",
        f"git config --global --add safe.directory {PLACE}",
        "[ -d .git ] || { git init -q -b main && git add -A -f && git commit -q -m base; }",
        r"printf '*.egg-info\n__pycache__\nbuild/\n' >> .git/info/exclude",
        *recipe.before,
        f"for file in {files}; do [ ! -f $file ] || {{ {pip} -r $file; break; }}; done",
        f"{pip} {asked}",
        *recipe.install,
        "git add -A && git commit -q --allow-empty -m SWE-bench",
    ]
    return "\n".join(lines) + "\n"


def interpreter(version: str) -> Path | None:
    """Return the folder of an interpreter of pyenv, None when the image's own is of that version.

    Raises:
        TaskError: there is none of that version here; names the remedy.
    """
    if version == _own_version():
        return None
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = sorted(path for path in root.glob(f"{version}*") if (path / "bin" / "python").exists())
    fitting = [path for path in found if path.name == version or path.name[len(version)] == "."]
    if not fitting:
        raise TaskError(f"no Python {version} in {root}: run pyenv install {version}")
    return fitting[-1].resolve()


def _own_version() -> str:
    """Return the version of Debian's interpreter in our images."""
    from envs.images.base import codename

    return {"bookworm": "3.11", "trixie": "3.13"}[codename()]


def _tree(row: Row) -> bytes:
    """Return the tree at the base commit as a gzipped tar; from git, with that commit alone.

    Raises:
        TaskError: it cannot be had.
    """
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        if row.repo.startswith(ON_INDEX):
            data = archive(row.repo.removeprefix(ON_INDEX), row.base_commit)
            for path, content in sorted(unpack(data, strip=1).items()):
                _add(tar, path, content)
        else:
            with tempfile.TemporaryDirectory() as folder:
                _check_out(row, folder)
                tar.add(folder, ".")
    return gzip.compress(made.getvalue(), mtime=0)


def _check_out(row: Row, folder: str) -> None:
    """Fetch the base commit without its history into an empty folder."""
    place = os.environ.get("CLAWGYM_GIT", "https://github.com")
    local = Path(place) / row.repo.replace("/", "__")
    source = f"file://{local.resolve()}" if local.is_dir() else f"{place}/{row.repo}"
    _git("init", "-q", "-b", "main", folder)
    _git("-C", folder, "fetch", "-q", "--depth", "1", source, row.base_commit)
    _git("-C", folder, "reset", "-q", "--hard", "FETCH_HEAD")
    (Path(folder) / ".git" / "FETCH_HEAD").unlink(missing_ok=True)


def _git(*arguments: str) -> None:
    allowed = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "uploadpack.allowAnySHA1InWant",
               "GIT_CONFIG_VALUE_0": "true"}  # fmt: skip
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, timeout=GIT_TIMEOUT_S, check=False,
            env={**os.environ, **allowed, "GIT_TERMINAL_PROMPT": "0"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TaskError(f"git {' '.join(arguments)}: {error}") from error
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip()[-200:]
        raise TaskError(f"git {' '.join(arguments)}: {last}; CLAWGYM_GIT names a place with clones")


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))


def _without_tests(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = entry.name.split("/")
    return None if {"test", "tests", "__pycache__"} & set(parts) else entry


def _build(tag: str, context: io.BytesIO, arguments: Mapping[str, str], instance: str) -> None:
    import docker.errors
    import requests

    last: deque[str] = deque(maxlen=15)
    given = {**{k: os.environ[k] for k in PASSED_ON if os.environ.get(k)}, **arguments}
    api = connect(timeout_s=BUILD_TIMEOUT_S)
    try:
        for event in api.build(fileobj=context, custom_context=True, tag=tag, buildargs=given,
                               rm=True, forcerm=True, decode=True,
                               labels={"clawgym": "task"}):  # fmt: skip
            if line := event.get("stream", "").rstrip():
                last.append(line)
            if "error" in event:
                raise SetupError(f"{instance}: build failed: {event['error']}\n" + "\n".join(last))
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise SetupError(f"{instance}: build failed: {error}") from error
    finally:
        api.close()
