"""The readers and the writers of an index's corpora: one of each per corpus and process, opened at first use."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from sluice.contracts.errors import Corrupted, Fenced, NotFound, Overloaded
from sluice.trust.floods import SMALLEST_CORPUS, TopPassages
from sluice.trust.source_trust import source_trust_of
from sluice.workers.settings import Settings
from sluice.workers.wiring.inject import Step

if TYPE_CHECKING:
    from sluice.contracts.graph.retrieval import GraphArm
    from sluice.index.local.reader import IndexReader
    from sluice.index.local.writer import IndexWriter
    from sluice.index.qdrant.reader import QdrantReader
    from sluice.index.qdrant.server import ServerCollection
    from sluice.index.qdrant.writer import QdrantWriter
    from sluice.index.search.rerank.base import Reranker

    Reader = IndexReader | QdrantReader
    Writer = IndexWriter | QdrantWriter

HANDOVER_SECONDS = 1.0
"""Pause before a retry on a corpus that is being handed over, which takes about as long."""


LEDGER_SECONDS = 10.0
"""Seconds for which what the ledger knows of all corpora is not read again."""


class Closable(Protocol):
    """A part that is closed with the process."""

    def close(self) -> object:
        """Release what it holds."""


Part = TypeVar("Part", bound=Closable)


class PerCorpus(Generic[Part]):
    """One part for each corpus, opened at first use and kept. Safe for threads."""

    def __init__(self, open_one: Callable[[str], Part]) -> None:
        self._open_one = open_one
        self._lock = threading.RLock()
        self._parts: dict[str, Part] = {}

    def of(self, corpus: str) -> Part:
        """Return the part of a corpus, opened if need be."""
        with self._lock:
            if corpus not in self._parts:
                self._parts[corpus] = self._open_one(corpus)
            return self._parts[corpus]

    def close(self) -> None:
        """Close every part."""
        with self._lock:
            for part in self._parts.values():
                part.close()


class CorpusTruth:
    """Finds corpora whose journal lacks records that runs have written, by the ledger: files were deleted, or an older
    copy was put in their place. Memories' corpora are not looked at: what they index is kept elsewhere."""

    def __init__(self, settings: Settings, written_offsets: Callable[[], Mapping[str, int]]) -> None:
        self._root = settings.index_root
        self._written_offsets = written_offsets
        self._known: tuple[float, Mapping[str, int]] = (-math.inf, {})

    def problems(self) -> dict[str, str]:
        """Return the problem of each such corpus, by its name."""
        found = {corpus: self._problem(corpus, reached) for corpus, reached in self._written().items()}
        return {corpus: problem for corpus, problem in found.items() if problem}

    def check(self, corpus: str) -> None:
        """Raise `Corrupted` if the corpus is one of them."""
        if problem := self._problem(corpus, self._written().get(corpus, 0)):
            raise Corrupted(problem)

    def _written(self) -> Mapping[str, int]:
        """Return the offset that runs have reached in each corpus, as it was at most `LEDGER_SECONDS` ago."""
        read_at, known = self._known
        if time.monotonic() - read_at > LEDGER_SECONDS:
            self._known = (time.monotonic(), known := self._written_offsets())
        return known

    def _problem(self, corpus: str, reached: int) -> str:
        from sluice.index.disk.layout import CorpusLayout
        from sluice.index.journal.files import read_journal
        from sluice.index.local.build_alias import read_last_offset
        from sluice.workers.wiring.graphs import is_graphed

        if not reached or not is_graphed(corpus):
            return ""
        layout = CorpusLayout(self._root, corpus)
        found = read_last_offset(layout)
        if found < reached:  # after a power cut the journal may hold more than it says that it has flushed
            found = max((frame.offset for frame in read_journal(layout.journal, found)), default=found)
        if found >= reached:
            return ""
        return (
            f"the journal of corpus {corpus!r} ends at record {found}, and runs have written {reached}: restore "
            f"{layout.journal} from a backup, or give up what is lost with `sluice rebuild --corpus {corpus} --let-go`"
        )


class CorpusReaders:
    """The reader of each corpus, by the engine that the settings name. Safe for threads."""

    def __init__(
        self,
        settings: Settings,
        collections: PerCorpus[ServerCollection],
        reranker: Callable[[], Reranker | None],
        graph: Callable[[str], GraphArm | None],
        truth: Callable[[], CorpusTruth],
    ) -> None:
        """`reranker`, `graph` and `truth` are called when a corpus is opened, not before."""
        self._settings = settings
        self._collections = collections
        self._reranker = reranker
        self._graph = graph
        self._truth = truth
        self._trust = source_trust_of(settings.trust)
        self._open = PerCorpus(self._new)
        self._top_passages: dict[str, TopPassages] = {}

    def top_passages(self, corpus: str) -> TopPassages | None:
        """Return what this process's latest questions to the corpus found first; None for a small corpus."""
        if self.reader(corpus).chunk_count < SMALLEST_CORPUS:
            return None
        return self._top_passages.setdefault(corpus, TopPassages())

    def names(self) -> tuple[str, ...]:
        """Return the corpora that were ever written to."""
        from sluice.index.disk.layout import list_corpora

        return list_corpora(self._settings.index_root)

    def exists(self, corpus: str) -> bool:
        """Return whether the corpus was ever written to."""
        from sluice.index.disk.layout import CorpusLayout

        return CorpusLayout(self._settings.index_root, corpus).journal.is_dir()

    def reader(self, corpus: str) -> Reader:
        """Return the reader of a corpus, which may be empty."""
        return self._open.of(corpus)

    def existing(self, corpus: str) -> Reader:
        """Return the reader of a corpus that was written to. Raises `NotFound` if it never was, and `Corrupted` if it
        was and its journal is gone."""
        if not self.exists(corpus):
            self._truth().check(corpus)
            raise NotFound(f"nothing was written to a corpus {corpus!r} yet")
        return self.reader(corpus)

    def close(self) -> None:
        """Close every reader."""
        self._open.close()

    def _new(self, corpus: str) -> Reader:
        settings = self._settings
        if settings.index.engine == "qdrant":
            from sluice.index.qdrant.reader import QdrantReader

            collection = self._collections.of(corpus)
            return QdrantReader(collection, corpus, settings.query, self._reranker(), self._trust)
        from sluice.index.local.reader import IndexReader
        from sluice.workers.wiring.graphs import NotSearched
        from sluice.workers.wiring.observers import count_fallback

        why = settings.graph_hindrance
        return IndexReader(
            settings.index_root,
            corpus,
            settings.query,
            self._reranker(),
            self._trust,
            on_fallback=count_fallback,
            graph=NotSearched(why) if why else self._graph(corpus),
        )


class CorpusWriters:
    """The one writer of each corpus that this process writes to. Safe for threads."""

    def __init__(
        self, settings: Settings, collections: PerCorpus[ServerCollection], truth: Callable[[], CorpusTruth]
    ) -> None:
        self._settings = settings
        self._collections = collections
        self._truth = truth
        self._lock = threading.RLock()
        self._open: dict[str, Writer] = {}
        self._in_use: Counter[str] = Counter()

    @contextmanager
    def writing(self, corpus: str) -> Iterator[Writer]:
        """Yield the writer of a corpus; give it up when another process has taken the corpus over.

        Raises:
            Overloaded: it is being handed over to another process; come back in a moment.
            Unavailable: another process writes to it.
            Corrupted: its journal lacks records that were written, until an operator restores it or lets them go.
            Fenced: another took it over meanwhile; the next try begins with a new writer.
        """
        writer = self._take(corpus)
        try:
            yield writer
        except Fenced:
            with self._lock:
                self._open.pop(corpus, None)
            writer.close()
            raise
        finally:
            with self._lock:
                self._in_use[corpus] -= 1

    def close_wanted(self) -> None:
        """Close the writers of corpora that another process wants to write, but for those in use."""
        with self._lock:
            held = tuple(self._open)
        for corpus in held:
            if self._is_wanted(corpus):
                self._close(corpus)

    def close(self) -> None:
        """Close every writer. A later use opens a new one."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def _take(self, corpus: str) -> Writer:
        """Return the writer, counted as in use."""
        if self._is_wanted(corpus):
            self._close(corpus)
            raise Overloaded(f"corpus {corpus} is being handed over to another process", HANDOVER_SECONDS)
        with self._lock:
            if corpus not in self._open:
                self._open[corpus] = self._new(corpus)
            self._in_use[corpus] += 1
            return self._open[corpus]

    def _is_wanted(self, corpus: str) -> bool:
        """Return whether another process waits to write to the corpus."""
        from sluice.index.disk.layout import CorpusLayout
        from sluice.index.disk.locks import is_handover_requested

        return is_handover_requested(CorpusLayout(self._settings.index_root, corpus))

    def _close(self, corpus: str) -> None:
        with self._lock:
            writer = None if self._in_use[corpus] else self._open.pop(corpus, None)
        if writer is not None:
            writer.close()

    def _new(self, corpus: str) -> Writer:
        settings = self._settings
        self._truth().check(corpus)
        if settings.index.engine == "qdrant":
            from sluice.index.qdrant.writer import QdrantWriter

            return QdrantWriter(settings.index_root, corpus, self._collections.of(corpus))
        from sluice.index.local.working_set import WritePolicy
        from sluice.index.local.writer import IndexWriter
        from sluice.workers.wiring.observers import count_fallback

        policy = WritePolicy(keep_generations=settings.index.keep_generations)
        return IndexWriter(settings.index_root, corpus, policy, on_fallback=count_fallback)


@dataclass(frozen=True, slots=True)
class Corpora(Step):
    """The corpora, for a handler that both reads and writes them."""

    readers: CorpusReaders
    writers: CorpusWriters
