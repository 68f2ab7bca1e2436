"""What no labelled collection shows, as bounded shifts of the log-odds: trust, age, other sources, a model's word.

The collections that the formula is fitted on have neither sources nor dates, so these sizes are chosen and not fitted:
each moves an even chance by 12 points at most, and all are 0 where nothing is known. Each is monotone.
"""

from __future__ import annotations

from sluice.trust.confidence.formula import log_odds_of

UNTRUSTED = 0.4
"""The trust below which a source counts against its passage: that of today's submission for which nothing speaks."""
TRUST_SHIFT = 0.5
AGE_SHIFT = 0.2
OLDEST_FRESHNESS = 0.7
"""The freshness of a text of a year ago or more (`TrustFactors.time_freshness`)."""
SOURCE_SHIFT = 0.25
"""For each further registrable domain with a passage that probably answers as well."""
MOST_SOURCES = 2
MODEL_SHARE = 0.3
"""How much a language model's own word counts: less than half, as models are surer than they are right."""
_MODEL_AT_MOST = 0.95


def shift_by_trust(trust: float) -> float:
    """0 for a source that is trusted at least `UNTRUSTED`, falling to -`TRUST_SHIFT` for one that is not at all."""
    return -TRUST_SHIFT * max(0.0, UNTRUSTED - trust) / UNTRUSTED


def shift_by_age(freshness: float) -> float:
    """0 for a text of today, falling to -`AGE_SHIFT` for one of a year ago or more."""
    return -AGE_SHIFT * min(1.0, max(0.0, (1.0 - freshness) / (1.0 - OLDEST_FRESHNESS)))


def shift_by_sources(others: int) -> float:
    """Rises with the number of other independent sources that probably answer too, up to `MOST_SOURCES`."""
    return SOURCE_SHIFT * min(MOST_SOURCES, others)


def weigh_model_opinion(log_odds: float, model_says: float | None) -> float:
    """The log-odds with a language model's own confidence, in [0, 1], weighed in; unchanged for None."""
    if model_says is None:
        return log_odds
    said = log_odds_of(min(_MODEL_AT_MOST, max(1.0 - _MODEL_AT_MOST, model_says)))
    return (1.0 - MODEL_SHARE) * log_odds + MODEL_SHARE * said
