"""Who decides a feature flag: kill switch, then policy, environment, the stored value, and its default.

The kill switch (`sluice flags kill`) and the policy (sluice.toml) can only switch off; the environment
(`FEATURE_SEARCH=false`) and a stored value (`sluice flags off search`) can do both. The environment is that of each
process, as it was when the process began.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from contracts.control import FlagName, FlagSource, FlagState
from contracts.errors import InvalidSetting
from ledger.learning.flags import StoredFlag

NAMES: tuple[FlagName, ...] = get_args(FlagName)

DEFAULTS: Mapping[FlagName, bool] = {
    "gate_weights": True,
    "search": True,
    "crawl": True,
    "hybrid": True,
    "rerank": True,
    "learned_gate": False,
    "ragas": False,
    "graph": False,
    "memory": False,
}
"""What stood before there were flags stays on (docs/decisions/0021-flags.md); what is tried is off."""

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


def resolve(
    name: FlagName,
    stored: StoredFlag | None,
    environment: Mapping[FlagName, bool],
    policy: Mapping[FlagName, str],
) -> FlagState:
    """How the flag stands, and who decides it."""
    enabled, decided_by, why = _decided(name, stored, environment, policy)
    state = FlagState(name=name, enabled=enabled, decided_by=decided_by, why=why)
    if stored is None or (stored.enabled is None and not stored.killed):
        return state
    facts = {"changed_at": stored.changed_at, "operator": stored.operator, "note": stored.note}
    return state.model_copy(update=facts)


def _decided(
    name: FlagName,
    stored: StoredFlag | None,
    environment: Mapping[FlagName, bool],
    policy: Mapping[FlagName, str],
) -> tuple[bool, FlagSource, str]:
    if stored is not None and stored.killed:
        return False, "kill_switch", f"`sluice flags reset {name}` ends it"
    if name in policy:
        return False, "policy", policy[name]
    if name in environment:
        return environment[name], "environment", f"{VARIABLES[name]}={str(environment[name]).lower()}"
    if stored is not None and stored.enabled is not None:
        return stored.enabled, "stored", stored.note
    return DEFAULTS[name], "default", ""
