"""Maintenance chores in the reconciler's process beside its ticks, each at its own interval."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import Queue
from sluice.ledger.ledger import Ledger
from sluice.otel import metrics
from sluice.workers.broker.embedded import is_embedded, keep_append_only_file
from sluice.workers.broker.transport import BROKER_ERRORS
from sluice.workers.context import Context
from sluice.workers.processes.watches import corpora, gate, graph, self_defence
from sluice.workers.runtime.backpressure import LEAST_FREE_BYTES, DiskRoom
from sluice.workers.runtime.blob_collection import BlobCollector

log = structlog.get_logger(__name__)

DISK_LOOK_SECONDS = 1.0
STAGES_THAT_FILL_THE_DISK: tuple[Queue, ...] = ("search", "crawl", "chunk", "embed", "index", "graph")
"""Gate and query go on: their events are small, and they answer the caller."""
DISK_SHORT = "the disk of the data directory is short of room"
"""Reason of these stages' pause, by which their pause is recognised."""
TRANSIENT_LOOK_SECONDS = 10.0
"""Seconds between two searches for raw pages that were to be kept no longer than it took to read them."""

BLOB_TICK_SECONDS = 2.0
"""Seconds between two steps of the blob collection, which takes a hundredth of a processor's time."""


@dataclass
class Chore:
    """A task that runs every so many seconds, by the monotonic clock."""

    name: str
    every_seconds: float
    do: Callable[[], object]
    due_at: float = 0.0


class Maintenance:
    """The chores of one process. A chore that fails is logged and tried again at its next turn."""

    def __init__(self, context: Context, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._room = DiskRoom(context.settings.data_dir)
        self._enough_room = DiskRoom(context.settings.data_dir, 2 * LEAST_FREE_BYTES)
        self._is_short = False
        self._broker_keeps_file = False  # unknown: an earlier process may have switched it off
        self._stages_are_paused: bool | None = None  # unknown
        settings = context.settings
        watch = corpora.CorpusWatch(settings.index_root, settings.data_dir)
        evaluation = gate.EvaluationWatch(context.ledger, context.profiles)
        schedule, defence = corpora.FreshnessSchedule(context), self_defence.SelfDefence(context)
        self._chores = [
            Chore("disk", DISK_LOOK_SECONDS, self._spare_the_disk),
            Chore("transient_pages", TRANSIENT_LOOK_SECONDS, self._remove_read_pages),
            Chore("blobs", BLOB_TICK_SECONDS, BlobCollector(context.blobs, context.ledger).tick),
            Chore("budget", gate.BUDGET_LOOK_SECONDS, self._measure_budget),
            Chore("flags", gate.FLAGS_LOOK_SECONDS, gate.FlagWatch(context.flags).look),
            Chore("memory", corpora.MEMORY_LOOK_SECONDS, corpora.MemoryWatch(context).look),
            Chore("graph", graph.GRAPH_LOOK_SECONDS, graph.GraphWatch(context).look),
            Chore("rollouts", gate.ROLLOUT_LOOK_SECONDS, gate.RolloutWatch(context).look),
            Chore("evaluation", gate.EVALUATION_LOOK_SECONDS, evaluation.look),
            *([Chore("corpora", corpora.CORPUS_LOOK_SECONDS, watch.look)] if settings.index.engine == "local" else []),
            *([Chore("freshness", schedule.look_seconds, schedule.look)] if schedule.is_on else []),
            *([Chore("self_defence", self_defence.LOOK_SECONDS, defence.look)] if defence.is_on else []),
        ]
        for profile, days in context.settings.freshness.target_age_days.items():
            metrics.CITED_AGE_TARGET_SECONDS.labels(profile).set(days * 86_400)

    def tick(self) -> None:
        """Run the chores that are due."""
        for chore in self._chores:
            if self._clock() >= chore.due_at:
                try:
                    chore.do()
                except (Unavailable, *BROKER_ERRORS) as error:
                    log.warning("chore_failed", chore=chore.name, error=repr(error))
                chore.due_at = self._clock() + chore.every_seconds

    def _spare_the_disk(self) -> None:
        """While the disk is short of room, switch off the embedded broker's file and pause the stages that fill it.

        A broker that cannot write its file takes no write at all, and a direct query is one. What a restart of it would
        lose is in the ledger. Both end when there is twice the room, so that they do not alternate.
        """
        is_short = (self._enough_room if self._is_short else self._room).is_short
        if is_short != self._is_short:
            log.warning("disk_short" if is_short else "disk_has_room", free_bytes=self._room.free_bytes)
        self._is_short = is_short
        self._tell_broker(keeps_file=not is_short)
        self._tell_stages(self._context.ledger, pause=is_short)

    def _tell_broker(self, *, keeps_file: bool) -> None:
        """Repeat it at each look while the broker is to write no file: it may have been restarted."""
        if keeps_file and self._broker_keeps_file:
            return
        if is_embedded(self._context.settings):
            keep_append_only_file(self._context.settings, wanted=keeps_file)
        self._broker_keeps_file = keeps_file

    def _tell_stages(self, ledger: Ledger, *, pause: bool) -> None:
        if pause == self._stages_are_paused:
            return
        if pause:
            for stage in STAGES_THAT_FILL_THE_DISK:
                ledger.pause(stage, DISK_SHORT)
        else:
            for paused in ledger.paused():
                if paused.why == DISK_SHORT:
                    ledger.resume(paused.stage)
        self._stages_are_paused = pause

    def _measure_budget(self) -> None:
        gate.measure_budget(self._context.settings.budget, self._context.ledger.used_today())

    def _remove_read_pages(self) -> None:
        """Runs without a lease: when another process removes a page first, no harm is done."""
        removed = self._context.transient_pages.remove_read(self._context.ledger)
        if removed:
            log.info("unarchived_removed", pages=removed)
