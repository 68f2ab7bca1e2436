"""The one sentence that an answer of low confidence comes with."""

from __future__ import annotations

import math

LIMITED_BELOW = 0.7
"""The confidence below which an answer states its limits (ADR Retrieval-Augmented Generation, section 3)."""
EVEN, UNLIKELY = 0.4, 0.2
"""Below the one the answer is probably not there, below the other the topic is probably not there either."""


def describe_limits(confidence: float | None, *, is_by_words: bool) -> str | None:
    """What the reader should know of an answer with this confidence; None where there is nothing to say.

    A confidence of None was not calculated, as question or passages are not in English. `is_by_words` says that it
    rests on words alone.
    """
    if confidence is None:
        return "Confidence not known: question or passages seem not to be in English, for which alone it is calibrated."
    if confidence >= LIMITED_BELOW:
        return None
    ground = " by the question's words alone" if is_by_words else ""
    return f"Confidence {math.floor(100 * confidence)} %{ground}: {_reason(confidence)}."


def _reason(confidence: float) -> str:
    if confidence >= EVEN:
        return "the corpus holds the topic, and perhaps not the answer"
    if confidence >= UNLIKELY:
        return "the corpus holds something related, and probably not the answer"
    return "the corpus holds nothing that is likely to answer"
