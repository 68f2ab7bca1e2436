"""Estimates how likely a sentence is harmful advice in words that no rule was written for.

A linear model without an embedder, below half a millisecond: it weighs which concepts meet (`concepts.toml`: weakening
and a safeguard, giving away and a secret), whether the sentence urges or forbids, and its words. Its weights
(`likely_harm.json`) are fitted by `python -m bench.memory.poison`, see docs/decisions/0031-harmful-advice.md.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

from sluice.memory.sanitise.concepts import find_concepts, words_of
from sluice.memory.sanitise.sentences import sentences

RULE = "harmful.likely"
_SHORTEST, _LONGEST = 4, 80
"""Words of a sentence that is weighed: what is shorter says too little, what is longer is none."""
_LETTERS = 6
"""Of each word, so that the forms of a word are mostly one."""
_WORDS_WEIGH = 3.0
"""How much all the words together count beside one concept."""
DEEDS = ("weaken", "destroy", "expose", "grant", "run-foreign", "conceal", "cheat", "persist", "sabotage", "execute")
_PAIRS_TEXT = """
weaken+safeguard weaken+tests weaken+broad weaken+excuse weaken+local weaken+people cheat+tests cheat+safeguard
destroy+valuable destroy+broad destroy+excuse destroy+local expose+secret expose+outside expose+broad expose+local
secret+outside run-foreign+outside run-foreign+broad run-foreign+execute grant+broad grant+excuse grant+valuable
conceal+people conceal+safeguard conceal+tests trigger+destroy trigger+sabotage trigger+weaken trigger+expose
trigger+conceal persist+execute persist+expose encoded+execute claimed-authority+weaken claimed-authority+conceal
claimed-authority+safeguard addresses-model+execute addresses-model+weaken addresses-model+expose safeguard+excuse
safeguard+broad tests+excuse sabotage+valuable sabotage+broad sabotage+outside
"""
PAIRS = tuple(pair.split("+") for pair in _PAIRS_TEXT.split())
"""Concepts that say more where they meet."""
_URGES = re.compile(
    r"(?:^|[,:;>]\s+|\b(?:and|then|please|just|always|simply|first|also|now|instead|next|you|we|must|should|shall|will|can|to|"
    r"so|may|or|by|is|:)\s+)(?P<verb>[a-z-]+)"
)
_BANNED = re.compile(r"\b(?:never|not|don't|cannot|can't|no longer|avoid|without|instead of|rather than)\s*$")
_FORBIDS = re.compile(r"\b(?:never|don't|do not|must not|avoid|forbidden|not allowed|should not|nobody may)\b")
_VERBS_TEXT = """
accept act add allow amend answer append apply approve assume attach attack authorise authorize backdate bake bind
build bury bypass call catch change claim clear close comment commit configure connect consider copy corrupt count
create decode define delete deploy describe destroy disable discard disregard do download drop dump echo edit embed
empty enable encode ensure enter erase eval evaluate exclude execute expose export fetch follow forget format
forward get give go grant hand hard-code hardcode have hide hold ignore import include initialise initialize insert
install introduce invoke issue keep kill leave let load log lower mail make mark merge mine mirror mock move mute
obey open output override overwrite pass paste patch pin pipe point post pretend print prune publish pull purge push
put raise read record redirect refuse register release remember remove rename repeat replace report reset restart
return reveal rewrite rotate run save say send set share show shut silence skip slip slow spend split squash start
stop store stream strip submit suppress swallow swap switch sync take tell touch transfer translate transmit treat
truncate trust tunnel turn uninstall unpin unset update upload use wait whitelist wipe wrap write
"""
_VERBS = frozenset(_VERBS_TEXT.split())


@dataclass(frozen=True, slots=True)
class Weights:
    """What each feature weighs; the sum above `threshold` is likely harm."""

    intercept: float
    threshold: float
    features: dict[str, float]


def find_likely_harm(text: str) -> Iterator[tuple[str, int, int]]:
    """Rule, start and end of each sentence in `text` (small letters) that is likely harmful advice."""
    weights = _weights()
    for start, end in sentences(text):
        if score(text[start:end], weights) > weights.threshold:
            yield RULE, start, end


def score(sentence: str, weights: Weights) -> float:
    """The log odds of harm by the model; minus infinity for what is not weighed."""
    features = features_of(sentence)
    if not features:
        return -math.inf
    return weights.intercept + sum(value * weights.features.get(name, 0.0) for name, value in features.items())


def features_of(sentence: str) -> dict[str, float]:
    """What the model weighs of a sentence, by name; empty where it has too few words, or too many."""
    words = words_of(sentence)
    if not _SHORTEST <= len(words) <= _LONGEST:
        return {}
    spoken = find_concepts(words)
    verbs = [found for found in _URGES.finditer(sentence) if found["verb"] in _VERBS]
    urging = [found for found in verbs if not _is_banned(sentence, found.start("verb"))]
    urges, forbids = bool(urging), bool(_FORBIDS.search(sentence))
    mood = "forbids" if forbids else "urges" if urges else "tells"
    found = {f"concept:{name}": min(len(places), 3) / 2 for name, places in spoken.items()}
    found[f"mood:{mood}"] = 1.0
    found["urges:count"] = min(len(urging), 4) / 2
    found["urges:first"] = float(urges and urging[0].start("verb") <= 2)
    found["bans:verb"] = float(len(verbs) > len(urging))
    found["length"] = min(len(sentence), 300) / 300
    for deed in DEEDS:
        if deed in spoken:
            found[f"{deed}:{mood}"] = 1.0
    for one, other in PAIRS:
        if one in spoken and other in spoken and len(spoken[one] | spoken[other]) > 1:
            found[f"{one}+{other}"] = found[f"{one}+{other}:{mood}"] = 1.0
    cut = ["^", *(word[:_LETTERS] for word in words if any(map(str.isalpha, word)))]
    grams = {*cut[1:], *(f"{one} {other}" for one, other in pairwise(cut))}
    share = _WORDS_WEIGH / math.sqrt(len(grams) or 1)
    found.update((f"words:{gram}", share) for gram in grams)
    return found


def _is_banned(sentence: str, verb: int) -> bool:
    """Whether a ban stands right before the verb that begins at `verb`."""
    return bool(_BANNED.search(sentence[max(0, verb - 14) : verb]))


@lru_cache(maxsize=1)
def _weights() -> Weights:
    read = json.loads(files("sluice.memory.sanitise").joinpath("likely_harm.json").read_text(encoding="utf-8"))
    return Weights(read["intercept"], read["threshold"], read["features"])
