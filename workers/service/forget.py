"""Un-ingest on request: documents go with every trace of them, and the negative list keeps them out.

The proof looks for what is forgotten in every place that could still have it. Not looked into: answers that were given
(they belong to the history of their runs, which `sluice prune` removes), and copies that were made elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic_core import to_json

from sluice.contracts.api import RunAccepted
from sluice.contracts.document import ChunkBatch, ChunkedDocument, Document, DocumentBatch
from sluice.contracts.errors import Corrupted, InvalidInput, NotFound, SluiceError
from sluice.contracts.ingest import ForgetDirected
from sluice.contracts.operations.forget import (
    ForgetProof,
    ForgetRequest,
    ForgottenEntry,
    ForgottenKind,
    NewEntry,
    Selection,
    Trace,
)
from sluice.contracts.outcome import Next
from sluice.index.disk.layout import CorpusLayout
from sluice.index.generations.publish import list_generation_names, read_current_name
from sluice.index.journal.document_facts import DocumentFacts, make_facts
from sluice.index.local.traces import Found, find_in_generations, find_in_journal
from sluice.index.search.filters import is_selected
from sluice.ledger.events.outbox import Entry
from sluice.workers.context import Context
from sluice.workers.service.caller import Caller
from sluice.workers.service.graph.upkeep import find_in_graph, first_names, trace_of_graph
from sluice.workers.service.service import Service
from sluice.workers.service.submissions import usable_url

if TYPE_CHECKING:
    from sluice.graph.servers.server import GraphServer

_WEB = ("http://", "https://")


class ForgetDesk:
    """What an operator may have forgotten. A caller of some corpora touches those alone."""

    def __init__(self, context: Context, service: Service) -> None:
        self._context = context
        self._service = service
        self._forgotten = context.ledger.forgotten

    def forget(self, request: ForgetRequest, caller: Caller) -> RunAccepted:
        """Record that documents are to be forgotten. The run is finished when nothing of them is left.

        Raises:
            InvalidInput: the URL or the prefix cannot be used.
            Forbidden: the caller may not touch the corpus.
            Overloaded: the index's queue is full; says when to come back.
        """
        caller.may_touch(request.corpus)
        selection = usable_selection(request.selection)
        run = replace(self._service.new_run("deletion", request.corpus, owner=caller.owner), is_small=True)
        self._context.admission.admit(run, {"index": 1})
        body = ForgetDirected(selection=selection, keep_out=request.keep_out, operator=caller.owner, note=request.note)
        entries = [selection.named] if request.keep_out and selection.named else []
        first = [Entry(self._service.event_of(Next(body), run))]
        return self._service.started(self._forgotten.forget(run, first, entries, caller.owner, request.note))

    def count(self, request: ForgetRequest, caller: Caller) -> int:
        """How many documents of those that are served now are meant."""
        caller.may_touch(request.corpus)
        selection = usable_selection(request.selection)
        if not self._context.readers.exists(request.corpus):
            return 0
        facts = self._context.readers.reader(request.corpus).all_facts()
        return sum(is_selected(one, selection) for one in facts)

    def prove(self, corpus: str, selection: Selection, caller: Caller) -> ForgetProof:
        """Look for what the selection means in every place that could still have it."""
        caller.may_touch(corpus)
        return prove(self._context, corpus, usable_selection(selection))

    def entries(self, caller: Caller) -> Sequence[ForgottenEntry]:
        """The negative lists of the caller's corpora."""
        return self._forgotten.list(caller.corpora)

    def keep_out(self, entry: NewEntry, caller: Caller) -> Sequence[ForgottenEntry]:
        """Put something on the negative list that is not in the corpus; the list as it is then."""
        caller.may_touch(entry.corpus)
        self._forgotten.add(entry.corpus, [(entry.kind, _usable(entry.kind, entry.value))], caller.owner, entry.note)
        return [one for one in self.entries(caller) if one.corpus == entry.corpus]

    def allow(self, entry_id: str, caller: Caller, note: str) -> ForgottenEntry:
        """Take an entry off the negative list; what it names may be crawled and taken in again.

        Raises:
            NotFound: there is none with that id, or it is not the caller's to see.
        """
        entry = self._forgotten.one(entry_id)
        if not caller.may_see(entry.corpus):
            raise NotFound(f"no entry {entry_id} on the negative list")
        self._forgotten.lift(entry_id, caller.owner, note)
        return entry


def usable_selection(selection: Selection) -> Selection:
    """The selection with its URL in the form in which documents have theirs.

    Raises:
        InvalidInput: a URL or a prefix that no document can have.
    """
    if selection.named is None:
        return selection
    kind, value = selection.named
    return selection.model_copy(update={kind: _usable(kind, value)})


def _usable(kind: ForgottenKind, value: str) -> str:
    if kind == "url":
        return usable_url("url", value)
    if kind == "url_prefix" and not value.startswith(_WEB):
        raise InvalidInput("url_prefix", f"{value!r} begins no URL", "begin with https:// or http:// and the host")
    return value


_UNKNOWN_CHECKSUM = "0" * 64


def prove(context: Context, corpus: str, selection: Selection) -> ForgetProof:
    """Look for what the selection means: in what is served, on disk, in the ledger, in blobs and in the object store.

    Changes nothing. Reads the whole journal and every blob, so it takes as long as that.
    """
    layout = CorpusLayout(context.settings.index_root, corpus)

    def is_wanted(facts: DocumentFacts) -> bool:
        return is_selected(facts, selection)

    ids = frozenset(selection.document_ids)
    traces = []
    if context.readers.exists(corpus):
        traces += [_served(context, corpus, is_wanted), _trace("journal", find_in_journal(layout, is_wanted, ids))]
        current = read_current_name(layout)
        for found in find_in_generations(layout, is_wanted):
            kind = "current" if found.place == current else "retained"
            traces.append(_trace(f"{kind} generation {found.place}", found))
        traces.append(_beside(layout))
    pages = context.ledger.erasure.pages(corpus, ids, selection)
    traces.append(Trace(place="known pages", looked_at=len(pages), found=first_names(key.hex() for key in pages)))
    held = context.ledger.quarantine.of(corpus, ids, selection)
    traces.append(Trace(place="quarantine", looked_at=len(held), found=first_names(held)))
    traces += [_blobs(context, corpus, selection, is_wanted), _raw_pages(context, corpus, ids, selection)]
    if context.settings.index.object_store_url:
        traces.append(_object_store(context, layout))
    traces += find_in_graph(context, corpus, ids)
    if context.graph_server is not None:
        traces.append(_graph_server(context.graph_server, context, corpus, ids))
    return ForgetProof(corpus=corpus, selection=selection, traces=tuple(traces))


def _served(context: Context, corpus: str, is_wanted: Callable[[DocumentFacts], bool]) -> Trace:
    """What queries find now, with what the journal has beyond the generation."""
    found = Found("served")
    for facts in context.readers.reader(corpus).all_facts():
        found.looked_at += 1
        if is_wanted(facts):
            found.ids.add(facts.document_id)
    return _trace("what queries find", found)


def _beside(layout: CorpusLayout) -> Trace:
    """A corpus that is being reindexed, or the one before a reindexing that was kept."""
    is_there = layout.beside.is_dir()
    found = (str(layout.beside),) if is_there else ()
    detail = "finish `sluice reindex`, or remove what it kept" if is_there else None
    return Trace(place="corpora kept beside it", looked_at=len(found), found=found, detail=detail)


def _blobs(context: Context, corpus: str, selection: Selection, is_wanted: Callable[[DocumentFacts], bool]) -> Trace:
    """Batches of documents and of chunks, but for those of other corpora alone."""
    needle = to_json(selection.named[1]).strip(b'"') if selection.named else b""
    looked_at = 0
    found: set[str] = set()
    of_others = context.ledger.erasure.blobs_of_others(corpus)
    for blob in context.blobs.kept():
        if blob.sha256 in of_others:
            continue
        try:
            content = context.blobs.named(blob.sha256)
        except (NotFound, Corrupted):
            continue
        looked_at += 1
        if not content.startswith(b'{"documents":'):
            continue
        if needle in content:
            found.update(facts.document_id for facts in _facts_in(content) if is_wanted(facts))
    return Trace(place="batches among the blobs", looked_at=looked_at, found=first_names(sorted(found)))


def _facts_in(content: bytes) -> Iterator[DocumentFacts]:
    """The facts of each document in a batch of either kind."""
    for kind in (ChunkBatch, DocumentBatch):
        try:
            batch = kind.model_validate_json(content)
        except ValidationError:
            continue
        for document in batch.documents:
            yield make_facts(document) if isinstance(document, ChunkedDocument) else _facts_of(document)
        return


def _facts_of(document: Document) -> DocumentFacts:
    """The facts of a document before it is chunked, as far as a selection asks for them."""
    return DocumentFacts(
        document_id=document.id,
        checksum=_UNKNOWN_CHECKSUM,
        url=document.url,
        file_path=document.file_path,
        title=document.title,
        metadata=document.metadata,
        provenance=document.provenance,
    )


def _raw_pages(context: Context, corpus: str, ids: frozenset[str], selection: Selection) -> Trace:
    """Raw pages, submissions, batches and vectors that events lead to."""
    blobs = context.ledger.erasure.leftovers(corpus, ids, selection).blobs
    there = sorted(sha256 for sha256 in blobs if context.blobs.has(sha256))
    return Trace(place="blobs that events lead to", looked_at=len(blobs), found=first_names(there))


def _object_store(context: Context, layout: CorpusLayout) -> Trace:
    """Generations that were sent away: those that are on disk here were looked into."""
    from sluice.index.remote.object_store import open_store
    from sluice.index.remote.snapshots import list_stored_generations

    store = open_store(context.settings.index.object_store_url or "", context.settings.object_store)
    stored, here = list_stored_generations(store, layout.corpus), set(list_generation_names(layout))
    unknown = [name for name in stored if name not in here]
    detail = "not on disk here, so not looked into; they leave the store with the next push" if unknown else None
    return Trace(place="object store", looked_at=len(stored), found=first_names(unknown), detail=detail)


def _graph_server(server: GraphServer, context: Context, corpus: str, ids: frozenset[str]) -> Trace:
    """Documents on the graph server that are named, or that the index has no more, which leave it next."""
    place = "graph server"
    try:
        there = list(server.standing(corpus))
    except SluiceError as error:
        detail = f"what left the index leaves the server when it is back: {error}"
        return Trace(place=place, looked_at=0, found=("not looked into",), detail=detail)
    return trace_of_graph(context, corpus, place, there, ids)


def _trace(place: str, found: Found) -> Trace:
    return Trace(place=place, looked_at=found.looked_at, found=first_names(sorted(found.ids)))
