"""The tone of a passage, by the VADER lexicon (Hutto and Gilbert, ICWSM 2014): no model, no network, English only.

Each sentence has its compound score in [-1, 1]; a passage has the mean of those that are not neutral, so that its
length does not count. `docs/profiles/marketing.md` tells how well it agrees with labels.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from sluice.contracts.profiles.insights import Sentiment

if TYPE_CHECKING:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

CLEAR = 0.05
"""From here a compound score is positive, as its authors recommend; below the negative of it, negative."""
MOST_SENTENCES = 40
"""Read of one passage: it has seldom more than twenty."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def read_sentiment(text: str) -> Sentiment | None:
    """The tone of an English text; None for one without words."""
    sentences = [part for part in _SENTENCE_END.split(text) if any(map(str.isalpha, part))][:MOST_SENTENCES]
    if not sentences:
        return None
    scores = [float(_analyser().polarity_scores(sentence)["compound"]) for sentence in sentences]
    toned = [score for score in scores if abs(score) >= CLEAR]
    score = round(math.fsum(toned) / len(toned), 4) if toned else 0.0
    if score >= CLEAR:
        return Sentiment(score=score, label="positive")
    return Sentiment(score=score, label="negative" if score <= -CLEAR else "neutral")


@lru_cache(maxsize=1)
def _analyser() -> SentimentIntensityAnalyzer:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()
