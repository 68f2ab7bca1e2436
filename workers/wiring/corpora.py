"""The readers and the writers of an index's corpora: one of each per corpus and process, opened at first use."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

import structlog

from sluice.contracts.document import DocumentFacts
from sluice.contracts.errors import Corrupted, Fenced, NotFound, Overloaded, SluiceError
from sluice.contracts.graph.model import GraphArm
from sluice.index.folder import FALLBACK_FOLDER, CorpusLayout, is_handover_requested, list_corpora
from sluice.index.generations.manifest import Coverage
from sluice.index.generations.publish import GenerationInfo, list_generations, rollback
from sluice.index.journal.files import read_journal
from sluice.index.journal.journal import read_last_offset
from sluice.index.search.reranker import Reranker
from sluice.ingest.embed.embed import fingerprint_of_corpus
from sluice.ingest.embed.minilm import FINGERPRINTS
from sluice.ledger.corpora import CorpusEntry
from sluice.ledger.ledger import Ledger
from sluice.trust.floods import SMALLEST_CORPUS, TopPassages
from sluice.trust.settings import CorpusPolicy, TrustSettings
from sluice.trust.source_trust import source_trust_of
from sluice.workers.runtime.observers import count_fallback
from sluice.workers.settings import Settings
from sluice.workers.wiring.graphs import NotSearched, is_graphed
from sluice.workers.wiring.inject import Step
from sluice.workers.wiring.models import ModelFits

if TYPE_CHECKING:
    from sluice.disk.object_store import ObjectStore
    from sluice.index.local.reader import IndexReader
    from sluice.index.local.writer import IndexWriter
    from sluice.index.qdrant.reader import QdrantReader
    from sluice.index.qdrant.server import ServerCollection
    from sluice.index.qdrant.writer import QdrantWriter

log = structlog.get_logger(__name__)

Reader: TypeAlias = "IndexReader | QdrantReader"
Writer: TypeAlias = "IndexWriter | QdrantWriter"

HANDOVER_SECONDS = 1.0
"""Pause before a retry on a corpus that is being handed over, which takes about as long."""


FITTED_FOLDER = "fitted-models"
"""Folder below the data directory of the weights that `sluice eval --fit` wrote."""

FIRST_CORPUS = "default"
"""The corpus of requests that name none: it exists from the start."""

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

    def __init__(
        self,
        settings: Settings,
        written_offsets: Callable[[], Mapping[str, int]],
        entry: Callable[[str], CorpusEntry | None] = lambda corpus: None,
        is_owner: Callable[[], bool] = lambda: True,
    ) -> None:
        """`entry` reads the entry of a corpus in the ledger. `is_owner` tells whether this process has to have the
        journals; if not, those that are here say nothing."""
        self._is_owner = is_owner
        self._root = settings.index_root
        self._written_offsets, self._entry = written_offsets, entry
        self._entries: dict[str, tuple[float, CorpusEntry | None]] = {}
        self._known: tuple[float, Mapping[str, int]] = (-math.inf, {})

    def is_there(self, corpus: str, most_age_seconds: float = 0.0) -> bool:
        """Return whether the corpus exists: it has an entry that is not deleted, or no entry and a journal. The
        entry of a corpus with a journal may have been read that long ago; a missing one is looked up each time."""
        is_written = self.is_written(corpus)
        read_at, entry = self._entries.get(corpus, (-math.inf, None))
        is_fresh = time.monotonic() - read_at < most_age_seconds
        if not (is_fresh and (entry is None or not entry.is_deleted) and is_written):
            entry = self._entry(corpus)
            self._entries[corpus] = (time.monotonic(), entry)
        if entry is not None:
            return not entry.is_deleted
        return is_written or corpus == FIRST_CORPUS

    @property
    def is_here(self) -> bool:
        """Whether this process has the journals, because it writes them or because no other machine does."""
        return self._is_owner()

    def is_written(self, corpus: str) -> bool:
        """Return whether the corpus was ever written to: it has a journal here, or runs have written it elsewhere."""
        if CorpusLayout(self._root, corpus).journal.is_dir():
            return True
        return not self._is_owner() and bool(self.reached(corpus))

    def elsewhere(self) -> tuple[str, ...]:
        """Return the corpora that runs have written and nobody deleted, where another machine has the journals."""
        written = () if self._is_owner() else self._written(1.0)
        return tuple(corpus for corpus in written if self.is_there(corpus, LEDGER_SECONDS))

    def reached(self, corpus: str) -> int:
        """Return the offset of the journal that runs have reached."""
        return self._written().get(corpus) or self._written(1.0).get(corpus, 0)

    def problems(self) -> dict[str, str]:
        """Return the problem of each such corpus, by its name."""
        found = {corpus: self._problem(corpus, reached) for corpus, reached in self._written().items()}
        return {corpus: problem for corpus, problem in found.items() if problem}

    def check(self, corpus: str) -> None:
        """Raise `Corrupted` if the corpus is one of them."""
        if problem := self._problem(corpus, self._written().get(corpus, 0)):
            raise Corrupted(problem)

    def _written(self, most_age_seconds: float = LEDGER_SECONDS) -> Mapping[str, int]:
        """Return the offset that runs have reached in each corpus, as it was at most so long ago."""
        read_at, known = self._known
        if time.monotonic() - read_at > most_age_seconds:
            self._known = (time.monotonic(), known := self._written_offsets())
        return known

    def _problem(self, corpus: str, reached: int) -> str:
        if not reached or not is_graphed(corpus) or not self._is_owner():
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


_NO_SOURCE = "no source"
"""Stands in a policy for none at all, where the settings of instance and corpus have no source in common."""


def policy_of(trust: TrustSettings, ledger: Ledger, corpus: str) -> CorpusPolicy:
    """Return what a corpus may take in: the policy of the instance's settings, narrowed by the corpus's own."""
    policy, entry = trust.policy_of(corpus), ledger.corpora.one(corpus)
    if entry is None:
        return policy
    own = entry.settings
    sources = tuple(filter(policy.takes_source, own.sources)) or (_NO_SOURCE,) if own.sources else policy.sources
    narrowed = {"search": policy.search and own.search, "crawl": policy.crawl and own.crawl, "sources": sources}
    return policy.model_copy(update=narrowed)


class CorpusReaders:
    """The reader of each corpus, by the engine that the settings name. Safe for threads."""

    def __init__(
        self,
        settings: Settings,
        collections: PerCorpus[ServerCollection],
        reranker: Callable[[], Reranker | None],
        graph: Callable[[str], GraphArm | None],
        truth: Callable[[], CorpusTruth],
        root: Path | None = None,
        doubts: Callable[[str], Mapping[str, float]] = lambda corpus: {},
        store: ObjectStore | None = None,
    ) -> None:
        """`reranker`, `graph` and `truth` are called when a corpus is opened, not before. `root` is the folder of the
        corpora, if it is another than the settings'. `doubts` returns the doubt of each passage of a corpus that
        callers speak against, and is called by each search."""
        self._settings = settings
        self._root = root or settings.index_root
        self.beside: CorpusReaders | None = None
        """The readers of the second indices; None for these themselves."""
        if root is None:
            no_graph, beside = NotSearched("the fallback's index has no graph"), settings.index_root / FALLBACK_FOLDER
            self.beside = CorpusReaders(settings, collections, reranker, lambda _: no_graph, truth, beside, doubts)
        self._collections, self._reranker, self._graph, self._truth = collections, reranker, graph, truth
        self._trust, self._doubts = source_trust_of(settings.trust), doubts
        self.fits = ModelFits(settings.data_dir / FITTED_FOLDER, store)
        """The weights that were fitted for models of embedding endpoints."""
        self._open = PerCorpus(self._new)
        self._top_passages: dict[str, TopPassages] = {}
        self._compared: dict[str, tuple[int, int, bool]] = {}

    def top_passages(self, corpus: str) -> TopPassages | None:
        """Return what this process's latest questions to the corpus found first; None for a small corpus."""
        if self.reader(corpus).chunk_count < SMALLEST_CORPUS:
            return None
        return self._top_passages.setdefault(corpus, TopPassages())

    def names(self) -> tuple[str, ...]:
        """Return the corpora that were ever written to, here or elsewhere."""
        elsewhere = self._truth().elsewhere() if self.beside is not None else ()
        return tuple(sorted({*list_corpora(self._root), *elsewhere}))

    def exists(self, corpus: str) -> bool:
        """Return whether the corpus was ever written to."""
        is_here = CorpusLayout(self._root, corpus).journal.is_dir()
        return is_here or (self.beside is not None and self._truth().is_written(corpus))

    def reader(self, corpus: str) -> Reader:
        """Return the reader of a corpus, which may be empty."""
        return self._open.of(corpus)

    def generations(self, corpus: str) -> tuple[GenerationInfo, ...]:
        """Return the generations of a corpus that are kept, newest first."""
        if self._settings.index.engine == "qdrant":
            from sluice.index.qdrant.writer import list_builds

            return list_builds(self._collections.of(corpus), corpus)
        return list_generations(self._root, corpus)

    def roll_back(self, corpus: str, generation: str) -> Coverage:
        """Serve a kept generation until there are new records to publish. Raises `NotFound` and `Corrupted`."""
        if self._settings.index.engine == "qdrant":
            from sluice.index.qdrant.writer import roll_back

            return roll_back(self._collections.of(corpus), corpus, generation)
        return rollback(self._root, corpus, generation)

    def existing(self, corpus: str) -> Reader:
        """Return the reader of a corpus that exists, be it empty. Raises `NotFound` if it does not, and `Corrupted` if
        it was written to and its journal is gone."""
        if not self.exists(corpus):
            self._truth().check(corpus)
        self.require(corpus, LEDGER_SECONDS)
        return self.reader(corpus)

    def behind(self, corpus: str, journal_offset: int) -> int:
        """Return how many records of the journal a generation lacks that was pulled from another machine."""
        truth = self._truth()
        return 0 if truth.is_here else max(0, truth.reached(corpus) - journal_offset)

    def require(self, corpus: str, most_age_seconds: float = 0.0) -> None:
        """Raise `NotFound` if the corpus does not exist, as its entry said at most so long ago: it was neither made nor
        written to, or it was deleted."""
        if not self._truth().is_there(corpus, most_age_seconds):
            remedy = "make it by POST /v1/corpora or with create_corpus, or name one that is there"
            raise NotFound(f"nothing was written to a corpus {corpus!r}, and nobody made it: {remedy}")

    def fallback_model(self, corpus: str) -> str | None:
        """Return the fingerprint of the local model of the corpus's second index; None if it needs no second index.

        It needs one if its own model is an endpoint's and `embed.fallback` is "local".
        """
        chosen = self._settings.embed.of_corpus(corpus)
        wanted = (chosen.provider, chosen.fallback, self._settings.index.engine) == ("openai", "local", "local")
        if not wanted or self.beside is None:
            return None
        own = self.reader(corpus).model_fingerprint or fingerprint_of_corpus(self._settings.embed, corpus)
        if own in FINGERPRINTS.values():
            return None
        return self.beside.reader(corpus).model_fingerprint or FINGERPRINTS[chosen.precision]

    def fallback(self, corpus: str) -> Reader | None:
        """Return the reader of the corpus's second index; None without one that has all of the corpus's documents."""
        if self.beside is None or self.fallback_model(corpus) is None or not self.beside.exists(corpus):
            return None
        if CorpusLayout(self._root, corpus).held.exists():  # a rollback leaves out what the second index has
            return None
        try:
            first, second = self.reader(corpus), self.beside.reader(corpus)
            offsets = first.journal_offset, second.journal_offset
            *compared, is_whole = self._compared.get(corpus, (-1, -1, False))
            if offsets[0] != compared[0] or not (is_whole or offsets[1] == compared[1]):  # what was whole gets but more
                held = {facts.document_id: facts for facts in second.all_facts()}
                is_whole = all(has_version(held.get(one.document_id), one) for one in first.all_facts())
                self._compared[corpus] = (*offsets, is_whole)
        except SluiceError as error:
            log.warning("fallback_index_unusable", corpus=corpus, error=repr(error))
            return None
        return second if is_whole and second.model_fingerprint else None

    def close(self) -> None:
        """Close every reader."""
        self._open.close()
        if self.beside is not None:
            self.beside.close()

    def _new(self, corpus: str) -> Reader:
        settings = self._settings
        query, fit = settings.query, self.fits.of(fingerprint_of_corpus(settings.embed, corpus))
        if fit is not None and self.beside is not None and "lexical_weight" not in query.model_fields_set:
            query = query.model_copy(update={"lexical_weight": fit.lexical_weight})
        doubts = partial(self._doubts, corpus)
        if settings.index.engine == "qdrant":
            from sluice.index.qdrant.reader import QdrantReader

            collection = self._collections.of(corpus)
            return QdrantReader(collection, corpus, query, self._reranker(), self._trust, doubts=doubts)
        from sluice.index.local.reader import IndexReader

        why = settings.graph_hindrance
        return IndexReader(
            self._root,
            corpus,
            query,
            self._reranker(),
            self._trust,
            on_fallback=count_fallback,
            graph=NotSearched(why) if why else self._graph(corpus),
            doubts=doubts,
        )


def has_version(held: DocumentFacts | None, wanted: DocumentFacts) -> bool:
    """Return whether a second index that holds `held` has that version of the document, or a later one."""
    if held is None:
        return False
    return held.checksum == wanted.checksum or held.provenance.fetched_at > wanted.provenance.fetched_at


class CorpusWriters:
    """The one writer of each corpus that this process writes to. Safe for threads."""

    def __init__(
        self,
        settings: Settings,
        collections: PerCorpus[ServerCollection],
        truth: Callable[[], CorpusTruth],
        root: Path | None = None,
        is_held: Callable[[], bool] = lambda: False,
        check_owner: Callable[[], None] = lambda: None,
        ship: Callable[[str], None] = lambda corpus: None,
    ) -> None:
        """`root` is the folder of the corpora, if it is another than the settings'. `is_held` returns whether nothing
        may be collected for now. `check_owner` raises `Fenced` if this process may not write. `ship` puts a journal
        where other machines find it."""
        self._settings, self._is_held, self._check_owner, self._ship = settings, is_held, check_owner, ship
        self._root = root or settings.index_root
        self._beside: CorpusWriters | None = None
        if root is None:
            beside = settings.index_root / FALLBACK_FOLDER
            self._beside = CorpusWriters(settings, collections, truth, beside, is_held, check_owner)
        self._collections, self._truth = collections, truth
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
        self._check_owner()
        writer = self._take(corpus)
        try:
            yield writer
        except Fenced:
            with self._lock:
                self._open.pop(corpus, None)
            writer.close()
            if self._beside is not None:
                self._beside.close_one(corpus)
            raise
        finally:
            with self._lock:
                self._in_use[corpus] -= 1

    @contextmanager
    def both(self, corpus: str, *, begins: bool = False) -> Iterator[tuple[Writer, Writer | None]]:
        """Yield the writers of a corpus and of its second index: None if it has none, unless this `begins` it.

        A second index is only written by whoever writes the corpus. Raises as `writing`.
        """
        with ExitStack() as held:
            first, second = held.enter_context(self.writing(corpus)), None
            if self._beside is not None and (begins or self._beside.exists(corpus)):
                second = held.enter_context(self._beside.writing(corpus))
            yield first, second

    def exists(self, corpus: str) -> bool:
        """Return whether the corpus was ever written to."""
        return CorpusLayout(self._root, corpus).journal.is_dir()

    def remove(self, corpus: str, document_ids: Sequence[str]) -> int:
        """Remove the documents from a corpus and its second index; return the corpus's offset that covers it."""
        with self.both(corpus) as (first, second):
            if second is not None:
                second.remove(document_ids)
            return first.remove(document_ids)

    def close_wanted(self, *, every: bool = False) -> None:
        """Close the writers of corpora that another process wants to write, or `every` one, but for those in use."""
        with self._lock:
            held = tuple(self._open)
        for corpus in held:
            if every or self._is_wanted(corpus):
                self.close_one(corpus)

    def close(self) -> None:
        """Close every writer. A later use opens a new one."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
        if self._beside is not None:
            self._beside.close()

    def _take(self, corpus: str) -> Writer:
        """Return the writer, counted as in use."""
        if self._is_wanted(corpus):
            self.close_one(corpus)
            raise Overloaded(f"corpus {corpus} is being handed over to another process", HANDOVER_SECONDS)
        with self._lock:
            if corpus not in self._open:
                self._open[corpus] = self._new(corpus)
            self._in_use[corpus] += 1
            return self._open[corpus]

    def _is_wanted(self, corpus: str) -> bool:
        """Return whether another process waits to write to the corpus."""
        return is_handover_requested(CorpusLayout(self._root, corpus))

    def close_one(self, corpus: str) -> None:
        """Close the writer of a corpus and of its second index, unless it is in use."""
        with self._lock:
            writer = None if self._in_use[corpus] else self._open.pop(corpus, None)
        if writer is not None:
            writer.close()
            if self._beside is not None:
                self._beside.close_one(corpus)

    def _new(self, corpus: str) -> Writer:
        settings = self._settings
        self._truth().check(corpus)
        if settings.index.engine == "qdrant":
            from sluice.index.qdrant.writer import QdrantWriter

            collection, ship = self._collections.of(corpus), partial(self._ship, corpus)
            return self._guarded(QdrantWriter(settings.index_root, corpus, collection, ship=ship))
        from sluice.index.local.working_set import WritePolicy
        from sluice.index.local.writer import IndexWriter

        policy = WritePolicy(keep_generations=settings.index.keep_generations)
        made = IndexWriter(self._root, corpus, policy, on_fallback=count_fallback, is_held=self._is_held)
        return self._guarded(made)

    def _guarded(self, writer: Writer) -> Writer:
        writer.guard_by(self._check_owner)
        return writer


@dataclass(frozen=True, slots=True)
class Corpora(Step):
    """The corpora, for a handler that both reads and writes them."""

    readers: CorpusReaders
    writers: CorpusWriters
