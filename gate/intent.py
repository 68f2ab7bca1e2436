"""Classifies a question by its intent, and estimates whether its answer changes over time.

Both are computed from the similarities to each intent's prototypes and from the words of the question, by the profile's
numbers. Log-odds become a probability by the logistic function; everything is rounded to six places, so that the result
does not depend on the last bit of a platform's `exp`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from sluice.gate.profile import Profile, TimeModel, TimeWords
from sluice.text.words import WORD, sigmoid

DECIMALS = 6
YEARS_AHEAD = 10
"""Years after the present one that still count as years; a larger number is more often a title or a count."""

_POSSESSIVE = re.compile(r"['’]s\b")
_YEAR = re.compile(r"(?<![\w.:/-])(1[5-9]\d\d|20\d\d)(?![\w/]|[.:]\d)")
_NUMBERED_PART = re.compile(r" (?:season|episode|ep|part|chapter|volume|book) (?:\d{1,3}|one|two|three|four|five|six) ")

_WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
"""A letter of Japanese or Chinese."""


@dataclass(frozen=True, slots=True)
class QuestionKind:
    """The classification of one question."""

    intent: str
    closeness: float
    """Cosine to the nearest prototype of the intent, in [-1, 1]."""
    time_sensitivity: float
    """Probability that the answer changes over time, in [0, 1]."""
    half_life_days: float
    """Age at which an answer has lost half its worth: the intent's, or that of a more urgent time word."""
    newest_year: int | None
    """The latest calendar year that the question names."""
    time_sensitive: bool
    """Whether the question counts as time-sensitive."""


def classify(
    query: str,
    intent_similarity: Mapping[str, float],
    present_year: int,
    profile: Profile,
    changes: float | None = None,
) -> QuestionKind:
    """Return the kind of `query`: the nearest time-bound intent if it is time-sensitive, else the nearest other one.
    Intents that the profile does not know are ignored; an unmeasured one counts as similarity 0. The log-odds `changes`
    by the question's vector (`gate.heads`) take the place of the part of the intents."""
    groups = find_time_words(query, profile.time)
    past_year, numbered_part = find_time_anchors(query, present_year)
    bound, unbound = _nearest(intent_similarity, profile, True), _nearest(intent_similarity, profile, False)
    weights = profile.time.intent_weights
    if changes is None:
        changes = profile.time.margin_weight * (bound[1] - unbound[1]) + math.fsum(
            weight * intent_similarity.get(name, 0.0) for name, weight in weights.items()
        )
    log_odds = (
        profile.time.bias
        + changes
        + math.fsum(group.strength for group in groups.values())
        + profile.time.past_year * past_year
        + profile.time.numbered_part * numbered_part
    )
    sensitivity = round(sigmoid(log_odds), DECIMALS)
    time_sensitive = sensitivity >= profile.time.counts_from
    intent, closeness = bound if time_sensitive else unbound
    urgent = [group.half_life_days for group in groups.values() if group.half_life_days is not None]
    half_life = min([profile.intents[intent].half_life_days, *urgent])
    newest_year = max(extract_years(query, present_year), default=None)
    return QuestionKind(intent, closeness, sensitivity, half_life, newest_year, time_sensitive)


def find_time_words(query: str, time: TimeModel) -> dict[str, TimeWords]:
    """Return the groups of time words that the query has a phrase of, by name. A phrase matches whole words; one in
    Chinese or Japanese, which write no spaces, matches anywhere in the text."""
    text = _words(query)
    return {name: group for name, group in time.words.items() if any(one in text for one in _sought(group.phrases))}


def find_time_anchors(query: str, present_year: int) -> tuple[bool, bool]:
    """Return whether a past year and no later one fixes the moment of a question; and whether a numbered part does."""
    years = extract_years(query, present_year)
    past_year = bool(years) and max(years) < present_year
    return past_year, _NUMBERED_PART.search(_words(query)) is not None


def extract_years(query: str, present_year: int) -> tuple[int, ...]:
    """Return the calendar years that the query names, from 1500 to ten years ahead of the present."""
    return tuple(year for year in map(int, _YEAR.findall(query)) if year <= present_year + YEARS_AHEAD)


def _words(query: str) -> str:
    """Return the query's words in lower case, with a space around each, so that `in` finds a phrase."""
    return f" {' '.join(WORD.findall(_POSSESSIVE.sub(' is', query.casefold())))} "


@lru_cache(maxsize=256)
def _sought(phrases: tuple[str, ...]) -> tuple[str, ...]:
    """Return the phrases as `_words` writes them; those in Chinese or Japanese without the spaces around them."""
    return tuple(words.strip() if _WITHOUT_SPACES.search(words) else words for words in map(_words, phrases))


def _nearest(intent_similarity: Mapping[str, float], profile: Profile, time_bound: bool) -> tuple[str, float]:
    """Return the nearest intent that is time-bound or not, by name where two are equally near."""
    sort = sorted(name for name, intent in profile.intents.items() if intent.time_bound is time_bound)
    best = max(sort, key=lambda name: intent_similarity.get(name, 0.0))
    return best, intent_similarity.get(best, 0.0)
