"""The memories of an instance's projects, the model that distils them, and the lag of the index behind them.

Each project has a folder that is named by the hash of its name; each feature's collection in the index is a corpus.

Beside the journals of a project's features stands `project.json` with its name, as a hash cannot be read backwards.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.document import ChunkBatch, ChunkedDocument
from sluice.contracts.errors import BudgetExhausted, Conflict, Corrupted, NotFound, Unavailable
from sluice.contracts.operations.quarantine import MOST_HELD_AT_ONCE, QuarantinePage
from sluice.contracts.retrieval import MAX_QUERY_CHARACTERS, Query, Retrieval, RetrievedChunk, Strategy
from sluice.disk.durable import replace_file
from sluice.memory.ports import Hit, Hits
from sluice.memory.qdrant_schema import documents_of
from sluice.text.batches import in_batches
from sluice.workers.runtime.negative_list import refused_documents

if TYPE_CHECKING:
    from sluice.disk.object_store import ObjectStore
    from sluice.evaluation.chat_endpoint import ChatEndpoint, ChatMessage
    from sluice.ledger.ledger import Ledger
    from sluice.memory.journal.feature_memory import FeatureMemory
    from sluice.memory.memory import Memory
    from sluice.memory.ports import SharedJournals
    from sluice.workers.wiring.corpora import CorpusReaders

log = structlog.get_logger(__name__)

NAME_FILE, SHARED = "project.json", "memory"
MOST_FOUND = 200


class ProjectMemories:
    """The memory of each project, opened at first use. Safe for threads; made after a fork."""

    def __init__(
        self,
        root: Path,
        open_memory: Callable[[Path, str, SharedJournals | None], Memory],
        store: ObjectStore | None = None,
    ) -> None:
        """`root` holds a folder for each project; `open_memory` opens that of one. With `store` all machines of an
        instance remember there, and `root` holds copies."""
        self.root, self._store = root, store
        self._open_memory = open_memory
        self._lock = threading.Lock()
        self._open: dict[str, Memory] = {}

    def of(self, project: str) -> Memory:
        """Return the memory of a project, which may be empty. Writes nothing."""
        with self._lock:
            found = self._open.get(project)
            if found is None:
                folder = self._folder(project)
                shared = StoredJournals(self._store, folder.name) if self._store else None
                found = self._open_memory(folder, project, shared)
                if self._is_named(folder, project):  # the memory of an unknown project is not kept
                    self._open[project] = found
            return found

    def founded(self, project: str) -> Memory:
        """Return the memory of a project that is to be written to; creates its folder if need be."""
        folder = self._folder(project)
        if not self._is_named(folder, project):
            told = (json.dumps({"project": project}) + "\n").encode()
            if self._store:
                self._store.create(f"{SHARED}/{folder.name}/{NAME_FILE}", told)
            self._name(folder, told)
        return self.of(project)

    def existing(self, project: str) -> Memory:
        """Return the memory of a project that was written to. Raises `NotFound` if it never was."""
        if not self._is_named(self._folder(project), project):
            raise NotFound(f"nothing was remembered of a project {project!r} yet")
        return self.of(project)

    def names(self) -> tuple[str, ...]:
        """Return the projects that were ever written to. One whose name cannot be read is logged and left out."""
        found = []
        for name in self._store.folders(SHARED) if self._store else ():
            self._is_named(self.root / name)
        for path in sorted(self.root.glob(f"*/{NAME_FILE}")):
            try:
                found.append(_name_in(path))
            except Corrupted as error:
                log.error("project_unreadable", error=str(error))
        return tuple(sorted(found))

    def _folder(self, project: str) -> Path:
        return self.root / hashlib.sha256(project.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def files(self) -> Iterator[Path]:
        """Yield the file of each project's name and of each journal, complete."""
        for project in self.names():
            memory = self.existing(project)
            yield memory.folder / NAME_FILE
            for feature in memory.features():
                memory.journal(feature).complete()
                yield memory.journal(feature).path

    def _is_named(self, folder: Path, project: str | None = None) -> bool:
        path = folder / NAME_FILE
        if self._store and not path.exists():
            with suppress(NotFound):
                self._name(folder, self._store.read(f"{SHARED}/{folder.name}/{NAME_FILE}"))
        if not path.exists():
            return False
        if project is not None and (name := _name_in(path)) != project:
            raise Conflict(f"{folder} holds the memory of {name!r}, whose hash begins like that of {project!r}")
        return True

    @staticmethod
    def _name(folder: Path, told: bytes) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(folder / NAME_FILE, told)


class StoredJournals:
    """The journals of a project in the object store: `memory/<folder>/<feature>/<offset>` holds one append. Two
    machines that append at once name the same object, which is put once; the other reads it and decides anew."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store, self._folder = store, f"{SHARED}/{folder}"

    def features(self) -> list[str]:
        """Implement `SharedJournals.features`."""
        return self._store.folders(self._folder)

    def appended(self, feature: str, offset: int) -> Iterator[bytes]:
        """Implement `SharedJournals.appended`: what this machine lacks wholly is read several at a time."""
        names = sorted(self._store.sizes(f"{self._folder}/{feature}")) if offset == 0 else []
        for some in in_batches(names, lambda _: 1, most_items=64, most_size=64):
            for name, content in zip(some, self._store.each(self._store.read, some), strict=True):
                if name != self._object(feature, offset):
                    raise Corrupted(f"the object store lacks what comes before {name}")
                yield content
                offset += len(content)
        with suppress(NotFound):
            while True:
                yield (content := self._store.read(self._object(feature, offset)))
                offset += len(content)

    def append(self, feature: str, offset: int, content: bytes) -> bool:
        """Implement `SharedJournals.append`. A request that was tried again may have put it before."""
        name = self._object(feature, offset)
        return self._store.create(name, content) or self._store.read(name) == content

    def _object(self, feature: str, offset: int) -> str:
        return f"{self._folder}/{feature}/{offset:015d}"


def _name_in(path: Path) -> str:
    """Return the project's name in the file at `path`. Raises `Corrupted` if it names none."""
    try:
        return str(json.loads(path.read_text())["project"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Corrupted(f'{path} names no project: {error!r}; write {{"project": …}} into it again') from error


@dataclass(slots=True)
class Account:
    """Cost of one event's requests to the model."""

    run_id: str
    usd: float = 0.0


_ACCOUNT: ContextVar[Account | None] = ContextVar("memory_model_account", default=None)


class MemoryModel:
    """A language model that answers only requests on account of a run."""

    def __init__(self, endpoint: ChatEndpoint | None, ledger: Ledger) -> None:
        self._endpoint = endpoint
        self._ledger = ledger

    @property
    def is_there(self) -> bool:
        """Whether the settings name a model, and enable it."""
        return self._endpoint is not None

    @contextmanager
    def on_account_of(self, run_id: str) -> Iterator[Account]:
        """Charge requests made inside the block to this run."""
        account = Account(run_id)
        token = _ACCOUNT.set(account)
        try:
            yield account
        finally:
            _ACCOUNT.reset(token)

    def ask(self, system: str, question: str, max_tokens: int) -> str:
        """Return the model's reply.

        Raises:
            Unavailable: there is none, it does not answer, or no run pays.
            BudgetExhausted: the run or its day cannot pay.
        """
        account = _ACCOUNT.get()
        if self._endpoint is None or account is None:
            raise Unavailable("no language model is asked here")
        messages: list[ChatMessage] = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        left = self._ledger.budget_left(account.run_id).least("usd")
        if left is not None and self._endpoint.cost_at_most(messages, max_tokens) > left - account.usd:
            raise BudgetExhausted("the run or its day has no room for asking the model")
        reply = self._endpoint.ask(messages, max_tokens=max_tokens)
        account.usd += reply.usd
        return reply.text


class IndexSearch:
    """Searches memory's collections through a function that answers index queries."""

    def __init__(self, ask: Callable[[Query], Retrieval]) -> None:
        """`ask` raises what a direct query raises."""
        self._ask = ask

    def search(self, collection: str, query: str, top_k: int) -> Hits:
        """Return a collection's best hits; none if it is empty. Raises `Unavailable` if the engine is away or slow."""
        asked = Query(
            query=query[:MAX_QUERY_CHARACTERS],
            corpus=collection,
            top_k=min(top_k, MOST_FOUND),
            max_per_domain=0,
            duplicate_threshold=0.0,
            diversity=0.0,
            rerank=False,
        )
        try:
            return hits_of(self._ask(asked))
        except NotFound:
            return Hits((), "hybrid")


def hits_of(found: Retrieval) -> Hits:
    """Return the hits with relevances in [0, 1] in the order of fusion; that of the best is the best cosine.

    A fused score has no upper end, as BM25 has none; so each counts as a share of the best. Without vectors the best
    one's relevance is 1.
    """
    best = max((chunk.fused_score for chunk in found.chunks), default=0.0)
    cosines = [1.0 - chunk.dense_distance for chunk in found.chunks if chunk.dense_distance is not None]
    top = min(1.0, max(0.0, max(cosines))) if cosines else 1.0
    hits = tuple(Hit(chunk.document_id, round(top * _share(chunk, best), 6)) for chunk in found.chunks)
    return Hits(hits, "bm25" if found.metadata.strategy is Strategy.BM25 else "hybrid")


def _share(chunk: RetrievedChunk, best: float) -> float:
    return min(1.0, max(0.0, chunk.fused_score / best)) if best > 0 else 0.0


@dataclass(frozen=True, slots=True)
class IndexLag:
    """Documents that the index lacks of a feature's memory or has in another version, and those it should not hold."""

    entry_ids: tuple[str, ...]
    """Iterations that it lacks."""
    learning_ids: tuple[str, ...]
    surplus: tuple[str, ...]
    """Ids of documents that the journal does not know, or that are not offered any more."""
    documents: int
    """Documents that the index should hold in all."""
    indexed: int
    """Documents that it holds."""
    withheld: int
    """Documents of the journal that the guard or the negative list keeps out of the index."""
    digest: str
    """Hash of the missing and the surplus documents: the same lag has the same hash."""

    @property
    def behind(self) -> int:
        """Documents to write and to remove."""
        return len(self.entry_ids) + len(self.learning_ids) + len(self.surplus)


def held_checksums(corpus: str, readers: CorpusReaders) -> dict[str, str]:
    """Return the checksum of each document that the index serves now."""
    if not readers.exists(corpus):
        return {}
    reader = readers.reader(corpus)
    reader.reload()
    return {facts.document_id: facts.checksum for facts in reader.all_facts()}


def measure_lag(corpus: str, state: FeatureMemory, project: str, readers: CorpusReaders, ledger: Ledger) -> IndexLag:
    """Compare the journal's state with what the index serves, document by document."""
    wanted = {one.document_id: one for one in documents_of(state, project)}
    held = held_checksums(corpus, readers)
    lacking = [one for name, one in wanted.items() if held.get(name) != one.checksum]
    kept_out = _kept_out(corpus, lacking, ledger) if lacking else frozenset()
    missing = {one.document_id: one.checksum for one in lacking if one.document_id not in kept_out}
    surplus = {name: checksum for name, checksum in held.items() if name not in wanted}
    return IndexLag(
        entry_ids=tuple(name for name in missing if name in state.iterations),
        learning_ids=tuple(name for name in missing if name in state.learnings),
        surplus=tuple(sorted(surplus)),
        documents=len(wanted) - len(kept_out),
        indexed=len(held),
        withheld=len(kept_out),
        digest=_digest(missing | surplus),
    )


def _digest(checksums: Mapping[str, str]) -> str:
    told = "\n".join(f"{name} {checksum}" for name, checksum in sorted(checksums.items()))
    return hashlib.sha256(told.encode()).hexdigest()


def _kept_out(corpus: str, documents: list[ChunkedDocument], ledger: Ledger) -> frozenset[str]:
    """Return the ids of documents that the guard holds in quarantine as they stand, or that the negative list names."""
    refused = refused_documents(ChunkBatch(documents=tuple(documents)), corpus, ledger.forgotten)
    page = QuarantinePage(corpora=(corpus,), state="any", limit=MOST_HELD_AT_ONCE)
    held = {(one.document_id, one.checksum) for one in ledger.quarantine.list(page) if one.state != "released"}
    blocked = (
        one.document_id for one in documents if all((one.document_id, chunk.checksum) in held for chunk in one.chunks)
    )
    return frozenset(refused) | frozenset(blocked)
