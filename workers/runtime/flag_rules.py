"""Decides a feature flag: kill switch, then policy, environment, the stored value, and its default.

The kill switch (`sluice flags NAME --kill`) and the policy (sluice.toml) can only switch off; the environment
(`FEATURE_SEARCH=false`) and a stored value (`sluice flags search --off`) can do both. Each process uses the
environment that it started with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from sluice.contracts.learning.control import FlagName, FlagSource, FlagState
from sluice.ledger.learning.flags import StoredFlag
from sluice.workers.environment import FLAG_VARIABLES

NAMES: tuple[FlagName, ...] = get_args(FlagName)

DEFAULTS: Mapping[FlagName, bool] = {
    "gate_weights": True,
    "search": True,
    "crawl": True,
    "hybrid": True,
    "rerank": True,
    "learned_gate": False,
    "ragas": False,
    "graph": True,
    "memory": False,
}
"""Features older than flags stay on (docs/decisions/0021-flags.md), and so do those measured to lose
nothing (docs/decisions/0028-graph-retrieval.md); experimental ones are off."""


def resolve(
    name: FlagName, stored: StoredFlag | None, environment: Mapping[FlagName, bool], policy: Mapping[FlagName, str]
) -> FlagState:
    """Return the flag's state and the source that decides it."""
    enabled, decided_by, why = _decided(name, stored, environment, policy)
    state = FlagState(name=name, enabled=enabled, decided_by=decided_by, why=why)
    if stored is None or (stored.enabled is None and not stored.killed):
        return state
    facts = {"changed_at": stored.changed_at, "operator": stored.operator, "note": stored.note}
    return state.model_copy(update=facts)


def _decided(
    name: FlagName, stored: StoredFlag | None, environment: Mapping[FlagName, bool], policy: Mapping[FlagName, str]
) -> tuple[bool, FlagSource, str]:
    if stored is not None and stored.killed:
        return False, "kill_switch", f"`sluice flags {name} --reset` ends it"
    if name in policy:
        return False, "policy", policy[name]
    if name in environment:
        return environment[name], "environment", f"{FLAG_VARIABLES[name]}={str(environment[name]).lower()}"
    if stored is not None and stored.enabled is not None:
        return stored.enabled, "stored", stored.note
    return DEFAULTS[name], "default", ""
