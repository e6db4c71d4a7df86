"""Word lists of the criteria: function words of four languages, reasons, warmth, summaries."""

import re


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


LANGUAGES = {"en": "English", "de": "German", "fr": "French", "es": "Spanish"}

FUNCTION_WORDS: dict[str, frozenset[str]] = {
    "en": _set("""
        the and of to is are was were be been it its this that these those for with you
        your they he she we our not have has had but as at by from or which would can will
        if there when so what then than i a an in on do does
    """),
    "de": _set("""
        der die das und ist sind war ein eine einen einem einer es nicht mit für auf von
        zu zum zur den dem des im am sich auch man wird werden oder aber wenn weil dass
        sie er wir ihr du ich als bei nach aus noch nur kann können haben hat so wie dann
        beim vom durch über um in
    """),
    "fr": _set("""
        le la les un une des du de et est sont était il elle on nous vous ils ce cette ces
        qui que pour avec dans sur pas ne au aux par mais ou où donc car plus se sa son
        ses leur en je tu être fait comme puis après avant à
    """),
    "es": _set("""
        el la los las un una unos unas de del y es son era fue en que por para con no se
        su sus al lo le pero como más muy este esta estos porque hay ser está están cuando
        o si yo tú usted nos entre hasta desde sobre luego después a
    """),
}

REASONS = re.compile(
    r"\b(?:because|so that|therefore|hence|the reason|that is why|that's why"
    r"|this is why|as a result"
    r"|due to|which means|thanks to|in order to|this way|consequently|it follows that)\b"
    r"|\bsince\b(?!\s+(?:\d|then|last|yesterday|january|february|march|april|may|june|july|august"
    r"|september|october|november|december|monday|tuesday|wednesday|thursday|friday|saturday"
    r"|sunday|the\s+(?:19|20|beginning|start)|childhood|birth|ever))"
    r"|\b(?:weil|denn|deshalb|darum|damit|deswegen)\b|\b(?:parce qu|puisqu|car|donc|afin)"
    r"|\b(?:porque|por eso|para que|ya que)\b",
    re.IGNORECASE,
)

WARM_PHRASES = re.compile(
    r"\b(?:well done|good work|great work|lovely work|nice work|good job|great job|great effort"
    r"|lovely effort|good effort|wonderful|happy to help|glad to help|glad you|so glad|delighted"
    r"|proud of|keep it up|keep going|you've got this|you can do (?:it|this)"
    r"|thank you for|many thanks"
    r"|warm (?:regards|wishes)|warmly|kind regards|best wishes|take care|take your time|don't worry"
    r"|no need to worry|it is a pleasure|it's a pleasure|a pleasure to"
    r"|i'm here for you|here to help"
    r"|it means a lot|looking forward to|look forward to|cheering|what a lovely|how lovely"
    r"|i appreciate|we appreciate|really appreciate|grateful|hope you're well|hope you are well"
    r"|i understand how|you are doing well|you're doing well|be kind to yourself)\b"
)

SUMMARY_MARKS = re.compile(
    r"(?:in short|in summary|in brief|in a nutshell|in one (?:line|sentence)|summary|to sum up"
    r"|to summari[sz]e|summing up|bottom line|the bottom line|tl;?dr|the gist|key takeaway"
    r"|takeaway|long story short|all in all)\b[\s:,;*_—–-]*",
    re.IGNORECASE,
)

FILLERS = re.compile(
    r"(?:sure|of course|certainly|absolutely|great question|good question|gladly"
    r"|let's|let us|let me"
    r"|to (?:find|solve|answer|calculate|work|get|figure|determine|compute|convert)|first|okay|ok\b"
    r"|alright|well,|hello|hi\b|hey\b|thank|thanks|i'd be happy|i would be happy"
    r"|happy to|here is how"
    r"|here's how|as an ai|i understand|i see|we (?:need|have|can|start|must)|when it comes)",
    re.IGNORECASE,
)

# Words of four letters and more that say nothing of a text's topic.
COMMON_WORDS = _set("""
        that this with from what have your please about would could should will they them
        then there here which when were been does just some more much many very into also
        than like need want tell give make write know help because answer question sure
        thing dass eine einen nicht auch oder wenn dann sind haben kann bitte pour dans
        avec vous nous cette est-ce sont plus comme mais para como pero esta este todo
        puede cuando
    """)
