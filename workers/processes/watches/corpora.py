"""Watches over the content of corpora and memories.

`CorpusWatch`: the content of a corpus changes only as its journal grows. Each generation's manifest names a hash of
its content (`index.generations.manifest.IdSet`: of every document and its chunks, whose ids follow from
their content). Runs write to the journal first. So a new hash without a longer journal comes from no run: files were
replaced, a pointer was moved, or an old backup was restored over it. A rollback has its own mark. The last state seen
is stored in the data directory, so that a restart hides nothing.

`MemoryWatch`: sends the parts of agents' memories that the index lacks, whatever became of their runs. A
run is missing where a process was killed between the journal and the ledger, or the queues had no room; the journal
still has its content. One process of an instance does so: the one that holds a lease in the ledger. A
journal that has not grown since the index held all of it is not read again, a feature with a run under way is skipped,
and the same lag is sent once an hour, so that content that cannot be indexed is not retried without end.

`FreshnessSchedule`: requests the due pages again every `freshness.every_hours`, as `sluice freshness
--recheck` does. One process does so, by a lease that lasts until the next time: it outlives restarts, and
machines that share a ledger request nothing twice. A corpus whose last recheck is still under way is skipped,
and so are pages that the policy, the day's budget or a full queue forbids: they stay due.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.api import ENDED
from sluice.contracts.errors import Corrupted, NotFound, SluiceError, Unavailable
from sluice.disk.durable import replace_file
from sluice.index.folder import CorpusLayout, list_corpora
from sluice.index.generations.manifest import load_manifest
from sluice.index.generations.publish import read_current_name, read_rollback_offset
from sluice.ledger.events.outbox import NO_KEY
from sluice.memory.qdrant_schema import collection_name
from sluice.otel import metrics
from sluice.workers.context import Context
from sluice.workers.runtime.observers import utc_now

if TYPE_CHECKING:
    from sluice.memory.journal.file import Journal
    from sluice.workers.service.memories import MemoryDesk

log = structlog.get_logger(__name__)

CORPUS_LOOK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A generation that was current, with the hash of its content."""

    generation: str
    journal_offset: int
    id_set_hash: str


class CorpusWatch:
    """Checks the current generation of each corpus; where the pointer has not moved that is one system call."""

    def __init__(self, index_root: Path, data_dir: Path) -> None:
        self._index_root, self._data_dir = index_root, data_dir
        self._seen: dict[str, Seen] = {}

    def look(self) -> tuple[str, ...]:
        """Return the corpora that changed since the last look without a longer journal; logs and counts each."""
        return tuple(corpus for corpus in list_corpora(self._index_root) if self._is_changed(corpus))

    def _is_changed(self, corpus: str) -> bool:
        layout = CorpusLayout(self._index_root, corpus)
        name, before = read_current_name(layout), self._seen.get(corpus) or self._kept(corpus)
        if name is None or (before is not None and name == before.generation):
            return False
        try:
            manifest = load_manifest(layout.generations / name)
        except NotFound:  # removed meanwhile: the pointer has moved on
            return False
        except Corrupted as error:
            log.error("corpus_damaged", corpus=corpus, generation=name, error=str(error))
            return False  # the process that serves it falls back, counts that and repairs it
        now = Seen(name, manifest.journal_offset, manifest.id_set_hash)
        self._keep(corpus, now)
        if before is None or now.id_set_hash == before.id_set_hash or now.journal_offset > before.journal_offset:
            return False
        if read_rollback_offset(layout) is not None:  # an operator rolled back on purpose
            return False
        metrics.CORPUS_CHANGES_UNEXPLAINED.labels(corpus).inc()
        log.error("corpus_changed_without_a_run", corpus=corpus, before=asdict(before), now=asdict(now))
        return True

    def _kept(self, corpus: str) -> Seen | None:
        try:
            return Seen(**json.loads(self._path(corpus).read_text()))
        except (OSError, ValueError, TypeError):  # never seen, or written by another version
            return None

    def _keep(self, corpus: str, seen: Seen) -> None:
        self._seen[corpus] = seen
        path = self._path(corpus)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, json.dumps(asdict(seen)).encode())

    def _path(self, corpus: str) -> Path:
        return self._data_dir / "freshness" / corpus / "corpus_seen.json"


MEMORY_LOOK_SECONDS = 60.0
MEMORY_LEASE_SECONDS = 2 * MEMORY_LOOK_SECONDS


class MemoryWatch:
    """One process's watch over the memories of its instance."""

    def __init__(self, context: Context, now: Callable[[], datetime] = utc_now) -> None:
        self._context, self._now = context, now
        self._holder = secrets.token_hex(8)
        self._covered: dict[tuple[str, str], int] = {}
        """Size of each journal when the index held all of it."""

    def look(self) -> None:
        """Send the parts that the index lacks."""
        if not (self._context.object_store or self._context.memories.root.is_dir()):
            metrics.MEMORY_BEHIND.set(0)
            return
        if not self._context.ledger.lease("memory", self._holder, MEMORY_LEASE_SECONDS):
            return
        # Imported only where memories exist.
        from sluice.workers.service.memories import MemoryDesk

        desk = MemoryDesk(self._context)
        behind = sum(
            self._follow(desk, project, feature, desk.memories.of(project).journal(feature))
            for project in desk.memories.names()
            for feature in desk.memories.of(project).features()
        )
        metrics.MEMORY_BEHIND.set(behind)

    def _follow(self, desk: MemoryDesk, project: str, feature: str, journal: Journal) -> int:
        """Send the parts of one feature that the index lacks; return how many."""
        try:
            journal.complete()
            size = journal.path.stat().st_size
            if self._covered.get((project, feature)) == size or self._is_under_way(project, feature):
                return 0
            sent = desk.bring_up(project, feature, NO_KEY, once_per=f"{self._now():%Y-%m-%dT%H}")
        except Unavailable:
            raise
        except (SluiceError, OSError) as error:
            log.warning("memory_not_followed", corpus=collection_name(project, feature), error=str(error))
            return 0
        if not sent.behind:
            self._covered[project, feature] = size
        else:
            log.info("memory_followed", corpus=sent.corpus, behind=sent.behind)
        return sent.behind

    def _is_under_way(self, project: str, feature: str) -> bool:
        corpus = collection_name(project, feature)
        return bool(self._context.ledger.runs(1, corpus=corpus, status="open", kind="memory"))


SCHEDULE_LOOK_SECONDS = 60.0
"""Seconds between two checks whether a recheck is due: one small transaction."""


class FreshnessSchedule:
    """One process's schedule of rechecks."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._every_hours = context.settings.freshness.every_hours
        self._runs: dict[str, str] = {}
        """The last recheck of each corpus."""

    @property
    def look_seconds(self) -> float:
        """Seconds between two looks: `SCHEDULE_LOOK_SECONDS`, or less where rechecks are more frequent."""
        return min(SCHEDULE_LOOK_SECONDS, self._every_hours * 3_600)

    @property
    def is_on(self) -> bool:
        """Whether the settings enable rechecks and the crawl."""
        return self._every_hours > 0 and self._context.settings.crawl.enabled

    def look(self) -> None:
        """Recheck the due pages of every corpus, once the interval is over."""
        ledger = self._context.ledger
        name, holder = f"freshness:{self._every_hours:g}h", secrets.token_hex(8)
        if not ledger.lease(name, holder, self._every_hours * 3_600):
            return
        try:
            for corpus in self._context.readers.names():
                self._recheck(corpus)
        except Unavailable:
            ledger.give_up_lease(name, holder)
            raise

    def _recheck(self, corpus: str) -> None:
        from sluice.workers.service.freshness import recheck  # imported only where the schedule is on

        if self._is_under_way(corpus):
            log.info("recheck_under_way", corpus=corpus, run_id=self._runs[corpus])
            return
        try:
            run_id = recheck(self._context, corpus)
        except Unavailable:
            raise
        except SluiceError as error:
            log.warning("recheck_left_out", corpus=corpus, error=str(error))
            return
        if run_id is not None:
            self._runs[corpus] = run_id
            log.info("recheck_began", corpus=corpus, run_id=run_id)

    def _is_under_way(self, corpus: str) -> bool:
        try:
            return corpus in self._runs and self._context.ledger.status_of(self._runs[corpus]) not in ENDED
        except NotFound:  # pruned
            return False
