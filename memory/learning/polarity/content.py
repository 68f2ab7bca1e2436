"""The subject of a short text, and the words by which it limits, orders, counts and negates it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sluice.memory.learning.polarity import vocabulary
from sluice.memory.learning.polarity.lexicon import Lexicon, lexicon
from sluice.memory.learning.polarity.phrases import rewritten
from sluice.memory.learning.polarity.tokens import Kind, tokens_of

_CUES_TEXT = {
    "negation": """<not> not never no without avoid refuse fail cannot unable lack unless except but none nothing
        neither nor nobody forbid prohibit reject prevent stop break bad despite ignore miss absent missing wrong off
        disable skip""",
    "only": "only just solely alone exclusively",
    "must": "<must> <should> must should require need necessary mandatory obligatory have",
    "may": "<can> <may> <need not> can may could might optional allow able possible",
    "all": "all every each any always everything whole entire per",
    "some": "some most many few sometimes often rarely usually several other",
    "before": "before until first prior ahead earlier then",
    "after": "after once last next later following since then",
    "first": "first",
    "last": "last",
    "order": "order before after prior following first last then once later earlier",
    "until": "until",
    "when": "when if whenever",
    "otherwise": "otherwise",
    "except": "except besides excluding but",
    "despite": "despite although though regardless",
    "outside": "outside beyond besides",
    "out": "out",
    "most": "<at most> <less than> most below under maximum exceed up less fewer limit cap ceiling",
    "least": "<at least> <more than> least above over minimum more larger greater floor",
    "from": "from",
    "to": "to into onto",
    "up": "increase raise grow up add open start enable on upgrade",
    "down": "decrease lower reduce shrink down remove close stop disable off downgrade",
}
"""By what it does, the words and marks (`vocabulary`) that do it."""
LIGHT = frozenset(
    """use do make have get give take put set go come happen work way thing need require want be become case time order
    sure ensure check there place remember forget know see mean note always ever carry part kind number value it itself
    one own handle deal care responsible find live lie hold contain stay stand belong store perform appear occur bring
    cause reason result lead back away such matter good better best""".split()  # noqa: SIM905
)
"""Words that carry little: a learning may have one or not."""
_FUNCTION = frozenset(vocabulary.IDLE_TEXT.split()) | frozenset(vocabulary.PREPOSITIONS_TEXT.split())
_FUNCTION |= vocabulary.CLAUSES | {"and", "or", "of", "which", "who", "whose", "how", "what", "way"}
_COMPARED = frozenset(
    word
    for cue in ("only", "must", "may", "all", "some", "before", "after", "most", "least")
    for word in _CUES_TEXT[cue].split()
) | frozenset({"not", "never", "no", "cannot", "unable", "nothing", "none", "nobody", "neither", "nor", "even", "else"})
"""Words that are compared as cues, and are no content beside that."""
_ENDS_LIMIT = frozenset({"and", "or", "but", "when", "if", "while", "because", "before"})
_ENDINGS = """
ations ation ating ated ate ences ence ances ance ents ent ant ings ing ments ment ers er ed es ly ity
ion ions able al e s y
""".split()  # noqa: SIM905
_SHORTEST_STEM = 4


@dataclass(frozen=True, slots=True)
class Content:
    """`heavy` and `light` words in base form, identifiers and numbers letter by letter (`exact`), cues by kind.

    `names`: words that are capitalised within the text. `limited`: stems of what an "only" limits.
    """

    heavy: tuple[str, ...]
    light: frozenset[str]
    exact: tuple[str, ...]
    names: frozenset[str]
    cues: Counter[str]
    limited: frozenset[str]


@lru_cache(maxsize=4096)
def content_of(text: str) -> Content:
    """Reads a text; never fails."""
    words = lexicon()
    tokens = [token for token in rewritten(tokens_of(text)) if token.kind is not Kind.SIGN]
    plain = [(token.text, words.base(token.text)) for token in tokens if token.kind is Kind.WORD]
    said = [base for token, base in plain if not {token, base} & _FUNCTION and token[0] != "<"]
    is_light = [base in LIGHT or base in _COMPARED for base in said]
    return Content(
        tuple(base for base, light in zip(said, is_light, strict=True) if not light),
        frozenset(base for base, light in zip(said, is_light, strict=True) if light),
        tuple(token.text.lower().removesuffix("()") for token in tokens if token.kind is not Kind.WORD),
        frozenset(_names(text)),
        Counter(cue for token, base in plain for cue in _CUE_OF.get(token) or _CUE_OF.get(base, ())),
        frozenset(_limited([token.text for token in tokens], words)),
    )


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """A word without its ending: "parser", "parsing" and "parses" are "pars"."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM - 1:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > _SHORTEST_STEM and word[-1] == word[-2] else word


def _names(text: str) -> Iterable[str]:
    for at, word in enumerate(text.split()):
        if (at and word[:1].isupper()) or (len(word) > 1 and word.isupper()):
            yield word.lower().strip(".,;:()`'\"")


def _limited(tokens: Sequence[str], words: Lexicon) -> Iterable[str]:
    """For each "only" the nearest content word behind it, or before it where none follows at once."""
    for at, token in enumerate(tokens):
        if token in _CUES_TEXT["only"].split():
            after = tokens[at + 1] if at + 1 < len(tokens) else "."
            side = tokens[at + 1 :] if after[0].isalnum() and after not in _ENDS_LIMIT else tokens[:at][::-1]
            content = (one for one in side if one[0].isalnum() and one not in _FUNCTION)
            if found := next((one for one in content if words.base(one) not in LIGHT), None):
                yield stem(words.base(found.lower()))


def _cue_of() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for cue, text in _CUES_TEXT.items():
        marks = [
            mark for mark in ("<need not>", "<at most>", "<less than>", "<at least>", "<more than>") if mark in text
        ]
        for mark in marks:
            text = text.replace(mark, "")
        for word in (*marks, *text.split()):
            found[word] = (*found.get(word, ()), cue)
    return found


_CUE_OF = _cue_of()
