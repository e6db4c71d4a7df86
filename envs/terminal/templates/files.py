"""Files and folders: create, rename, copy, move, delete, link."""

from envs.terminal import checks
from envs.terminal.draw import Draft, Draw, Group, text

GROUP = Group("files")


@GROUP.template("trivial")
def create_file(d: Draw) -> Draft:
    path, phrase = d.file(), d.phrase()
    say = d.say(
        "Create the file {path} containing: {phrase}",
        "Write the text '{phrase}' to {path}.",
        "Make a file named {path} that says: {phrase}",
        "Put '{phrase}' into a new file {path}.",
        path=path,
        phrase=phrase,
    )
    return Draft(
        say,
        (f'echo "{phrase}" > {path}',),
        [checks.file(path, phrase)],
        alternatives=((f"printf '{phrase}' > {path}",), (f"echo {phrase} | tee {path}",)),
    )


@GROUP.template("trivial")
def create_empty_file(d: Draw) -> Draft:
    path = d.path(d.rng.choice(["txt", "md", "csv"]))
    files = {path.split("/")[0]: {"dir": True}} if "/" in path else {}
    say = d.say(
        "Create an empty file {path}.",
        "Make an empty file called {path}.",
        "Add a new file {path} with nothing in it.",
        path=path,
    )
    return Draft(
        say,
        (f"touch {path}",),
        [checks.file(path, "", "bytes")],
        files,
        alternatives=((f"> {path}",), (f": > {path}",)),
    )


@GROUP.template("trivial")
def make_folder(d: Draw) -> Draft:
    name = d.noun()
    say = d.say(
        "Create a folder named {n}.", "Make the directory {n}.", "Add a folder {n}.", n=name
    )
    return Draft(
        say, (f"mkdir {name}",), [checks.exists(name, "dir")], alternatives=((f"mkdir -p {name}",),)
    )


@GROUP.template("trivial")
def rename_file(d: Draw) -> Draft:
    old, new, body = d.file(), d.file(d.rng.choice(["txt", "md"])), text(d.lines(1, 3))
    say = d.say(
        "Rename {old} to {new}.",
        "Change the name of {old} to {new}.",
        "The file {old} should be called {new}.",
        old=old,
        new=new,
    )
    return Draft(
        say,
        (f"mv {old} {new}",),
        [checks.file(new, body, "bytes"), checks.absent(old)],
        {old: body},
        alternatives=((f"cp {old} {new} && rm {old}",),),
    )


@GROUP.template("trivial")
def copy_file(d: Draw) -> Draft:
    old, new, body = d.path(), d.file(), text(d.lines(1, 3))
    say = d.say(
        "Copy {old} to {new}.",
        "Make a copy of {old} named {new}.",
        "Duplicate {old} as {new}.",
        old=old,
        new=new,
    )
    return Draft(
        say,
        (f"cp {old} {new}",),
        [checks.file(new, body, "bytes", own=True), *checks.unchanged({old: body})],
        {old: body},
        alternatives=((f"cat {old} > {new}",),),
    )


@GROUP.template("trivial")
def delete_file(d: Draw) -> Draft:
    gone, kept = d.path(d.rng.choice(["txt", "log", "tmp"])), d.file()
    files = {gone: text(d.lines(1, 2)), kept: text(d.lines(1, 2))}
    say = d.say("Delete {g}.", "Remove the file {g}.", "Delete only the file {g}.", g=gone)
    return Draft(
        say,
        (f"rm {gone}",),
        [checks.absent(gone), *checks.unchanged({kept: files[kept]})],
        files,
        alternatives=((f"unlink {gone}",), (f"rm -rf {gone}",)),
    )


@GROUP.template("easy")
def make_nested_folder(d: Draw) -> Draft:
    path = "/".join(d.noun() for _ in range(d.number(2, 3)))
    say = d.say(
        "Create the folder {p} with its parents.",
        "Make the nested directory {p}.",
        "Create the directories {p}; none of them exists yet.",
        p=path,
    )
    return Draft(say, (f"mkdir -p {path}",), [checks.exists(path, "dir")])


@GROUP.template("easy")
def move_into_folder(d: Draw) -> Draft:
    name, folder, body = d.file(d.rng.choice(["txt", "csv", "md"])), d.noun(), text(d.lines(1, 3))
    say = d.say(
        "Move {f} into the folder {d}.",
        "Put {f} in the directory {d}.",
        "Move the file {f} to {d}/.",
        f=name,
        d=folder,
    )
    return Draft(
        say,
        (f"mv {name} {folder}/",),
        [checks.file(f"{folder}/{name}", body, "bytes"), checks.absent(name)],
        {name: body, folder: {"dir": True}},
        alternatives=((f"mv {name} {folder}/{name}",), (f"cp {name} {folder}", f"rm {name}")),
    )


@GROUP.template("easy")
def copy_folder(d: Draw) -> Draft:
    old, new = d.noun(), d.noun()
    inside = {d.file(): text(d.lines(1, 2)) for _ in range(d.number(2, 3))}
    files = {f"{old}/{name}": body for name, body in inside.items()}
    say = d.say(
        "Copy the folder {old} to {new}.",
        "Make a copy of the directory {old} named {new}.",
        "Duplicate the folder {old} with all its files as {new}.",
        old=old,
        new=new,
    )
    return Draft(
        say,
        (f"cp -r {old} {new}",),
        [checks.tree(new, inside), *checks.unchanged(files)],
        files,
        alternatives=((f"mkdir {new}", f"cp {old}/* {new}"), (f"cp -a {old}/ {new}",)),
    )


@GROUP.template("easy")
def delete_folder(d: Draw) -> Draft:
    gone, kept = d.noun(), d.path()
    files = {f"{gone}/{d.file()}": text(d.lines(1, 2)) for _ in range(2)}
    keep = {kept: text(d.lines(1, 2))}
    say = d.say(
        "Delete the folder {g} and everything in it.",
        "Remove the directory {g} with its files.",
        "Delete the whole folder {g}.",
        g=gone,
    )
    return Draft(
        say,
        (f"rm -r {gone}",),
        [checks.absent(gone), *checks.unchanged(keep)],
        files | keep,
        alternatives=((f"rm -rf {gone}",),),
    )


@GROUP.template("easy")
def make_link(d: Draw) -> Draft:
    target, link, body = d.path(), d.noun(), text(d.lines(1, 2))
    say = d.say(
        "Create a symbolic link {l} that points to {t}.",
        "Make {l} a symlink to {t}.",
        "Add a symbolic link named {l} leading to {t}.",
        l=link,
        t=target,
    )
    return Draft(
        say,
        (f"ln -s {target} {link}",),
        [checks.link(link, target), *checks.unchanged({target: body})],
        {target: body},
        alternatives=((f'ln -s "$PWD/{target}" {link}',),),
    )


@GROUP.template("easy")
def count_files(d: Draw) -> Draft:
    folder, out = d.noun(), d.file()
    files = {f"{folder}/{d.file()}": text(d.lines(1, 1)) for _ in range(d.number(3, 9))}
    say = d.say(
        "Count the files in {f} and write the number to {o}.",
        "Write the number of files in the folder {f} to {o}.",
        "How many files are in {f}? Save the number in {o}.",
        f=folder,
        o=out,
    )
    return Draft(
        say,
        (f"ls {folder} | wc -l > {out}",),
        [checks.number(out, len(files)), *checks.unchanged(files)],
        files,
        alternatives=((f"find {folder} -type f | wc -l > {out}",),),
    )


@GROUP.template("easy")
def delete_by_extension(d: Draw) -> Draft:
    folder, (bad, good) = d.noun(), d.rng.sample(["log", "tmp", "bak", "txt", "md"], 2)
    keep = {f"{folder}/{d.file(good)}": text(d.lines(1, 1)) for _ in range(2)}
    gone = {f"{folder}/{d.file(bad)}": text(d.lines(1, 1)) for _ in range(d.number(2, 4))}
    say = d.say(
        "Delete all .{b} files in {f}.",
        "Remove every .{b} file from the folder {f}.",
        "In {f}, delete the files that end in .{b}.",
        b=bad,
        f=folder,
    )
    return Draft(
        say,
        (f"rm {folder}/*.{bad}",),
        [*(checks.absent(path) for path in gone), *checks.unchanged(keep)],
        keep | gone,
        alternatives=((f"find {folder} -name '*.{bad}' -delete",),),
    )


@GROUP.template("easy", heldout=True)
def copy_by_extension(d: Draw) -> Draft:
    source, target, (ext, other) = d.noun(), d.noun(), d.rng.sample(["txt", "md", "csv", "log"], 2)
    chosen = {d.file(ext): text(d.lines(1, 2)) for _ in range(d.number(2, 4))}
    rest = {d.file(other): text(d.lines(1, 1)) for _ in range(2)}
    files = {f"{source}/{name}": body for name, body in (chosen | rest).items()}
    say = d.say(
        "Copy all .{e} files from {s} to {t}.",
        "Copy every .{e} file in {s} into the folder {t}.",
        "Put copies of the .{e} files of {s} in {t}.",
        e=ext,
        s=source,
        t=target,
    )
    return Draft(
        say,
        (f"cp {source}/*.{ext} {target}/",),
        [checks.tree(target, chosen), *checks.unchanged(files)],
        {**files, target: {"dir": True}},
        alternatives=((f"find {source} -name '*.{ext}' -exec cp {{}} {target} ';'",),),
    )


@GROUP.template("trivial", heldout=True)
def swap_extension(d: Draw) -> Draft:
    stem, (old, new), body = d.noun(), d.rng.sample(["txt", "md", "csv", "log"], 2), d.phrase()
    say = d.say(
        "Change the extension of {s}.{o} to .{n}.",
        "Rename {s}.{o} so that it ends in .{n}.",
        "Give {s}.{o} the extension .{n} instead.",
        s=stem,
        o=old,
        n=new,
    )
    return Draft(
        say,
        (f"mv {stem}.{old} {stem}.{new}",),
        [checks.file(f"{stem}.{new}", body), checks.absent(f"{stem}.{old}")],
        {f"{stem}.{old}": body + "\n"},
    )
