"""Feature flags as a running process reads them, by OpenFeature's interface.

    flags.enabled("rerank")        as of a second ago at most
    flags.enabled_now("search")    as the ledger has it now, for what goes outside
    flags.client                   an OpenFeature client, for hooks and for those who know it

`FlagProvider` is the OpenFeature provider: it answers from a snapshot of the ledger's flags that is a second old at
most, with the source that decided as the variant. An unknown flag is told to be its caller's default, and counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import structlog
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import FlagNotFoundError, TypeMismatchError
from openfeature.flag_evaluation import FlagResolutionDetails, Reason
from openfeature.provider import AbstractProvider, Metadata, ProviderStatus

from sluice.contracts.learning.control import FlagName, FlagState
from sluice.ledger.learning.flags import StoredFlag
from sluice.otel import metrics
from sluice.workers.runtime.flag_rules import DEFAULTS, NAMES, resolve

log = structlog.get_logger(__name__)

SNAPSHOT_SECONDS = 1.0
"""How old what `enabled` reads may be: a change is heard within that time, and a query costs no read of the ledger."""

_REASONS = {
    "kill_switch": Reason.DISABLED,
    "policy": Reason.STATIC,
    "environment": Reason.STATIC,
    "stored": Reason.CACHED,
    "default": Reason.DEFAULT,
}

Snapshot = Mapping[FlagName, FlagState]


class FlagProvider(AbstractProvider):
    """OpenFeature's provider over a function that gives the flags as they stand."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        super().__init__()
        self._snapshot = snapshot

    def get_metadata(self) -> Metadata:
        """The provider's name."""
        return Metadata("sluice")

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Whether the flag is on, and by whose word.

        Raises:
            FlagNotFoundError: there is no such flag.
        """
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
    """A client of one provider, whatever is registered in the process: two instances may share it."""

    def __init__(self, provider: FlagProvider) -> None:
        super().__init__(domain="sluice", version=None)
        self._provider = provider

    @property
    def provider(self) -> FlagProvider:
        """The instance's own."""
        return self._provider

    def get_provider_status(self) -> ProviderStatus:
        """It needs no initialisation."""
        return ProviderStatus.READY


class FlagReader:
    """The flags of one instance, as this process sees them. Safe across threads.

    Every method may raise `Unavailable` when the ledger does not answer: what may go outside is not guessed.
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
        """Whether the flag is on, as of a second ago at most."""
        self._recent()  # the client would give a default where the ledger does not answer
        return self.client.get_boolean_value(name, DEFAULTS[name])

    def enabled_now(self, name: FlagName) -> bool:
        """Whether the flag is on now."""
        return self._read()[name].enabled

    def switched_off(self) -> tuple[FlagName, ...]:
        """What somebody has switched off, by kill switch, environment or a stored value: what a decision records.

        What the policy denies is recorded as the policy, and what is off by default steers nothing.
        """
        return tuple(
            name
            for name, state in self._recent().items()
            if not state.enabled and state.decided_by in ("kill_switch", "environment", "stored")
        )

    def states(self) -> Sequence[FlagState]:
        """Every flag as it stands now."""
        return list(self._read().values())

    def resolve(self, name: FlagName, stored: StoredFlag | None) -> FlagState:
        """How the flag would stand, were this stored of it."""
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
