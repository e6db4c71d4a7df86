"""What users say besides their questions: corrections, thanks, changes of topic, farewells.

Pure look-ups over ``corrections.TEXT`` and the small tables here; which sentence is said is drawn
by the caller's generator, so that equal seeds speak equally.
"""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

from envs.chat.corrections import TEXT
from envs.chat.criteria import Criterion

Tone = Literal["blunt", "polite", "indirect"]
MARKS: Mapping[str, Tone] = {"!": "blunt", "~": "polite", "?": "indirect"}
OWN_TONE = 0.7  # share of corrections said in the tone that the user prefers


@cache
def corrections() -> Mapping[str, tuple[tuple[Tone, str], ...]]:
    """Return the sentences of every wish: ``kind`` or ``kind:language`` → (tone, sentence)."""
    blocks: dict[str, list[tuple[Tone, str]]] = {}
    key = ""
    for line in filter(None, TEXT.splitlines()):
        if line.startswith("["):
            key = line.strip("[]")
            blocks[key] = []
        else:
            blocks[key].append((MARKS[line[0]], line[2:]))
    return {name: tuple(lines) for name, lines in blocks.items()}


def sentences(wish: Criterion, language: str) -> tuple[tuple[Tone, str], ...]:
    """Return the ways to say a wish in a language; in English where there are no others."""
    table = corrections()
    return table.get(f"{wish.kind}:{language}") or table[wish.kind]


def complain(
    wishes: Sequence[Criterion],
    tone: Tone,
    language: str,
    before: Sequence[str],
    rng: random.Random,
) -> str:
    """Say one or two wishes, in no sentence that is in ``before``, the corrections said so far."""
    said = [_say(wish, tone, language, "\n".join(before), rng) for wish in wishes]
    lead = rng.choice(AGAIN[language]) + " " if before and rng.random() < 0.6 else ""
    return lead + " ".join(said)


def _say(wish: Criterion, tone: Tone, language: str, before: str, rng: random.Random) -> str:
    filled = [(t, said.replace("{n}", wish.value)) for t, said in sentences(wish, language)]
    fresh = [(t, said) for t, said in filled if said not in before] or filled
    own = [said for t, said in fresh if t == tone]
    return rng.choice(own if own and rng.random() < OWN_TONE else [said for _, said in fresh])


AGAIN: Mapping[str, tuple[str, ...]] = {
    "en": ("Again:", "Still the same.", "Hm, no.", "As I said.", "Not there yet.", "Once more."),
    "de": ("Noch mal:", "Immer noch nicht.", "Hm, nein.", "Wie gesagt."),
    "fr": ("Encore une fois :", "Toujours pas.", "Hm, non.", "Comme je le disais."),
    "es": ("Otra vez:", "Todavía no.", "Mmm, no.", "Como decía."),
}
THANKS: Mapping[str, tuple[str, ...]] = {
    "en": (
        "Thanks, that's it.", "Perfect.", "Great, that works.", "Good, thank you.", "Nice one.",
        "Yes, like that.", "That helps.", "Lovely, thanks.", "Okay, got it.", "Exactly right.",
    ),
    "de": ("Danke, genau so.", "Prima.", "Super, das passt.", "Gut, vielen Dank.", "Ja, so."),
    "fr": ("Merci, c'est ça.", "Parfait.", "Très bien, merci.", "Oui, comme ça.", "Super."),
    "es": ("Gracias, eso es.", "Perfecto.", "Muy bien, gracias.", "Sí, así.", "Genial."),
}  # fmt: skip
BRIDGES: Mapping[str, tuple[str, ...]] = {
    "en": (
        "Next one:",
        "And another thing:",
        "One more:",
        "Also:",
        "While I'm here:",
        "Then this:",
    ),
    "de": ("Noch etwas:", "Und die nächste Frage:", "Außerdem:", "Eins noch:"),
    "fr": ("Autre chose :", "Et la suivante :", "Encore une question :", "Et puis :"),
    "es": ("Otra cosa:", "Y la siguiente:", "Una pregunta más:", "Y además:"),
}
CHANGES: Mapping[str, tuple[str, ...]] = {
    "en": (
        "Never mind that.", "Let's leave it there.", "Something else.", "Forget it, other topic.",
        "Moving on.", "Let me ask you a different thing.",
    ),
    "de": ("Lassen wir das.", "Egal, anderes Thema.", "Etwas anderes.", "Gut, weiter."),
    "fr": ("Laissons cela.", "Peu importe, autre sujet.", "Passons.", "Bon, autre chose."),
    "es": ("Dejémoslo.", "Da igual, otro tema.", "Otra cosa.", "Bueno, sigamos."),
}  # fmt: skip
FAREWELLS: Mapping[str, tuple[str, ...]] = {
    "en": ("Bye.", "That was all.", "Have a good day.", "See you.", "I'm off.", "That's me done."),
    "de": ("Tschüss.", "Das war alles.", "Schönen Tag noch.", "Bis bald."),
    "fr": ("Au revoir.", "C'est tout.", "Bonne journée.", "À bientôt."),
    "es": ("Adiós.", "Eso es todo.", "Que tengas un buen día.", "Hasta pronto."),
}
GIVE_UPS: Mapping[str, tuple[str, ...]] = {
    "en": (
        "I'll do it myself.", "This isn't working, I give up.", "Okay, forget it.", "Never mind.",
        "I've run out of time for this.", "I'll ask somebody else.",
    ),
    "de": ("Ich mache es selbst.", "Das wird nichts, ich gebe auf.", "Na gut, vergiss es."),
    "fr": ("Je le ferai moi-même.", "Ça ne marche pas, j'abandonne.", "Bon, tant pis."),
    "es": ("Lo haré yo.", "Así no hay manera, lo dejo.", "Bueno, olvídalo."),
}  # fmt: skip
ASIDES: Mapping[str, tuple[str, ...]] = {
    "en": (
        "Sorry, the doorbell. Back now.", "Ugh, my cat just walked over the keyboard.",
        "One moment, I need a coffee first.", "Did you see the weather today? Grey all over.",
        "My neighbour is drilling again, I can hardly think.", "Where was I?",
        "By the way, I slept so well last night.", "Hang on, phone. Okay, that's done.",
        "It's been a long day already.", "I just dropped my pen under the desk, lost forever.",
        "There's cake in the kitchen and I'm stuck here.", "My bus is late, so I have a minute.",
    ),
    "de": (
        "Moment, es hat geklingelt. So, wieder da.", "Der Kaffee ist leer, was für ein Tag.",
        "Mein Nachbar bohrt schon wieder.", "Heute regnet es wirklich ohne Pause.",
        "Wo war ich stehen geblieben?",
    ),
    "fr": (
        "Un instant, on sonne. Voilà, je suis là.", "Il n'y a plus de café, quelle journée.",
        "Mon voisin recommence à percer.", "Il pleut sans arrêt aujourd'hui.", "Où en étais-je ?",
    ),
    "es": (
        "Un momento, llaman a la puerta. Ya estoy.", "Se acabó el café, vaya día.",
        "Mi vecino está otra vez con el taladro.", "Hoy no para de llover.", "¿Por dónde iba?",
    ),
}  # fmt: skip
