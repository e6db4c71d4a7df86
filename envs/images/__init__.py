"""Images of the sandboxes: one Dockerfile per family, tags made from content.

``clawgym/<family>:<hash12>`` names what the build reads: the family's folder and the in-container
server. So a changed file asks for a build, and two checkouts on one machine never mix images.

    python -m envs.images build [FAMILY…]
    python -m envs.images list

Importing this costs nothing; the engine is asked only by ``ensure`` and ``resolve``.
"""

import hashlib
import os
from pathlib import Path

from envs.errors import MissingImage

ROOT = Path(__file__).parent
OWN_BASE = "CLAWGYM_BASE"  # environment variable: a base image of your own (a Debian)
SERVER = ROOT.parent / "sandbox" / "inside"
SHARED = {"swe": "python"}  # families that bring lists of packages for another's Dockerfile


def families() -> tuple[str, ...]:
    """Return the names of all families, sorted."""
    return tuple(sorted([*SHARED, *(path.parent.name for path in ROOT.glob("*/Dockerfile"))]))


def context_files(family: str) -> dict[str, Path]:
    """Return what a build of ``family`` reads, by path in the build context."""
    folder = ROOT / family
    files = {
        str(path.relative_to(folder)): path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "certs" not in path.parts
    }
    if family in SHARED:
        files["Dockerfile"] = ROOT / SHARED[family] / "Dockerfile"
    files.update({f"inside/{path.name}": path for path in SERVER.glob("*.py")})
    return dict(sorted(files.items()))


def reference(family: str) -> str:
    """Return the image reference of a family as its files are now. Raises ``ValueError``."""
    if family not in families():
        raise ValueError(f"image family {family!r}: choose one of {', '.join(families())}")
    digest = hashlib.sha256()
    for name, path in context_files(family).items():
        data = path.read_bytes()
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    digest.update(os.environ.get(OWN_BASE, "").encode())
    return f"clawgym/{family}:{digest.hexdigest()[:12]}"


def resolve(image: str) -> str:
    """Turn ``SandboxSpec.image`` (a family, or a full reference) into a reference that exists.

    Raises:
        MissingImage: no such image; names the remedy.
        MissingDependency: no engine answers.
    """
    from envs.sandbox.engine import has_image

    if image in families():
        wanted, remedy = reference(image), f"run: python -m envs.images build {image}"
    else:
        known = ", ".join(families())
        wanted, remedy = image, f"pull or build it, or choose one of: {known}"
    if not has_image(wanted):
        raise MissingImage(f"the sandbox image {wanted} is not on this machine", remedy)
    return wanted


def ensure(family: str) -> str:
    """Return the reference of a family's image, building it first where it is missing.

    Raises:
        MissingDependency: no engine, or no base image can be had.
        SandboxStartError: the build failed; carries its last lines.
    """
    from envs.images.build import build
    from envs.sandbox.engine import has_image

    wanted = reference(family)
    return wanted if has_image(wanted) else build(family)
