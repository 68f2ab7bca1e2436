"""Feature flags in the environment: their variables, and what each says."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.contracts.errors import InvalidSetting
from sluice.contracts.learning.control import FlagName

VARIABLES: Mapping[FlagName, str] = {
    "gate_weights": "FEATURE_GATE_WEIGHTS",
    "search": "FEATURE_SEARCH",
    "crawl": "FEATURE_CRAWL",
    "hybrid": "FEATURE_HYBRID_RETRIEVAL",
    "rerank": "FEATURE_RERANK",
    "learned_gate": "FEATURE_LEARNED_GATE",
    "ragas": "FEATURE_RAGAS_EVAL",
    "graph": "FEATURE_GRAPH",
    "memory": "FEATURE_MEMORY",
}
"""The environment's name of each flag."""

_WORDS = {"true": True, "1": True, "on": True, "yes": True, "false": False, "0": False, "off": False, "no": False}


def read_environment(environment: Mapping[str, str]) -> dict[FlagName, bool]:
    """What the environment says of each flag that it names; an empty variable says nothing.

    Raises:
        InvalidSetting: a variable is neither true nor false.
    """
    said: dict[FlagName, bool] = {}
    for name, variable in VARIABLES.items():
        word = environment.get(variable, "").strip().lower()
        if word and word not in _WORDS:
            raise InvalidSetting(variable, f"{word!r} is neither true nor false", f"write {variable}=true or =false")
        if word:
            said[name] = _WORDS[word]
    return said
