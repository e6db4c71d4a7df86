"""Summaries and computing: what is asked in an office."""

from envs.chat.bank.draw import Domain, Draw
from envs.chat.request import Request

summaries, computing = Domain("summaries"), Domain("computing")

PROJECTS = (
    "the new warehouse", "the web shop", "the canteen", "the spring campaign", "the fleet of vans",
    "the night shift", "the customer survey", "the office move", "the training week",
    "the price list", "the delivery app", "the trade fair",
)  # fmt: skip
CAUSES = (
    "a supplier was late", "two people were ill", "the permit took longer", "the tests failed",
    "the budget was cut", "the plans changed", "the weather was bad", "the software was new",
)  # fmt: skip


@summaries.template()
def status_note(draw: Draw) -> Request:
    project, cause = draw.pick(PROJECTS), draw.pick(CAUSES)
    weeks, share = draw.number(2, 19), draw.number(10, 95, 5)
    return Request(
        draw.say(
            f"Summarise: work on {project} is {share} percent done. It is {weeks} weeks behind "
            f"plan since {cause}. The team expects to catch up in autumn.",
            f"What does this say? 'As for {project}, {share} percent is finished, {cause}, hence "
            f"the delay of {weeks} weeks, to be made good by autumn.'",
        ),
        "",
        (f"Work on {project} is {share} percent done and {weeks} weeks late.",
         f"The delay arose when {cause}.", "The team expects to catch up in autumn."),
    )  # fmt: skip


@summaries.template()
def meeting(draw: Draw) -> Request:
    name, project, day = draw.name(), draw.pick(PROJECTS), draw.number(1, 28)
    return Request(
        draw.say(
            f"Minutes in short form, please. {name} reported on {project}. Costs are within the "
            f"budget. The next meeting is on the {day}th of June.",
            f"Turn this into a brief: we talked about {project}, {name} has the costs under "
            f"control, next date June {day}.",
        ),
        "",
        (f"{name} reported on {project} and costs are within the budget.",
         f"The next meeting is in June, on day {day} of the month."),
    )  # fmt: skip


@summaries.template()
def complaint(draw: Draw) -> Request:
    name, days = draw.name(), draw.number(3, 40)
    thing = draw.pick(("lamp", "desk", "kettle", "bicycle", "printer", "sofa", "drill", "tent"))
    return Request(
        draw.say(
            f"Condense this letter: '{name} here. I ordered a {thing}, waited {days} days, and it "
            "arrived with a crack. I would like a new one, not my money back.'",
            f"What does {name} want? A {thing} came after {days} days, with a crack, and a refund "
            "is not welcome, a replacement is.",
        ),
        "",
        (f"{name} received a cracked {thing} after {days} days.",
         f"The wish is a new {thing} and not a refund."),
    )  # fmt: skip


@summaries.template()
def figures(draw: Draw) -> Request:
    project, before, more = draw.pick(PROJECTS), draw.number(20, 400, 10), draw.number(5, 95, 5)
    return Request(
        draw.say(
            f"Put into words: {project}, orders last year {before}, this year {before + more}.",
            f"Say what happened with {project}: from {before} orders to {before + more}.",
        ),
        "",
        (f"Orders for {project} rose from {before} to {before + more}.",
         f"That is an increase of {more} orders within a year."),
    )  # fmt: skip


@summaries.template(heldout=True)
def voice_mail(draw: Draw) -> Request:
    name, project, hour = draw.name(), draw.pick(PROJECTS), draw.number(8, 18)
    return Request(
        f"Somebody called {name} left a voice mail about {project}, was in a rush, asks for a call "
        f"back before {hour} o'clock and says the contract is signed. What matters in it?",
        "",
        (f"{name} asks for a call before {hour} o'clock about {project}.",
         "The contract is signed."),
    )  # fmt: skip


@summaries.template(heldout=True)
def headline(draw: Draw) -> Request:
    project, cause, people = draw.pick(PROJECTS), draw.pick(CAUSES), draw.number(12, 90)
    return Request(
        f"What is the news here? {people} people came to see {project}, which opened a month late "
        f"because {cause}.",
        "",
        (f"About {people} people came to the late opening of {project}.",
         f"It opened a month late when {cause}."),
    )  # fmt: skip


TOOLS: tuple[tuple[str, str, str], ...] = (
    ("list hidden files", "ls -a", "The option a includes names that begin with a dot."),
    ("see how full the disks are", "df -h", "The option h prints sizes that people can read."),
    ("show the running processes", "ps aux", "It prints one line for every process."),
    ("count the lines of notes.txt", "wc -l notes.txt", "The option l counts lines."),
    ("create the directory data", "mkdir data", "It fails when the directory is there already."),
    ("print the current directory", "pwd", "It prints the full path of the directory."),
    ("rename old.txt to new.txt", "mv old.txt new.txt", "The same command moves files."),
    ("copy a.txt to b.txt", "cp a.txt b.txt", "An existing copy is replaced."),
    ("show the last lines of app.log", "tail app.log", "It prints ten lines by default."),
    ("sort names.txt", "sort names.txt", "The file itself is not changed."),
    ("find out who I am logged in as", "whoami", "It prints the user name."),
    ("show the size of the folder data", "du -sh data", "The option s gives one sum."),
    ("remove the empty folder tmp1", "rmdir tmp1", "It refuses when the folder is not empty."),
    ("see the kernel version", "uname -r", "It prints the release of the kernel."),
    ("make run.sh executable", "chmod +x run.sh", "The sign x stands for execute."),
    ("show the date in UTC", "date -u", "The option u switches to UTC."),
)


@computing.template()
def shell_command(draw: Draw) -> Request:
    tool = draw.pick(TOOLS)
    return Request(
        draw.say(
            f"Which command do I use to {tool[0]}?",
            f"How do I {tool[0]} on Linux?",
            f"I want to {tool[0]}, what do I type?",
        ),
        tool[1],
        (f"Type {tool[1]} and press enter.", tool[2]),
    )


@computing.template()
def to_binary(draw: Draw) -> Request:
    number = draw.number(5, 250)
    return Request(
        draw.say(f"What is {number} in binary?", f"Write {number} in base 2."),
        f"{number:b}",
        (f"It is {number:b} in binary.", "Each digit stands for a power of two."),
    )


@computing.template()
def mebibytes(draw: Draw) -> Request:
    count = draw.number(2, 64)
    return Request(
        draw.say(f"How many MiB are {count} GiB?", f"{count} GiB of memory, what is that in MiB?"),
        str(count * 1024),
        (f"It is {count * 1024} MiB.", "One GiB has 1024 MiB."),
    )


@computing.template()
def transfer(draw: Draw) -> Request:
    rate, seconds = draw.number(5, 80, 5), draw.number(4, 60, 4)
    return Request(
        draw.say(
            f"Copying {rate * seconds} MB at {rate} MB/s takes how many seconds?",
            f"The backup has {rate * seconds} MB and the link does {rate} MB/s. Seconds needed?",
        ),
        str(seconds),
        (f"It takes {seconds} seconds.", f"That is {rate * seconds} MB divided by {rate} MB/s."),
    )


@computing.template(heldout=True)
def from_hex(draw: Draw) -> Request:
    number = draw.number(20, 255)
    return Request(
        f"What is 0x{number:x} as a decimal number?",
        str(number),
        (f"It is {number} in decimal.", "Hexadecimal digits stand for powers of sixteen."),
    )


@computing.template(heldout=True)
def octal_mode(draw: Draw) -> Request:
    modes = (("rwxr-xr-x", "755"), ("rw-r--r--", "644"), ("rw-------", "600"), ("rwx------", "700"))
    mode = draw.pick(modes)
    return Request(
        f"Which octal mode is {mode[0]}?",
        mode[1],
        (f"It is {mode[1]} in octal.", "Each octal digit is one group of three letters."),
    )


DOMAINS = (summaries, computing)
