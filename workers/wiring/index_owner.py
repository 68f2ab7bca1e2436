"""Which machine of an instance writes the corpora, and how the others get them. Without `object_store.url`: this one.

`IndexOwner` holds the ledger's lease `index` for this process, ships journals and generations while it has it, and
takes over from another machine. It counts its lease from before each request, by a clock that goes on while the machine
sleeps: once the lease could have run out, nothing is written (`Fenced`), whatever the ledger says. `IndexPuller` brings
published generations to a machine that does not own the index.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import structlog
from filelock import FileLock, Timeout

from sluice.contracts.errors import Conflict, Fenced, SluiceError, Unavailable
from sluice.disk.durable import lock_file, replace_file
from sluice.disk.object_store import ObjectStore, open_store
from sluice.graph.generations.publish import current, discard, lock_folder
from sluice.index.folder import FALLBACK_FOLDER, CorpusLayout, WriterLock, list_corpora, raise_epoch
from sluice.index.generations.manifest import load_manifest
from sluice.index.generations.publish import read_current_name
from sluice.index.remote.journals import (
    EPOCHS,
    PART_BYTES,
    Head,
    Shipping,
    drop_aside,
    holds,
    list_shipped,
    pull_parts,
    put_in_place,
    read_head,
    set_aside,
)
from sluice.index.remote.snapshots import drop_unstored, prune, pull, push
from sluice.ledger.graph.store import Graphs
from sluice.ledger.index_lease import Fence, IndexLease, Published
from sluice.otel import metrics
from sluice.workers.settings import Settings
from sluice.workers.wiring.graphs import GraphArms, is_graphed, publish_rows

log = structlog.get_logger(__name__)

LEASE_SECONDS, RENEW_SECONDS = 10.0, 2.5
"""How long the lease lasts, and between two renewals: three may fail."""
FOLD_SECONDS = 10.0
"""Between two looks whether the rows of a corpus's graph have changed."""
LOOK_SECONDS, SHIP_SECONDS = 1.0, 3.0
"""Between two looks at what was appended or published, and the age at which it is shipped: five seconds in all."""
PULL_SECONDS = 2.0
"""Between two looks of a machine that reads; `SnapshotPublished` has its query workers look at once."""
TURN_LOCK = "index-worker.lock"
"""File of the data directory that is locked by the process whose turn it is to index."""
PULL_LOCK = "pull.lock"
"""File of the data directory that is locked by who changes what was pulled."""
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Return seconds that go on while the machine sleeps."""
    return time.clock_gettime(CLOCK)


def machine_id(data_dir: Path) -> str:
    """Return the random name of this data directory among the machines of its instance; made at its first use."""
    path = data_dir / "machine"
    with suppress(FileNotFoundError):
        return path.read_text().strip()
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with lock_file(data_dir / "machine.lock", Unavailable(f"{path} is being made"), timeout_seconds=5):
        if not path.exists():
            replace_file(path, f"{secrets.token_hex(8)}\n".encode())
    return path.read_text().strip()


class Roots:
    """The corpora of an instance on this disk and in the store: their own indices, and the second ones."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stores: dict[Path, ObjectStore] = {}
        root = settings.index_root
        self.paths = {root: "index"}
        if settings.embed.uses_endpoint:
            self.paths[root / FALLBACK_FOLDER] = f"index/{FALLBACK_FOLDER}"

    def store(self, root: Path) -> ObjectStore:
        """Return the place of a root's corpora in the object store."""
        if root not in self._stores:
            access = self._settings.object_store
            self._stores[root] = open_store(f"{(access.url or '').rstrip('/')}/{self.paths[root]}", access)
        return self._stores[root]


class IndexOwner:
    """The right of this process to write the corpora. Safe for threads."""

    def __init__(
        self,
        settings: Settings,
        lease: Callable[[], IndexLease],
        handle_again: Callable[[], None] = lambda: None,
        close_writers: Callable[[], None] = lambda: None,
    ) -> None:
        """`handle_again` appends once more what the ledger knows and the store lacks; called when the index is taken
        over, before `take` returns. `close_writers` closes those that are not in use."""
        self.is_shared = settings.object_store.url is not None
        self.waits_for_turn = False
        """Whether the lease is taken by `take` alone. Else, as for a command, by the first that writes."""
        self._settings, self._lease = settings, lease
        self._handle_again, self._close_writers = handle_again, close_writers
        self._roots, self.keep = Roots(settings), settings.index.keep_generations
        self._turn = FileLock(settings.data_dir / TURN_LOCK, thread_local=False)
        self._taking, self._shipping = threading.RLock(), threading.RLock()
        self._ships: dict[tuple[Path, str], Shipping] = {}
        self._unpruned: dict[str, int] = {}
        self._seen: dict[tuple[Path, str], str | None] = {}
        """The current generation of each corpus at the last look."""
        self.stopping = threading.Event()
        self.fence: Fence | None = None
        """The holding under which this process writes; None if it has none, or needs none."""
        self.until = 0.0
        self._dirty_since = self._shipped_at = 0.0
        self._waiting_bytes = 0
        self.is_ready = not self.is_shared
        """Whether this process writes the corpora, and has all that was written before."""

    def check(self) -> None:
        """Raise `Fenced` if this process may not write. A command takes the lease, or raises `Conflict`."""
        if not self.is_shared:
            return
        if self.fence is None and not self.waits_for_turn:
            self._take_for_command()
        if self.fence is None or clock() >= self.until:
            raise Fenced("this machine does not own the index any more")

    def require_here(self, what: str) -> None:
        """Raise `Conflict` if machines share the index and another one owns it: the journals are there."""
        owner = self._lease().owner() if self.is_shared else None
        if owner is not None and owner.holder != machine_id(self._settings.data_dir):
            raise Conflict(f"machine {owner.holder} owns the index: {what} is done there")

    def _take_for_command(self) -> None:
        try:
            self._turn.acquire(timeout=0)
        except Timeout as error:
            raise Conflict("an index worker of this machine runs: stop it first") from error
        if not self.take():
            self.require_here("what writes it")
            raise Unavailable("the lease of the index is being taken by another process of this machine")

    def take(self) -> bool:
        """Take the lease if it is free, then what was written before; return whether this process owns the index.

        Raises `Unavailable` where ledger or store do not answer, and `Corrupted` for a damaged part; the lease is given
        up then.
        """
        with self._taking:
            if self.fence is not None or not self.is_shared:
                return self.is_ready
            sent = clock()
            fence = self._lease().take(machine_id(self._settings.data_dir), LEASE_SECONDS)
            if fence is None:
                return False
            self.fence, self.until, self.stopping = fence, sent + LEASE_SECONDS, threading.Event()
            threading.Thread(target=self._renew, args=(fence, self.stopping), name="index-lease", daemon=True).start()
            try:
                self._take_over(fence)
            except BaseException:
                self.close()
                raise
            self.is_ready = True
            threading.Thread(target=self._keep_shipping, args=(self.stopping,), name="ship", daemon=True).start()
            log.info("index_owned", epoch=fence.epoch, machine=fence.holder, seconds=round(clock() - sent, 3))
            return True

    def close(self) -> None:
        """Ship what is left, and give the lease up to another machine."""
        fence = self.fence
        self._turn.release(force=True)
        if fence is None:
            return
        if self.is_ready:
            with suppress(SluiceError, OSError):
                self.ship_all()
        self.lose("given up")
        self._close_writers()
        with suppress(Unavailable):
            self._lease().give_up(fence)

    def publish(self, corpus: str, *, alone: bool = False, tells: bool = False) -> None:
        """Put the corpus's current generation into the store, with the journal that it covers; nothing if not shared.

        `alone`: all others leave the store, with the files that only they have. `tells`: no event will name it. Raises
        `StoreDown` while the store does not answer, and `Fenced`.
        """
        if not self.is_shared:
            return
        self.check()
        try:
            with self._shipping:
                for root in self._roots.paths:
                    if CorpusLayout(root, corpus).journal.is_dir():
                        self._publish(root, corpus, alone=alone, tells=tells)
        except (SluiceError, OSError):
            metrics.SNAPSHOT_PUSHES.labels("failed").inc()
            raise
        metrics.SNAPSHOT_PUSHES.labels("ok").inc()

    def ship_all(self) -> int:
        """Ship the journals of all corpora here, and generations that a command made current; return the bytes."""
        with self._shipping:
            shipped = sum(self._bring_up(root, corpus) for root, corpus in self._here())
        self._dirty_since, self._shipped_at, self._waiting_bytes = 0.0, clock(), 0
        metrics.INDEX_UNSHIPPED_SECONDS.set(0.0)
        return shipped

    def _bring_up(self, root: Path, corpus: str) -> int:
        shipped = self._ship(root, corpus)
        layout, head = CorpusLayout(root, corpus), self._ships[root, corpus].head
        name = self._generation_here(layout)
        if name is not None and head is not None and head.generation != name and self._seen.get((root, corpus)) == name:
            self._publish(root, corpus, tells=True)
        self._seen[root, corpus] = name  # one that an event publishes now is not put twice
        return shipped

    def _generation_here(self, layout: CorpusLayout) -> str | None:
        return read_current_name(layout) if self._settings.index.engine == "local" else None

    def _publish(self, root: Path, corpus: str, *, alone: bool = False, tells: bool = False) -> None:
        layout, store = CorpusLayout(root, corpus), self._roots.store(root)
        name = self._generation_here(layout)
        if name is None:
            self._ship(root, corpus)
            return
        moved = push(root, corpus, store)
        self._ship(root, corpus, moved.generation)
        metrics.SNAPSHOT_PUSHED_BYTES.inc(moved.bytes_moved)
        self._unpruned[corpus] = self._unpruned.get(corpus, 0) + 1
        if alone or self._unpruned[corpus] >= self.keep:  # at most twice as many as are kept
            self.check()
            prune(corpus, store, 1 if alone else self.keep)
            self._unpruned[corpus] = 0
        if tells and root == self._settings.index_root:
            covered = load_manifest(layout.generations / moved.generation).journal_offset
            self._lease().note_published(corpus, moved.generation, covered)

    def _ship(self, root: Path, corpus: str, generation: str | None = None) -> int:
        ship = self._ships.get((root, corpus))
        try:
            if ship is None:
                ship = self._open(root, corpus)
            shipped = ship.ship(generation)
        except BaseException:
            self._ships.pop((root, corpus), None)  # what the store has now is read anew
            raise
        metrics.SNAPSHOT_PUSHED_BYTES.inc(shipped)
        return shipped

    def _open(self, root: Path, corpus: str) -> Shipping:
        self.check()
        if self.fence is None:
            raise Fenced("this machine does not own the index")
        made = Shipping(
            self._roots.store(root), CorpusLayout(root, corpus), self.fence.epoch, self.fence.holder, self.check
        )
        self._ships[root, corpus] = made
        return made

    def _here(self) -> Iterator[tuple[Path, str]]:
        for root in self._roots.paths:
            yield from ((root, corpus) for corpus in list_corpora(root))

    def _renew(self, fence: Fence, stopping: threading.Event) -> None:
        while not stopping.wait(RENEW_SECONDS):
            sent = clock()
            try:
                self._lease().renew(fence, LEASE_SECONDS, self._note())
                self.until = sent + LEASE_SECONDS
            except Fenced as error:
                self.lose(str(error))
            except Unavailable as error:
                log.warning("lease_not_renewed", error=str(error))
                if clock() >= self.until:
                    self.lose("the ledger did not answer in time")

    def lose(self, why: str) -> None:
        """Write no more: another machine is the owner now, or may be."""
        log.warning("index_left", why=why, epoch=self.fence.epoch if self.fence else None)
        self.stopping.set()
        self.fence, self.is_ready = None, not self.is_shared
        self._ships.clear()

    def _note(self) -> str:
        unshipped = max(0.0, clock() - self._dirty_since) if self._dirty_since else 0.0
        metrics.INDEX_UNSHIPPED_SECONDS.set(unshipped)
        return json.dumps({"unshipped_seconds": round(unshipped, 1), "unshipped_bytes": self._waiting_bytes})

    def _keep_shipping(self, stopping: threading.Event) -> None:
        while not stopping.wait(LOOK_SECONDS):
            try:
                waiting = sum(ship.unshipped_bytes() for ship in tuple(self._ships.values()))
                self._waiting_bytes = waiting
                is_new = any(key not in self._ships for key in self._here())
                if not waiting and not is_new and clock() - self._shipped_at < 10 * SHIP_SECONDS:
                    self._dirty_since = 0.0
                    continue
                self._dirty_since = self._dirty_since or clock()
                if is_new or waiting >= PART_BYTES or clock() - self._dirty_since >= SHIP_SECONDS:
                    self.ship_all()
            except Fenced as error:
                self.lose(str(error))
            except (SluiceError, OSError) as error:
                log.warning("journal_not_shipped", error=str(error))

    def _take_over(self, fence: Fence) -> None:
        """Make this disk hold what counts, for all corpora, and say so in the store; then handle the rest again."""
        refusal = Unavailable("generations are being pulled")
        with lock_file(self._settings.data_dir / PULL_LOCK, refusal, timeout_seconds=LEASE_SECONDS):
            for root in self._roots.paths:
                store = self._roots.store(root)
                names = {*list_shipped(store), *list_corpora(root)}
                store.each(partial(self._take_corpus, root, fence), sorted(names))
        self._handle_again()

    def _take_corpus(self, root: Path, fence: Fence, corpus: str) -> None:
        layout, store = CorpusLayout(root, corpus), self._roots.store(root)
        ship = self._open(root, corpus)
        head = ship.head
        if head is not None and not (head.machine == fence.holder and holds(layout, head)):
            lock = WriterLock(layout)
            try:
                put_in_place(store, layout, head)
            finally:
                lock.release()
            if head.generation and self._settings.index.engine == "local":
                pull(root, corpus, store, head.generation, self.keep)
                drop_unstored(layout, store)
        raise_epoch(layout, fence.epoch * EPOCHS)
        ship.ship()
        self._seen[root, corpus] = read_current_name(layout)
        self._bring_up(root, corpus)
        ship.drop_unnamed()


class IndexPuller:
    """Brings published generations to this machine while another owns the index. One process of a machine does so."""

    def __init__(
        self, settings: Settings, lease: Callable[[], IndexLease], graphs: GraphArms, rows: Callable[[], Graphs]
    ) -> None:
        """`rows` gives the ledger's rows of the graph, from which each machine folds its own generations."""
        self._settings, self._lease, self._graphs, self._rows = settings, lease, graphs, rows
        self._folded_at = 0.0
        self._roots, self._machine = Roots(settings), machine_id(settings.data_dir)
        self._looking = threading.Lock()
        self._standby: dict[str, int] = {}

    def look(self, *, stands_by: bool = False, folds: bool = False) -> None:
        """Pull what is newer than here, unless another process does so now. `stands_by`: journals too, to take over.
        `folds`: fold the graph too, where its rows have changed."""
        if self._settings.object_store.url is None:
            return
        refusal = Conflict("another process pulls")
        with suppress(Conflict), self._looking, lock_file(self._settings.data_dir / PULL_LOCK, refusal):
            published, owner = self._lease().published(), self._lease().owner()
            if folds and self._settings.graph.enabled and clock() - self._folded_at > FOLD_SECONDS:
                self._fold(published)
            if owner is None or owner.holder == self._machine:
                return
            for corpus, newest in published.items():
                try:
                    self._bring(corpus, newest)
                    if stands_by and self._standby.get(corpus) != newest.journal_offset:
                        self._bring_journals(corpus)
                        self._standby[corpus] = newest.journal_offset
                except (SluiceError, OSError) as error:
                    log.warning("generation_not_pulled", corpus=corpus, generation=newest.generation, error=str(error))
            self._tell(published)

    def _fold(self, corpora: Iterable[str]) -> None:
        self._folded_at, rows = clock(), self._rows()
        for corpus in filter(is_graphed, corpora):
            folder = self._graphs.folder(corpus)
            with suppress(SluiceError):
                standing = current(folder)
                if rows.totals(corpus).version != (standing.version if standing else 0):
                    publish_rows(corpus, folder, rows, more_to_come=False)

    def _bring(self, corpus: str, newest: Published) -> None:
        for root in self._roots.paths if self._settings.index.engine == "local" else ():
            layout, store = CorpusLayout(root, corpus), self._roots.store(root)
            wanted: str | None = newest.generation
            if root != self._settings.index_root:
                if self._standby.get(f".{corpus}") == newest.journal_offset:
                    continue
                self._standby[f".{corpus}"] = newest.journal_offset
                wanted = (read_head(store, corpus)[1] or Head(epoch=0, machine="")).generation
            if any(path.stat().st_size for path in layout.journal.glob("*.log")):  # it owned the index before
                head = read_head(store, corpus)[1]
                if head is None:  # it has what the store was never given
                    continue
                lock = WriterLock(layout)
                try:
                    set_aside(layout, head.last_offset)
                    layout.journal.mkdir()
                finally:
                    lock.release()
            if wanted is None or read_current_name(layout) == wanted:
                continue
            layout.folder.mkdir(parents=True, exist_ok=True)
            moved = pull(root, corpus, store, wanted, self._settings.index.keep_generations)
            if drop_unstored(layout, store):  # something was forgotten
                drop_aside(layout)
                with lock_folder(self._graphs.folder(corpus), LEASE_SECONDS):
                    discard(self._graphs.folder(corpus))
            log.info("generation_pulled", corpus=corpus, generation=wanted, bytes=moved.bytes_moved)

    def _bring_journals(self, corpus: str) -> None:
        for root in self._roots.paths:
            head = read_head(self._roots.store(root), corpus)[1]
            if head is not None:
                pull_parts(self._roots.store(root), CorpusLayout(root, corpus), head)

    def _tell(self, published: dict[str, Published]) -> None:
        behind = {corpus: lag for corpus, one in published.items() if (lag := self.lag(corpus, one))}
        self._lease().tell_reads(self._machine, json.dumps({"behind": behind}), 5 * PULL_SECONDS)

    def lag(self, corpus: str, newest: Published) -> int:
        """Return how many records the generation here is behind the published one."""
        layout = CorpusLayout(self._settings.index_root, corpus)
        name = read_current_name(layout)
        if name is None:
            return newest.journal_offset
        with suppress(SluiceError):
            return max(0, newest.journal_offset - load_manifest(layout.generations / name).journal_offset)
        return newest.journal_offset
