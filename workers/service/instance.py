"""One instance as the HTTP interface knows it: its services, built once and closed together, and its parts' health."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from sluice.contracts.api import Health, HealthCheck
from sluice.contracts.errors import DiskFull, IdempotencyInProgress, SluiceError
from sluice.graph.arm import DAMAGED
from sluice.ingest.politeness.hosts import MOST_DAYS
from sluice.workers.broker.celery_app import wanted_size
from sluice.workers.broker.direct_query import QueryPool
from sluice.workers.broker.transport import BROKER_ERRORS
from sluice.workers.context import Context
from sluice.workers.runtime.backpressure import DiskRoom
from sluice.workers.schedules import ScheduleDesk
from sluice.workers.service.callers import ApiKeys, ConsoleSessions, secret_of
from sluice.workers.service.corpora import CorpusDesk, DocumentDesk
from sluice.workers.service.crawling import CrawlDesk
from sluice.workers.service.dead_letters import DeadLetterDesk
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.service.freshness import published_hash
from sluice.workers.service.graphs import GraphDesk
from sluice.workers.service.learning.control import FlagDesk, RolloutDesk, subject_of
from sluice.workers.service.learning.evidence import EvidenceDesk
from sluice.workers.service.memories import MemoryDesk
from sluice.workers.service.quarantine import QuarantineDesk
from sluice.workers.service.rate_limits import RateLimits
from sluice.workers.service.runs import Announcements, Runs
from sluice.workers.service.service import Service
from sluice.workers.service.uploads import UploadDesk
from sluice.workers.service.webhooks import WebhookDesk
from sluice.workers.setting_names import SCALED_HERE
from sluice.workers.settings import Settings
from sluice.workers.wiring.graphs import is_graphed
from sluice.workers.wiring.index_owner import PULL_SECONDS, machine_id
from sluice.workers.wiring.steering import key_of

__all__ = ["BROKER_ERRORS", "MOST_DAYS", "Instance"]

PUBLISH_PATIENCE_SECONDS = 2.0
"""Longest wait for a broker that hangs. The run is recorded by then; the reconciler publishes it."""

THREADS = 40
"""Threads in which calls are served: those of anyio."""


class Instance:
    """The services of one process, for as long as it serves."""

    def __init__(self, settings: Settings) -> None:
        """Build every service in the running loop. Raises `InvalidSetting` without a broker, `Conflict` as `Ledger`."""
        self.settings = settings
        self.context = Context(settings, publish_patience_seconds=PUBLISH_PATIENCE_SECONDS, threads=THREADS)
        ledger = self.context.ledger
        self.service = Service(self.context)
        self.corpora = CorpusDesk(self.context)
        self.documents = DocumentDesk(self.context)
        self.uploads = UploadDesk(self.context, self.service)
        self.crawling = CrawlDesk(self.context, self.service)
        self.schedules = ScheduleDesk(self.context)
        self.runs = Runs(ledger)
        self.dead_letters = DeadLetterDesk(self.context)
        self.forget = ForgetDesk(self.context)
        self.quarantine = QuarantineDesk(self.context)
        self.evidence = EvidenceDesk(self.context)
        self.flags = FlagDesk(self.context)
        self.rollouts = RolloutDesk(self.context)
        self.memory = MemoryDesk(self.context, reads_write=False)
        self.graph = GraphDesk(self.context)
        self.keys = ApiKeys(ledger)
        self.secret = secret_of(settings)
        self.console = ConsoleSessions(ledger, self.keys, self.secret)
        self.webhooks = WebhookDesk(ledger, settings, self.secret)
        self.query_pool = QueryPool(settings)
        self.rates = RateLimits(settings)
        self.announcements = Announcements(settings)
        self.announcements.start()
        self._stopping = threading.Event()
        if settings.object_store.url is not None:
            threading.Thread(target=self._pull, name="pull", daemon=True).start()
        self._in_hand: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    @contextmanager
    def in_hand(self, owner: str, key: str | None) -> Iterator[None]:
        """Hold an owner's idempotency key while its request is being recorded; from then on the ledger knows it.

        Raises `IdempotencyInProgress` if another request of this process holds it; of those of other processes the
        ledger makes one.
        """
        if key is None:
            yield
            return
        with self._lock:
            if (owner, key) in self._in_hand:
                raise IdempotencyInProgress("the first request with this key is being recorded: send it again")
            self._in_hand.add((owner, key))
        try:
            yield
        finally:
            self._in_hand.discard((owner, key))

    def warm(self) -> None:
        """Build what a question needs at the door, so that the first one is accepted as quickly as the second."""
        with suppress(SluiceError, *BROKER_ERRORS):  # whoever asks is told
            _ = self.context.profiles, self.context.crawl_limits, self.context.admission, self.context.embedding
            self.context.transport.ping()

    def _pull(self) -> None:
        while not self._stopping.wait(PULL_SECONDS):
            with suppress(SluiceError, OSError):  # the next look tries again, and what did not come is logged
                self.context.index_puller.look()

    async def close(self) -> None:
        """Close every part that was opened."""
        self._stopping.set()
        await self.announcements.stop()
        await self.query_pool.close()
        await self.rates.close()
        self.context.close()


UNSERVED_SECONDS = 180.0
"""Longest wait of an event for the first worker of its stage, where others scale the pools: they look every half
minute, and a node may have to start and to fetch the image."""
NEEDED = ("broker", "ledger", "disk")
"""Parts without which nothing can be asked here."""


def check_health(context: Context, parts: Collection[str] = ()) -> Health:
    """Return the state of these parts, or of all. Checks each once, within its own time limit; raises nothing."""
    known = _CHECKS | ({"wake_ups": _wake_ups} if context.settings.wake_up_url else {})
    known |= {"index": _index} if context.settings.object_store.url else {}
    checks = {name: _asked(check, context) for name, check in known.items() if not parts or name in parts}
    return Health(ok=all(check.ok for check in checks.values()), version=version("sluice"), checks=checks)


def _asked(check: Callable[[Context], HealthCheck], context: Context) -> HealthCheck:
    try:
        return check(context)
    except (SluiceError, *BROKER_ERRORS) as error:
        return HealthCheck(ok=False, detail=str(error) or repr(error))


def _broker(context: Context) -> HealthCheck:
    return HealthCheck(ok=True, facts={"round_trip_ms": round(context.transport.ping(), 3)})


def _wake_ups(context: Context) -> HealthCheck:
    """Check RabbitMQ. While it is away questions are answered and requests recorded, so `NEEDED` leaves it out."""
    context.transport.declare()
    return HealthCheck(ok=True, facts={"carried_by": "RabbitMQ"})


def _ledger(context: Context) -> HealthCheck:
    started = time.perf_counter()
    depths = context.ledger.queue_stats()
    facts = {
        "answer_ms": round((time.perf_counter() - started) * 1e3, 3),
        "ready": {stage: depth.ready for stage, depth in depths.items() if depth.ready},
        "in_flight": {stage: depth.claimed for stage, depth in depths.items() if depth.claimed},
    }
    database = context.ledger.database
    lost = "" if not database.on_sqlite or os.path.exists(str(database.url.database)) else f"{database.url} was deleted"
    return HealthCheck(ok=not lost, detail=lost, facts=facts)


def _disk(context: Context) -> HealthCheck:
    room = DiskRoom(context.settings.data_dir)
    free = room.free_bytes
    detail = f"{room.told(free)}: {DiskFull.remedy}" if room.is_short else ""
    return HealthCheck(ok=not detail, detail=detail, facts={"free_bytes": free, "of": str(context.settings.data_dir)})


def _workers(context: Context) -> HealthCheck:
    """Name the stages without a worker. They make it ill, unless others scale the pools: then only what waits for long
    does, as nobody here knows how many workers they want."""
    present, ledger, settings = context.transport.present_workers(), context.ledger, context.settings
    asked = ledger.pool_sizes.all()
    missing = [stage for stage, count in present.items() if not count and wanted_size(settings, stage, asked)]
    ill = set(missing)
    if settings.object_store.url and SCALED_HERE not in os.environ:
        since = ledger.clock() - UNSERVED_SECONDS
        ill &= {*asked, *(stage for stage, backlog in ledger.backlogs().items() if backlog.oldest < since)}
    facts = dict(present) | {"at_once": context.transport.handled_at_once()}
    return HealthCheck(ok=not ill, detail=f"no worker for {', '.join(missing)}" if missing else "", facts=facts)


def _embedder(context: Context) -> HealthCheck:
    embedder, why = context.embedder, context.transport.embedder_down()
    instead = "BM25 alone, new chunks wait"
    if context.settings.embed.fallback == "local":
        instead = "the fallback's index (by BM25 where it is not whole), new chunks go there, and wait for their own"
    detail = f"{why}: questions are answered by {instead}" if why else ""
    facts = {"model": embedder.fingerprint, "dimension": embedder.dimension}
    return HealthCheck(ok=not why, detail=detail, facts=facts)


def _snapshots(context: Context) -> HealthCheck:
    corpora, damaged = {}, []
    for corpus in context.readers.names():
        reader = context.readers.reader(corpus)
        reader.reload()
        corpora[corpus] = {
            "generation": reader.generation,
            "chunks": reader.chunk_count,
            "corpus_hash": published_hash(context.settings, corpus),
        }
        if reader.fallback_reason:
            damaged.append(f"{corpus}: {reader.fallback_reason}")
    damaged += context.truth.problems().values()
    return HealthCheck(ok=not damaged, detail="; ".join(damaged), facts={"corpora": corpora})


def _index(context: Context) -> HealthCheck:
    """Tell who owns the index, what its loss would have handled again, and how far the others are behind."""
    owner, readers = context.ledger.index.owner(), context.ledger.index.readers()
    is_owned = owner is not None and owner.left_seconds > 0
    facts: dict[str, Any] = {"machine": machine_id(context.settings.data_dir)}
    facts["readers"] = {one.holder: json.loads(one.note or "{}").get("behind", {}) for one in readers}
    if owner is not None:
        since = datetime.fromtimestamp(owner.since, UTC).isoformat(timespec="seconds")
        facts |= {"owner": owner.holder, "epoch": owner.epoch, "since": since, **json.loads(owner.note or "{}")}
    detail = "" if is_owned else "no machine owns the index now: documents wait, questions are answered"
    if is_owned and facts.get("unshipped_seconds", 0) > MOST_UNSHIPPED_SECONDS:
        detail = f"the object store lacks what was appended in the last {facts['unshipped_seconds']:.0f} s"
    return HealthCheck(ok=not detail, detail=detail, facts=facts)


MOST_UNSHIPPED_SECONDS = 30.0
"""Age of what was not shipped from which the store counts as away."""


def _graphs(context: Context) -> HealthCheck:
    """Check the published graph of each corpus. One that is behind or not published yet is well: it is disposable."""
    corpora, damaged = {}, []
    for corpus in filter(is_graphed, context.readers.names()):
        view, problem = context.graphs.arm(corpus).view()
        corpora[corpus] = {
            "generation": view.name if view else None,
            "behind": max(0, context.ledger.graph.totals(corpus).version - (view.version if view else 0)),
            **({"problem": problem} if problem else {}),
        }
        if view is None and problem == DAMAGED:
            damaged.append(f"{corpus}: {problem}")
    return HealthCheck(ok=not damaged, detail="; ".join(damaged), facts={"corpora": corpora})


def _gate(context: Context) -> HealthCheck:
    """Name the gate's steps back that stand and those that an operator holds: neither makes an instance ill."""
    rows = context.ledger.defences.standing()
    stand = [subject_of(*key_of(row)) for row in rows if row.tripped_at is not None]
    held = {subject_of(*key_of(row)): row.pin for row in rows if row.pin}
    return HealthCheck(ok=True, facts={"stepped_back": stand, "held": held})


_CHECKS: dict[str, Callable[[Context], HealthCheck]] = {
    "broker": _broker,
    "ledger": _ledger,
    "disk": _disk,
    "workers": _workers,
    "embedder": _embedder,
    "snapshot": _snapshots,
    "graph": _graphs,
    "gate": _gate,
}
