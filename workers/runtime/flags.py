"""Feature flags: what decides each, and how a running process reads them.

The kill switch decides first, then policy, environment, the stored value, and the flag's default. The kill switch
(`sluice flags NAME --kill`) and the policy (sluice.toml) can only switch off; the environment (`FEATURE_SEARCH=false`)
and a stored value (`sluice flags search --off`) can do both. Each process uses the environment that it started with.
A stored value may switch a flag of retrieval on for a share of the runs, drawn by their ids.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from sluice.contracts.learning.control import FlagName, FlagSource, FlagState
from sluice.gate.learned.rollout import bucket_of
from sluice.ledger.learning.flags import StoredFlag
from sluice.otel import metrics
from sluice.workers.setting_names import FLAG_VARIABLES

SNAPSHOT_SECONDS = 1.0
"""Largest age of the snapshot that `enabled` reads, so that a query costs no read of the ledger."""

Snapshot = Mapping[FlagName, FlagState]


class FlagReader:
    """The flags of one instance, as this process sees them. Thread-safe.

    Every method may raise `Unavailable` when the ledger does not answer: no flag is guessed.
    """

    def __init__(
        self,
        stored: Callable[[], Mapping[str, StoredFlag]],
        environment: Mapping[FlagName, bool],
        policy: Mapping[FlagName, str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stored, self._environment, self._policy, self._clock = stored, environment, policy, clock
        self._lock = threading.Lock()
        self._snapshot: Snapshot = {}
        self._read_at = float("-inf")

    def enabled(self, name: FlagName) -> bool:
        """Return whether the flag is on, at most a second ago."""
        return self._recent()[name].enabled

    def enabled_now(self, name: FlagName) -> bool:
        """Return whether the flag is on now."""
        return self._read()[name].enabled

    def switched_off(self, unit: str) -> tuple[FlagName, ...]:
        """Return the flags that are off for `unit`, a run's id or a direct question's text, for decision records: those
        that the kill switch, environment or a stored value has switched off, and those that a share without it has.

        A decision records the policy by itself, and a flag that is off by default changes nothing.
        """
        return tuple(
            name
            for name, state in self._recent().items()
            if (not state.enabled and state.decided_by in ("kill_switch", "environment", "stored"))
            or (state.share is not None and bucket_of(f"flag {name}", unit) >= state.share)
        )

    def states(self) -> Sequence[FlagState]:
        """Return the current state of every flag."""
        return list(self._read().values())

    def resolve(self, name: FlagName, stored: StoredFlag | None) -> FlagState:
        """Return the state that the flag would have with this stored value."""
        return resolve(name, stored, self._environment, self._policy)

    def _recent(self) -> Snapshot:
        with self._lock:
            if self._clock() - self._read_at < SNAPSHOT_SECONDS:
                return self._snapshot
        return self._read()

    def _read(self) -> Snapshot:
        began = self._clock()
        stored = self._stored()
        snapshot = {name: self.resolve(name, stored.get(name)) for name in NAMES}
        with self._lock:
            if began >= self._read_at:
                self._snapshot, self._read_at = snapshot, began
        for name, state in snapshot.items():
            metrics.FLAG_ENABLED.labels(name).set(state.enabled)
        return snapshot


NAMES: tuple[FlagName, ...] = get_args(FlagName)

_EXPERIMENTAL = ("learned_gate", "ragas", "memory")
DEFAULTS: Mapping[FlagName, bool] = {name: name not in _EXPERIMENTAL for name in NAMES}
"""Features older than flags stay on (docs/decisions/0021-flags.md), and so do those measured to lose
nothing (docs/decisions/0028-graph-retrieval.md); experimental ones are off."""


def resolve(
    name: FlagName, stored: StoredFlag | None, environment: Mapping[FlagName, bool], policy: Mapping[FlagName, str]
) -> FlagState:
    """Return the flag's state and the source that decides it."""
    enabled, decided_by, why = _decided(name, stored, environment, policy)
    share = stored.share if stored is not None and decided_by == "stored" and enabled else None
    state = FlagState(name=name, enabled=enabled, share=share, decided_by=decided_by, why=why)
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
