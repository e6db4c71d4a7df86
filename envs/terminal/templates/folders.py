"""Many files at once: move, rename, sort into folders, find; the harder half of ``files``."""

from envs.terminal import checks
from envs.terminal.draw import Draft, Draw, Group, text

GROUP = Group("files")


@GROUP.template("medium")
def move_by_extension(d: Draw) -> Draft:
    source, target, (ext, other) = d.noun(), d.noun(), d.rng.sample(["log", "csv", "txt", "md"], 2)
    moved = {d.file(ext): text(d.lines(1, 2)) for _ in range(d.number(2, 4))}
    kept = {d.file(other): text(d.lines(1, 2)) for _ in range(2)}
    say = d.say(
        "Create the folder {t} and move all .{e} files from {s} into it.",
        "Move every .{e} file of {s} to a new folder {t}.",
        "Make a directory {t}, then move the .{e} files in {s} there.",
        s=source,
        t=target,
        e=ext,
    )
    return Draft(
        say,
        (f"mkdir {target}", f"mv {source}/*.{ext} {target}/"),
        [checks.tree(target, moved), checks.tree(source, kept)],
        {f"{source}/{name}": body for name, body in (moved | kept).items()},
        alternatives=(
            (f"mkdir {target} && find {source} -name '*.{ext}' | xargs mv -t {target}",),
        ),
    )


@GROUP.template("medium")
def list_by_extension(d: Draw) -> Draft:
    folder, out, (ext, other) = d.noun(), d.file(), d.rng.sample(["log", "csv", "txt"], 2)
    inner = d.noun()
    chosen = [f"{folder}/{d.file(ext)}", f"{folder}/{inner}/{d.file(ext)}"]
    chosen += [f"{folder}/{d.file(ext)}" for _ in range(d.number(1, 2))]
    rest = [f"{folder}/{inner}/{d.file(other)}", f"{folder}/{d.file(other)}"]
    say = d.say(
        "Find all .{e} files in {f} and its sub-folders; write their names, one per line, to {o}.",
        "Write the names of the .{e} files anywhere below {f} to {o}, one per line.",
        "List every .{e} file under {f}, sub-folders too, one name per line, in {o}.",
        e=ext,
        f=folder,
        o=out,
    )
    return Draft(
        say,
        (f"find {folder} -name '*.{ext}' > {out}",),
        [checks.file(out, text(chosen), "names")],
        {path: text(d.lines(1, 1)) for path in chosen + rest},
        alternatives=(
            (f"find {folder} -type f -name '*.{ext}' -exec basename {{}} ';' | sort > {out}",),
            (f"cd {folder}", f"find . -name '*.{ext}' > ../{out}"),
        ),
    )


@GROUP.template("medium")
def largest_file(d: Draw) -> Draft:
    folder, out, count = d.noun(), d.file(), d.number(4, 6)
    sizes = d.rng.sample(range(2, 60), count)
    names = [d.file() for _ in range(count)]
    files = {f"{folder}/{n}": text(["x" * 20] * s) for n, s in zip(names, sizes, strict=True)}
    winner = names[sizes.index(max(sizes))]
    say = d.say(
        "Write the name of the largest file in {f} to {o}.",
        "Which file in {f} is the largest? Write its name to {o}.",
        "Find the biggest file in the folder {f} and save its name in {o}.",
        f=folder,
        o=out,
    )
    return Draft(
        say,
        (f"ls -S {folder} | head -n 1 > {out}",),
        [checks.file(out, winner, "names"), *checks.unchanged(files)],
        files,
        alternatives=((f"du -b {folder}/* | sort -n | tail -1 | cut -f2 > {out}",),),
    )


@GROUP.template("medium")
def rename_extension(d: Draw) -> Draft:
    folder, (old, new) = d.noun(), d.rng.sample(["txt", "md", "log", "dat"], 2)
    bodies = {d.noun(): text(d.lines(1, 2)) for _ in range(d.number(3, 5))}
    say = d.say(
        "Rename every .{o} file in {f} so that it ends in .{n} instead.",
        "In {f}, change the extension of all files from .{o} to .{n}.",
        "Give all .{o} files in the folder {f} the extension .{n}.",
        f=folder,
        o=old,
        n=new,
    )
    return Draft(
        say,
        (f'for f in {folder}/*.{old}; do mv "$f" "${{f%.{old}}}.{new}"; done',),
        [checks.tree(folder, {f"{stem}.{new}": body for stem, body in bodies.items()})],
        {f"{folder}/{stem}.{old}": body for stem, body in bodies.items()},
        alternatives=(
            (
                f"cd {folder}",
                f"for f in *; do mv $f $(basename $f .{old}).{new}; done",
            ),
        ),
    )


@GROUP.template("medium")
def numbered_files(d: Draw) -> Draft:
    folder, stem, count = d.noun(), d.noun(), d.number(3, 9)
    say = d.say(
        "In a new folder {f}, create {s}1.txt to {s}{c}.txt, each holding its own number.",
        "Create the folder {f} with files {s}1.txt to {s}{c}.txt; each contains just its number.",
        "Make {c} files {s}1.txt ... {s}{c}.txt in a new folder {f}. File number N contains N.",
        f=folder,
        s=stem,
        c=count,
    )
    return Draft(
        say,
        (f"mkdir {folder}", f"for i in $(seq {count}); do echo $i > {folder}/{stem}$i.txt; done"),
        [checks.tree(folder, {f"{stem}{i}.txt": str(i) for i in range(1, count + 1)})],
        alternatives=(
            (
                f"mkdir -p {folder} && cd {folder}",
                f"for i in {{1..{count}}}; do printf $i > {stem}$i.txt; done",
            ),
        ),
    )


@GROUP.template("medium", heldout=True)
def backup_files(d: Draw) -> Draft:
    folder, ext = d.noun(), d.rng.choice(["txt", "md", "cfg"])
    bodies = {d.file(ext): text(d.lines(1, 2)) for _ in range(d.number(3, 5))}
    wanted = bodies | {f"{name}.bak": body for name, body in bodies.items()}
    say = d.say(
        "Copy each file in {f} to the same name with .bak added; keep the originals.",
        "For every file X in {f} make a copy X.bak beside it.",
        "Back up all files of the folder {f}: add a copy of each with .bak at the end of its name.",
        f=folder,
    )
    return Draft(
        say,
        (f'for f in {folder}/*; do cp "$f" "$f.bak"; done',),
        [checks.tree(folder, wanted)],
        {f"{folder}/{name}": body for name, body in bodies.items()},
        alternatives=((f"cd {folder}", "ls | xargs -I{} cp {} {}.bak"),),
    )


@GROUP.template("hard")
def sort_by_extension(d: Draw) -> Draft:
    folder, exts = d.noun(), d.rng.sample(["txt", "csv", "md", "log", "dat"], 3)
    names = [d.file(ext) for ext in exts for _ in range(d.number(1, 3))]
    bodies = {name: text(d.lines(1, 1)) for name in names}
    say = d.say(
        "Sort the files in {f}: move each into a sub-folder of {f} named after its extension, "
        "for example {f}/{e}/{n}.",
        "Move each file in {f} to {f}/EXT/, where EXT is its extension without the dot "
        "({n} goes to {f}/{e}/).",
        "In {f}, put every file into a sub-folder named like its extension: {f}/{e}/{n} and so on.",
        f=folder,
        e=exts[0],
        n=names[0],
    )
    loop = 'for f in *.*; do mkdir -p "${f##*.}"; mv "$f" "${f##*.}/"; done'
    return Draft(
        say,
        (f"cd {folder} && {loop}",),
        [checks.tree(folder, {f"{n.split('.')[1]}/{n}": body for n, body in bodies.items()})],
        {f"{folder}/{name}": body for name, body in bodies.items()},
        alternatives=(tuple(f"mkdir {folder}/{e}; mv {folder}/*.{e} {folder}/{e}" for e in exts),),
    )


@GROUP.template("hard")
def remove_duplicates(d: Draw) -> Draft:
    folder, count = d.noun(), d.number(3, 4)
    names = sorted(d.file() for _ in range(count * 2))
    bodies = [text(d.lines(2, 3)) for _ in range(count)]
    owners = d.shuffled([*range(count), *range(count)])
    files = {f"{folder}/{n}": bodies[o] for n, o in zip(names, owners, strict=True)}
    first = {n: bodies[o] for i, (n, o) in enumerate(zip(names, owners, strict=True))
             if o not in owners[:i]}  # fmt: skip
    say = d.say(
        "Some files in {f} have equal content. Of equal files keep only the one whose name is "
        "first in the alphabet.",
        "Delete duplicates in {f}: among files with the same content only the alphabetically "
        "first name stays.",
        "In {f}, remove every file whose content equals that of a file earlier in the alphabet.",
        f=folder,
    )
    script = (
        "seen=' '; for f in *; do s=$(md5sum < $f | cut -c1-32); "
        'case "$seen" in *" $s "*) rm $f;; *) seen="$seen$s ";; esac; done'
    )
    return Draft(say, (f"cd {folder} && {script}",), [checks.tree(folder, first, "text")], files)


@GROUP.template("hard", heldout=True)
def flatten_folder(d: Draw) -> Draft:
    top, inner, deep = d.noun(), d.noun(), d.noun()
    bodies = {d.file(): text(d.lines(1, 2)) for _ in range(5)}
    places = [top, f"{top}/{inner}", f"{top}/{inner}/{deep}", f"{top}/{deep}", f"{top}/{inner}"]
    say = d.say(
        "Move all files from the sub-folders of {t} directly into {t}, then delete the "
        "sub-folders.",
        "Flatten {t}: every file below it ends up directly in {t} and no sub-folder is left.",
        "Bring each file below {t} up into {t} itself and remove the emptied sub-folders.",
        t=top,
    )
    files = {f"{place}/{n}": b for place, (n, b) in zip(places, bodies.items(), strict=True)}
    return Draft(
        say,
        (
            f"find {top} -mindepth 2 -type f -exec mv {{}} {top}/ ';'",
            f"find {top} -mindepth 1 -type d -delete",
        ),
        [
            checks.tree(top, bodies),
            checks.absent(f"{top}/{inner}"),
            checks.absent(f"{top}/{deep}"),
        ],
        files,
        alternatives=((f"mv {top}/*/*.txt {top}/*/*/*.txt {top}", f"rm -r {top}/*/"),),
    )
