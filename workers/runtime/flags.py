"""Feature flags: what decides each, and how a running process reads them.

The kill switch decides first, then policy, environment, the stored value, and the flag's default. The kill switch
(`sluice flags NAME --kill`) and the policy (sluice.toml) can only switch off; the environment (`FEATURE_SEARCH=false`)
and a stored value (`sluice flags search --off`) can do both. Each process uses the environment that it started with.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast, get_args

import structlog
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import FlagNotFoundError, TypeMismatchError
from openfeature.flag_evaluation import FlagResolutionDetails, Reason
from openfeature.provider import AbstractProvider, Metadata, ProviderStatus

from sluice.contracts.learning.control import FlagName, FlagSource, FlagState
from sluice.ledger.learning.flags import StoredFlag
from sluice.otel import metrics
from sluice.workers.setting_names import FLAG_VARIABLES

log = structlog.get_logger(__name__)

SNAPSHOT_SECONDS = 1.0
"""Largest age of the snapshot that `enabled` reads, so that a query costs no read of the ledger."""

_REASONS = {
    "kill_switch": Reason.DISABLED,
    "policy": Reason.STATIC,
    "environment": Reason.STATIC,
    "stored": Reason.CACHED,
    "default": Reason.DEFAULT,
}

Snapshot = Mapping[FlagName, FlagState]


class FlagProvider(AbstractProvider):
    """OpenFeature's provider over a function that returns the current flags."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        super().__init__()
        self._snapshot = snapshot

    def get_metadata(self) -> Metadata:
        """Return the provider's name."""
        return Metadata("sluice")

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Return whether the flag is on, and what decided that. Raises `FlagNotFoundError` if it is unknown."""
        state = self._snapshot().get(cast(FlagName, flag_key))
        if state is None:
            metrics.UNKNOWN_FLAGS.inc()
            log.warning("unknown_flag", flag=flag_key[:100])
            raise FlagNotFoundError(f"no flag {flag_key!r}; one of {', '.join(NAMES)}")
        return FlagResolutionDetails(
            state.enabled, reason=_REASONS[state.decided_by], variant=state.decided_by, flag_metadata={"why": state.why}
        )

    def _refuse(
        self, flag_key: str, default_value: Any, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[Any]:
        raise TypeMismatchError(f"{flag_key}: every flag of Sluice is on or off")

    resolve_string_details = resolve_integer_details = resolve_float_details = resolve_object_details = _refuse


class FlagClient(OpenFeatureClient):
    """A client bound to one provider, whatever is registered in the process: two instances may share a process."""

    def __init__(self, provider: FlagProvider) -> None:
        super().__init__(domain="sluice", version=None)
        self._provider = provider

    @property
    def provider(self) -> FlagProvider:
        """The instance's own provider."""
        return self._provider

    def get_provider_status(self) -> ProviderStatus:
        """Always ready: the provider needs no initialisation."""
        return ProviderStatus.READY


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
        self._stored = stored
        self._environment = environment
        self._policy = policy
        self._clock = clock
        self._lock = threading.Lock()
        self._snapshot: Snapshot = {}
        self._read_at = float("-inf")
        self.client = FlagClient(FlagProvider(self._recent))

    def enabled(self, name: FlagName) -> bool:
        """Return whether the flag is on, at most a second ago."""
        self._recent()  # the client would return a default where the ledger does not answer
        return self.client.get_boolean_value(name, DEFAULTS[name])

    def enabled_now(self, name: FlagName) -> bool:
        """Return whether the flag is on now."""
        return self._read()[name].enabled

    def switched_off(self) -> tuple[FlagName, ...]:
        """Return the flags that the kill switch, environment or a stored value has switched off, for decision records.

        A decision records the policy by itself, and a flag that is off by default changes nothing.
        """
        return tuple(
            name
            for name, state in self._recent().items()
            if not state.enabled and state.decided_by in ("kill_switch", "environment", "stored")
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
