"""Archives and compressed files: tar, gzip, zip."""

import base64
import io
import tarfile
import zipfile
from collections.abc import Mapping
from typing import Any

from envs.terminal import checks
from envs.terminal.draw import Draft, Draw, Group, text

GROUP = Group("archives")


def _tar(files: Mapping[str, str], suffix: str = "") -> dict[str, Any]:
    """A tar archive as a task file, equal bytes for equal files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(body.encode()), 1704067200, 0o644
            tar.addfile(member, io.BytesIO(body.encode()))
    data = buffer.getvalue()
    if suffix == "gz":
        data = _gzip(data)
    return {"base64": base64.b64encode(data).decode()}


def _gzip(data: bytes) -> bytes:
    import gzip

    return gzip.compress(data, mtime=0)


def _zip(files: Mapping[str, str]) -> dict[str, Any]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as pack:
        for name, body in files.items():
            pack.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), body)
    return {"base64": base64.b64encode(buffer.getvalue()).decode()}


def _folder(d: Draw, low: int = 2, high: int = 3, ext: str = "txt") -> dict[str, str]:
    return {d.file(ext): text(d.lines(1, 3)) for _ in range(d.number(low, high))}


def _below(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": body for name, body in files.items()}


@GROUP.template("easy")
def make_tar(d: Draw) -> Draft:
    folder, out = d.noun(), d.file("tar")
    files = _below(folder, _folder(d))
    say = d.say(
        "Pack the folder {f} into the tar archive {o}.",
        "Create a tar archive {o} of the directory {f}.",
        "Archive {f} as {o} with tar.",
        f=folder,
        o=out,
    )
    return Draft(
        say,
        (f"tar -cf {out} {folder}",),
        [checks.archive(out, files, "tar", strip=True), *checks.unchanged(files)],
        files,
        alternatives=((f"tar cf {out} {folder}/*",), (f"tar -C {folder} -cvf {out} .",)),
    )


@GROUP.template("easy")
def make_tar_gz(d: Draw) -> Draft:
    folder, out = d.noun(), d.file("tar.gz")
    files = _below(folder, _folder(d))
    say = d.say(
        "Pack the folder {f} into the gzip-compressed tar archive {o}.",
        "Create the compressed archive {o} of the directory {f}.",
        "Archive {f} as {o}.",
        f=folder,
        o=out,
    )
    return Draft(
        say,
        (f"tar -czf {out} {folder}",),
        [checks.archive(out, files, "tar.gz", strip=True), *checks.unchanged(files)],
        files,
        alternatives=((f"tar caf {out} {folder}",), (f"tar cf - {folder} | gzip > {out}",)),
    )


@GROUP.template("easy")
def extract_tar(d: Draw) -> Draft:
    folder, suffix = d.noun(), d.rng.choice(["tar", "tar.gz"])
    out, inside = d.file(suffix), _folder(d)
    files = {out: _tar(_below(folder, inside), suffix.removeprefix("tar").lstrip("."))}
    say = d.say(
        "Extract the archive {o} here.",
        "Unpack {o} in the current folder.",
        "Extract all files of {o} into the current directory.",
        o=out,
    )
    return Draft(
        say,
        (f"tar -xf {out}",),
        [checks.tree(folder, inside)],
        files,
        alternatives=((f"python3 -m tarfile -e {out}",),),
    )


@GROUP.template("easy")
def extract_into(d: Draw) -> Draft:
    out, target, inside = d.file("tar"), d.noun(), _folder(d)
    say = d.say(
        "Extract {o} into the folder {t}.",
        "Unpack the archive {o} in the directory {t}.",
        "Extract the files of {o} to {t}.",
        o=out,
        t=target,
    )
    return Draft(
        say,
        (f"tar -xf {out} -C {target}",),
        [checks.tree(target, inside)],
        {out: _tar(inside), target: {"dir": True}},
        alternatives=((f"cd {target}", f"tar xf ../{out}"),),
    )


@GROUP.template("easy", heldout=True)
def extract_zip(d: Draw) -> Draft:
    folder, out, inside = d.noun(), d.file("zip"), _folder(d)
    say = d.say(
        "Extract {o} in the current folder.",
        "Unzip {o} here.",
        "Unpack the zip archive {o} into the current directory.",
        o=out,
    )
    return Draft(
        say,
        (f"unzip {out}",),
        [checks.tree(folder, inside)],
        {out: _zip(_below(folder, inside))},
        alternatives=((f"python3 -m zipfile -e {out} .",),),
    )


@GROUP.template("easy")
def make_zip(d: Draw) -> Draft:
    folder, out = d.noun(), d.file("zip")
    files = _below(folder, _folder(d))
    say = d.say(
        "Pack the folder {f} into the zip archive {o}.",
        "Zip the directory {f} into {o}.",
        "Create the zip archive {o} of {f}.",
        f=folder,
        o=out,
    )
    return Draft(
        say,
        (f"zip -r {out} {folder}",),
        [checks.archive(out, files, "zip", strip=True), *checks.unchanged(files)],
        files,
        alternatives=(
            (f"cd {folder}", f"zip ../{out} *"),
            (f"python3 -m zipfile -c {out} {folder}",),
        ),
    )


@GROUP.template("easy")
def compress_file(d: Draw) -> Draft:
    name, body = d.file(d.rng.choice(["txt", "log", "csv"])), text(d.lines(3, 6))
    say = d.say(
        "Compress {n} with gzip.",
        "Use gzip to turn {n} into {n}.gz.",
        "Make {n}.gz from {n} with gzip.",
        n=name,
    )
    return Draft(
        say,
        (f"gzip {name}",),
        [checks.compressed(f"{name}.gz", body)],
        {name: body},
        alternatives=((f"gzip -k {name}",), (f"gzip -c {name} > {name}.gz",)),
    )


@GROUP.template("easy", heldout=True)
def decompress_file(d: Draw) -> Draft:
    name, body = d.file(d.rng.choice(["txt", "log", "csv"])), text(d.lines(3, 6))
    packed = {"base64": base64.b64encode(_gzip(body.encode())).decode()}
    say = d.say(
        "Decompress {n}.gz to {n}.",
        "Unpack {n}.gz so that {n} is there.",
        "Restore {n} from {n}.gz.",
        n=name,
    )
    return Draft(
        say,
        (f"gunzip {name}.gz",),
        [checks.file(name, body)],
        {f"{name}.gz": packed},
        alternatives=((f"zcat {name}.gz > {name}",), (f"gzip -dk {name}.gz",)),
    )


@GROUP.template("medium")
def list_archive(d: Draw) -> Draft:
    out, listing, inside = d.file("tar"), d.file(), _folder(d, 3, 5)
    say = d.say(
        "Write the names of the files in {a} to {b}, sorted, one per line.",
        "List the contents of {a} in alphabetical order in {b}.",
        "Save the sorted list of file names of the archive {a} in {b}.",
        a=out,
        b=listing,
    )
    return Draft(
        say,
        (f"tar -tf {out} | sort > {listing}",),
        [checks.file(listing, text(sorted(inside)), "lines")],
        {out: _tar(inside)},
    )


@GROUP.template("medium")
def archive_some(d: Draw) -> Draft:
    folder, out, (ext, other) = d.noun(), d.file("tar"), d.rng.sample(["txt", "csv", "log"], 2)
    chosen = _folder(d, 2, 3, ext)
    files = _below(folder, chosen | _folder(d, 2, 2, other))
    say = d.say(
        "Pack only the .{e} files of {f} into the tar archive {o}.",
        "Create {o} with tar; it holds the .{e} files of {f} and nothing else.",
        "Make a tar archive {o} of all .{e} files in {f}.",
        e=ext,
        f=folder,
        o=out,
    )
    return Draft(
        say,
        (f"tar -cf {out} {folder}/*.{ext}",),
        [checks.archive(out, chosen, "tar", strip=True), *checks.unchanged(files)],
        files,
        alternatives=((f"cd {folder}", f"tar -cf ../{out} *.{ext}"),),
    )


@GROUP.template("medium")
def extract_member(d: Draw) -> Draft:
    out, inside = d.file("tar"), _folder(d, 3, 5)
    name = d.rng.choice(sorted(inside))
    rest = [other for other in inside if other != name]
    say = d.say(
        "Extract only {n} from {o} into the current folder.",
        "Get the file {n} out of the archive {o}, and no other file.",
        "Unpack just {n} from {o} here.",
        n=name,
        o=out,
    )
    return Draft(
        say,
        (f"tar -xf {out} {name}",),
        [checks.file(name, inside[name], "bytes"), *(checks.absent(path) for path in rest)],
        {out: _tar(inside)},
        alternatives=(
            (f"tar -xOf {out} {name} > {name}",),
            (f"tar xf {out}", f"rm {' '.join(rest)}"),
        ),
    )


@GROUP.template("medium", heldout=True)
def add_to_archive(d: Draw) -> Draft:
    out, inside, new, body = d.file("tar"), _folder(d, 2, 3), d.file(), text(d.lines(1, 2))
    say = d.say(
        "Add {n} to the tar archive {o}.",
        "Append the file {n} to {o}, keeping what is in the archive.",
        "Put {n} into the existing archive {o} too.",
        n=new,
        o=out,
    )
    return Draft(
        say,
        (f"tar -rf {out} {new}",),
        [checks.archive(out, inside | {new: body}, "tar"), *checks.unchanged({new: body})],
        {out: _tar(inside), new: body},
        alternatives=(
            (
                "mkdir /tmp/x",
                f"tar xf {out} -C /tmp/x",
                f"cp {new} /tmp/x",
                f"tar cf {out} -C /tmp/x .",
            ),
        ),
    )


@GROUP.template("hard")
def merge_archives(d: Draw) -> Draft:
    a, b, out = d.file("tar.gz"), d.file("tar"), d.file("tar.gz")
    left, right = _folder(d), _folder(d)
    say = d.say(
        "Create {o} (tar, gzip) with all files of {a} and {b} at its top level.",
        "Merge the archives {a} and {b} into one compressed archive {o}; no folders inside.",
        "Make a new tar.gz archive {o} that holds the files of both {a} and {b}.",
        a=a,
        b=b,
        o=out,
    )
    return Draft(
        say,
        (
            "mkdir /tmp/m",
            f"tar -xf {a} -C /tmp/m",
            f"tar -xf {b} -C /tmp/m",
            f"tar -czf {out} -C /tmp/m .",
        ),
        [checks.archive(out, left | right, "tar.gz", strip=True)],
        {a: _tar(left, "gz"), b: _tar(right)},
    )
