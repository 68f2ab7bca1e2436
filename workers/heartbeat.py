"""Keeps the leases of running work alive: one thread per process, however many events it handles.

A claim that was taken over is no longer extended; its `settle` will be fenced by the ledger. Nor is one that has been
held for longer than an event may take: a handler that hangs then loses it, and its run can go on without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from contracts.errors import Fenced, Unavailable
from workers.ledger import Claim, Ledger

log = structlog.get_logger(__name__)

BEATS_PER_LEASE = 3


class Heartbeat:
    """Extends every registered claim three times per lease, for `longest_seconds` at most.

    The thread starts with the first claim.
    """

    def __init__(self, ledger: Ledger, lease_seconds: float, longest_seconds: float = float("inf")) -> None:
        self._ledger = ledger
        self._lease_seconds = lease_seconds
        self._longest_seconds = longest_seconds
        self._claims: dict[tuple[str, int], tuple[Claim, float]] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def of(self, claim: Claim) -> Iterator[None]:
        """Keep `claim` alive for the length of the block."""
        self._start()
        with self._lock:
            self._claims[claim.event.id, claim.epoch] = claim, time.monotonic() + self._longest_seconds
        try:
            yield
        finally:
            self._forget(claim)

    def close(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        if self._thread:
            self._thread.join(timeout=self._lease_seconds)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
                self._thread.start()

    def _beat(self) -> None:
        while not self._stopped.wait(self._lease_seconds / BEATS_PER_LEASE):
            with self._lock:
                claims = list(self._claims.values())
            for claim, until in claims:
                if time.monotonic() < until:
                    self._extend(claim)
                else:
                    log.error("event_overdue", event_id=claim.event.id, kind=claim.event.kind, epoch=claim.epoch)
                    self._forget(claim)

    def _extend(self, claim: Claim) -> None:
        try:
            self._ledger.heartbeat(claim, self._lease_seconds)
        except Fenced:
            log.warning("claim_lost", event_id=claim.event.id, epoch=claim.epoch)
            self._forget(claim)
        except Unavailable as error:
            log.warning("heartbeat_failed", event_id=claim.event.id, error=repr(error))
        except Exception as error:  # the one thread must outlive whatever befalls one claim
            log.error("heartbeat_failed", event_id=claim.event.id, error=repr(error), exc_info=error)

    def _forget(self, claim: Claim) -> None:
        with self._lock:
            self._claims.pop((claim.event.id, claim.epoch), None)
