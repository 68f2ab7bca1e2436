"""Finds claims that need proof, disclosures, and the tone of a passage. English texts only.

Rules are data files in `trust/marketing/rules`, each with its source. A sentence that denies a claim, questions it or
reports that an authority objected to it makes none; whether proof exists is not checked here.

A passage that speaks for a brand discloses it by a clear mark (`#ad`, "sponsored by"). Without one the disclosure is
unclear if a mark is ambiguous, and missing if there is only a sign of advertising (a promotion code, an affiliate link,
a tie to the brand). A disclosure elsewhere on the page is not seen: `missing` means "look there".

The tone is by the VADER lexicon (Hutto and Gilbert, ICWSM 2014): no model, no network. Each sentence has its compound
score in [-1, 1]; a passage has the mean of those that are not neutral, so that its length does not count.
`docs/profiles/marketing.md` reports how well it agrees with labels.
"""

from __future__ import annotations

import math
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field

from sluice.contracts.base import Value
from sluice.contracts.profiles import Claim, Disclosure, Sentiment

if TYPE_CHECKING:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer


RULES_DIR = Path(__file__).parent / "rules"


def _compile(pattern: object) -> object:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE) if isinstance(pattern, str) else pattern


Pattern = Annotated[re.Pattern[str], BeforeValidator(_compile)]


class _Rules(Value):
    model_config = ConfigDict(arbitrary_types_allowed=True)


class Sign(_Rules):
    """Words to search for. `clear`: whether regulators accept a mark as clear."""

    rule: str
    pattern: Pattern
    source: str
    clear: bool = True
    needs: str = ""


class Disclosures(_Rules):
    """Marks of a disclosure, and signs that require one."""

    sources: dict[str, str]
    marks: tuple[Sign, ...]
    signs: tuple[Sign, ...]


class Single(_Rules):
    """A single pattern."""

    pattern: Pattern


class Claims(_Rules):
    """Claims, and patterns of sentences that report one, deny one or refer to a study."""

    sources: dict[str, str]
    claims: tuple[Sign, ...]
    reported: Single
    denied: Single
    evidence: Single


class ChannelRules(_Rules):
    """Registered domains of each kind of source, and patterns of addresses."""

    news: frozenset[str]
    press_release: frozenset[str]
    social: frozenset[str]
    forum: frozenset[str]
    addresses: Annotated[dict[str, Pattern], Field(default_factory=dict)]


SomeRules = TypeVar("SomeRules", bound=_Rules)


@cache
def read_rules(kind: type[SomeRules], name: str) -> SomeRules:
    """Return the rules in the file `name`; each file is read once."""
    return kind.model_validate(tomllib.loads((RULES_DIR / f"{name}.toml").read_text("utf-8")))


MOST_CLAIMS = 10
"""Most claims of one passage: more add nothing."""
_SENTENCES = re.compile(r"[^.!?\n]*(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?\n]?")


def find_claims(text: str) -> tuple[Claim, ...]:
    """Return the claims of a passage in reading order, each rule once per sentence."""
    rules, found = read_rules(Claims, "claims"), []
    for sentence in filter(str.strip, _SENTENCES.findall(text)):
        met = [(one, match) for one in rules.claims if (match := one.pattern.search(sentence))]
        met = [(one, match) for one, match in met if not rules.denied.pattern.search(sentence[: match.start()])]
        if not met or rules.reported.pattern.search(sentence.strip()):
            continue
        evidence = rules.evidence.pattern.search(sentence) is not None
        for one, match in sorted(met, key=lambda entry: entry[1].start()):
            found.append(
                Claim(
                    rule=one.rule,
                    text=" ".join(match[0].split()),
                    needs=one.needs,
                    source=rules.sources[one.source],
                    cites_evidence=evidence,
                )
            )
    return tuple(found[:MOST_CLAIMS])


MOST_SHOWN_CHARACTERS = 120


def check_disclosure(text: str) -> Disclosure | None:
    """Return the disclosure of a passage; None if it has neither a mark nor a sign that it speaks for a brand."""
    rules = read_rules(Disclosures, "disclosures")
    clear = _first(text, [mark for mark in rules.marks if mark.clear])
    if clear:
        return _disclosure("marked", *clear)
    ambiguous = _first(text, [mark for mark in rules.marks if not mark.clear])
    sign = _first(text, rules.signs)
    if ambiguous:
        return _disclosure("unclear", *ambiguous)
    return _disclosure("missing", *sign) if sign else None


def _first(text: str, signs: list[Sign] | tuple[Sign, ...]) -> tuple[Sign, re.Match[str]] | None:
    return next(((sign, match) for sign in signs if (match := sign.pattern.search(text))), None)


def _disclosure(status: str, sign: Sign, match: re.Match[str]) -> Disclosure:
    shown = " ".join(match[0].split())[:MOST_SHOWN_CHARACTERS]
    source = read_rules(Disclosures, "disclosures").sources[sign.source]
    return Disclosure.model_validate({"status": status, "text": shown, "rule": sign.rule, "source": source})


CLEAR = 0.05
"""Compound score from which a text is positive, as VADER's authors recommend; at or below its negative, negative."""
MOST_SENTENCES = 40
"""Most sentences read of one passage: it seldom has more than twenty."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def read_sentiment(text: str) -> Sentiment | None:
    """Return the tone of an English text; None for one without words."""
    sentences = [part for part in _SENTENCE_END.split(text) if any(map(str.isalpha, part))][:MOST_SENTENCES]
    if not sentences:
        return None
    scores = [float(_analyser().polarity_scores(sentence)["compound"]) for sentence in sentences]
    toned = [score for score in scores if abs(score) >= CLEAR]
    score = round(math.fsum(toned) / len(toned), 4) if toned else 0.0
    if score >= CLEAR:
        return Sentiment(score=score, label="positive")
    return Sentiment(score=score, label="negative" if score <= -CLEAR else "neutral")


@cache
def _analyser() -> SentimentIntensityAnalyzer:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()
