"""The simulated users: who asks about what, who wishes which form, who changes their mind.

A persona's wishes are never said in a request; a policy learns them from corrections, and knows a
person by how they write. Names are for tasks and reports and never appear in what a user says.
"""

from dataclasses import dataclass

from envs.chat import criteria
from envs.chat.phrasings import Tone
from envs.errors import TaskError


@dataclass(frozen=True)
class Persona:
    """One user.

    Attributes:
        name: in tasks and reports; also the family of its tasks.
        criteria: names of wishes, see ``envs.chat.criteria``; one to three.
        domains: banks the questions come from, see ``envs.chat.bank``.
        tone: of most corrections.
        openers: ways to put a question; ``{q}`` is the question.
        language: of everything but the questions, which bring their own.
        patience: corrections in a row before the user gives up.
        distractor_rate: chance that the user says something beside the point in place of a
            correction, or before the next question.
        drift_after: sessions after which the wishes are ``drifted``; 0 for never.
        drifted: the wishes from then on.

    Example:
        >>> find("manager").wishes(session=0) == find("manager").wishes(session=99)
        False
    """

    name: str
    criteria: tuple[str, ...]
    domains: tuple[str, ...]
    tone: Tone
    openers: tuple[str, ...]
    language: str = "en"
    patience: int = 2
    distractor_rate: float = 0.15
    drift_after: int = 0
    drifted: tuple[str, ...] = ()

    def wishes(self, session: int) -> tuple[str, ...]:
        """Return the criteria in the given session, counted from 0."""
        drifts = self.drift_after and session >= self.drift_after
        return self.drifted if drifts else self.criteria


PERSONAS: tuple[Persona, ...] = (
    Persona(
        "student",
        ("no_bold", "no_numbered_list", "no_boxed_answer"),
        ("sums", "explanations"),
        "indirect",
        (
            "hw question: {q}",
            "ok so for homework: {q}",
            "{q} its due tomorrow",
            "stuck on this: {q}",
        ),
    ),
    Persona(
        "assistant_teacher",
        ("at_least_words(60)", "gives_reasons"),
        ("explanations", "sums"),
        "polite",
        (
            "For the worksheet I'm preparing: {q}",
            "A pupil asked me this: {q}",
            "{q} I want to put it on the class board.",
        ),
    ),
    Persona(
        "teacher",
        ("warm",),
        ("letters",),
        "polite",
        ("{q}", "Before the bell rings: {q}", "Could you help me with a note? {q}"),
        patience=3,
    ),
    Persona(
        "commuter",
        ("at_most_words(40)", "begins_with_answer"),
        ("facts", "conversions"),
        "blunt",
        ("quick one: {q}", "{q} (on the train)", "fast please: {q}", "{q} 2 min left"),
        patience=1,
    ),
    Persona(
        "gardener_de",
        ("language(de)", "no_exclamation"),
        ("german",),
        "polite",
        ("{q}", "Hallo, {q}", "Guten Tag, {q}"),
        language="de",
    ),
    Persona(
        "baker_fr",
        ("language(fr)",),
        ("french",),
        "indirect",
        ("{q}", "Bonjour, {q}", "Dis-moi : {q}"),
        language="fr",
    ),
    Persona(
        "traveller_es",
        ("language(es)", "no_bullets"),
        ("spanish",),
        "blunt",
        ("{q}", "Hola, {q}", "Oye, {q}"),
        language="es",
    ),
    Persona(
        "home_cook",
        ("metric_units",),
        ("recipes", "conversions"),
        "indirect",
        (
            "In the kitchen right now. {q}",
            "{q} Flour on my hands, so I'm dictating.",
            "Cooking: {q}",
        ),
        distractor_rate=0.25,
    ),
    Persona(
        "manager",
        ("ends_with_summary", "no_emoji"),
        ("summaries", "facts"),
        "blunt",
        ("For the board: {q}", "Need this before the call. {q}", "{q} Regards, upstairs"),
        patience=1,
        drift_after=20,
        drifted=("at_most_words(40)", "no_emoji"),
    ),
    Persona(
        "sysadmin",
        ("plain_text", "no_emoji"),
        ("computing", "conversions"),
        "blunt",
        ("$ ask: {q}", "over ssh: {q}", "{q} -- sent from a tty"),
    ),
    Persona(
        "developer",
        ("json_only",),
        ("facts", "computing"),
        "blunt",
        ("query: {q}", 'POST /answer body="{q}"', "{q} (called from a script)"),
        patience=3,
        distractor_rate=0.05,
        drift_after=30,
        drifted=("plain_text", "begins_with_answer"),
    ),
    Persona(
        "editor",
        ("no_exclamation", "no_bullets"),
        ("summaries", "explanations"),
        "polite",
        ("Dear colleague, {q}", "For tomorrow's page: {q}", "{q} It goes to print at six."),
        drift_after=25,
        drifted=("no_exclamation", "bullets"),
    ),
)


def names() -> list[str]:
    """Return the personas' names."""
    return [persona.name for persona in PERSONAS]


def find(name: str) -> Persona:
    """Return the persona of a name. Raises ``TaskError`` that states the legal ones."""
    for persona in PERSONAS:
        if persona.name == name:
            return persona
    raise TaskError(f"no persona {name!r}: choose one of {', '.join(names())}")


def hints(names: tuple[str, ...]) -> str:
    """Return wishes as plain sentences."""
    return " ".join(criteria.find(name).hint for name in names)
