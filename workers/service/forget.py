"""Un-ingest on request: removes documents with every trace of them, and keeps them out by the negative list.

The proof searches every place that could still have forgotten documents, but not answers that were given (they belong
to the history of their runs, which `sluice prune` removes), nor copies that were made elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pydantic import ValidationError
from pydantic_core import to_json

from sluice.contracts.api import RunAccepted
from sluice.contracts.base import shared_fields
from sluice.contracts.document import ChunkBatch, ChunkedDocument, DocumentBatch, DocumentFacts
from sluice.contracts.errors import Corrupted, InvalidInput, NotFound, SluiceError
from sluice.contracts.event import Next
from sluice.contracts.ingest import IDS_AT_ONCE, DocumentsRemoved, ForgetDirected
from sluice.contracts.operations import forget as forgetting
from sluice.graph.generations.publish import MANIFEST, Generation, open_generation
from sluice.graph.servers.server import GraphServer
from sluice.index.folder import FALLBACK_FOLDER, CorpusLayout
from sluice.index.generations.publish import list_generation_names, read_current_name
from sluice.index.journal.records import make_facts
from sluice.index.local.reader import Found, find_in_generations, find_in_journal
from sluice.index.remote.snapshots import list_stored_generations
from sluice.index.search.filters import selector
from sluice.ledger.events.outbox import Entry
from sluice.trust.source_trust import source_trust_of
from sluice.workers.backup.forgotten import note as note_forgotten
from sluice.workers.context import Context
from sluice.workers.service.callers import Caller
from sluice.workers.service.documents import usable_url
from sluice.workers.service.service import Service
from sluice.workers.transfer import artefacts_with
from sluice.workers.wiring.corpora import CorpusReaders
from sluice.workers.wiring.index_owner import Roots

_WEB = ("http://", "https://")


class ForgetDesk:
    """Forgets documents for operators. A caller of some corpora touches those alone."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = Service(context)
        self._forgotten = context.ledger.forgotten

    def forget(self, request: forgetting.ForgetRequest, caller: Caller, removed: Sequence[str] = ()) -> RunAccepted:
        """Begin a run that forgets documents, also those `removed` from the index already, and ends when none is left.

        Raises:
            InvalidInput: the URL or the prefix cannot be used.
            Forbidden: the caller may not touch the corpus.
            Overloaded: the index's queue is full; says when to come back.
        """
        caller.may_touch(request.corpus)
        selection = usable_selection(request.selection)
        run = self._service.new_run("deletion", request.corpus, owner=caller.owner, is_small=True)
        self._context.admission.admit(run, {"index": 1})
        body = ForgetDirected(selection=selection, keep_out=request.keep_out, operator=caller.owner, note=request.note)
        entries = [selection.named] if request.keep_out and selection.named else []
        note_forgotten(self._context, "forget", **request.model_dump(mode="json"))
        parts = [tuple(removed[first : first + IDS_AT_ONCE]) for first in range(0, len(removed), IDS_AT_ONCE)]
        gone = [DocumentsRemoved(document_ids=part, erase=True, selection=selection) for part in parts]
        first = [Entry(self._service.event_of(Next(one), run)) for one in (body, *gone)]
        return self._service.started(self._forgotten.forget(run, first, entries, caller.owner, request.note))

    def would_forget(self, request: forgetting.ForgetRequest, caller: Caller) -> forgetting.WouldForget:
        """Count the served documents that the request selects, and name the first. Changes nothing.

        Raises `NotFound` for a corpus that does not exist.
        """
        caller.may_touch(request.corpus)
        self._context.readers.require(request.corpus)
        is_meant = selector(usable_selection(request.selection), source_trust_of(self._context.settings.trust))
        listed = self._context.readers.reader(request.corpus).listed("by_id")
        found = [facts.document_id for facts in listed if is_meant(facts)]
        return forgetting.WouldForget(corpus=request.corpus, documents=len(found), examples=tuple(found[:_MOST_NAMED]))

    def prove(self, corpus: str, selection: forgetting.Selection, caller: Caller) -> forgetting.ForgetProof:
        """Search every place that could still have documents of the selection."""
        caller.may_touch(corpus)
        meant = usable_selection(selection)
        traces = tuple(_Search(self._context, corpus, meant).traces())
        return forgetting.ForgetProof(corpus=corpus, selection=meant, traces=traces)

    def entries(self, caller: Caller) -> Sequence[forgetting.ForgottenEntry]:
        """Return the negative lists of the caller's corpora."""
        return self._forgotten.list(caller.corpora)

    def keep_out(self, entry: forgetting.NewEntry, caller: Caller) -> Sequence[forgetting.ForgottenEntry]:
        """Put an entry on the corpus's negative list and return the list. Removes nothing from the corpus."""
        caller.may_touch(entry.corpus)
        note_forgotten(self._context, "keep_out", **entry.model_dump(mode="json"))
        self._forgotten.add(entry.corpus, [(entry.kind, _usable(entry.kind, entry.value))], caller.owner, entry.note)
        return [one for one in self.entries(caller) if one.corpus == entry.corpus]

    def allow(self, entry_id: str, caller: Caller, note: str) -> forgetting.ForgottenEntry:
        """Take an entry off the negative list; what it names may be crawled and ingested again.

        Raises:
            NotFound: there is none with that id, or it is not the caller's to see.
        """
        entry = self._forgotten.one(entry_id)
        if not caller.may_see(entry.corpus):
            raise NotFound(f"no entry {entry_id} on the negative list")
        note_forgotten(self._context, "allow", id=entry_id)
        self._forgotten.lift(entry_id, caller.owner, note)
        return entry


def usable_selection(selection: forgetting.Selection) -> forgetting.Selection:
    """Return the selection with its URL or prefix as documents have it. Raises `InvalidInput` if none can have it."""
    if selection.named is None:
        return selection
    kind, value = selection.named
    return selection.model_copy(update={kind: _usable(kind, value)})


def _usable(kind: forgetting.ForgottenKind, value: str) -> str:
    if kind == "url":
        return usable_url("url", value)
    if kind == "url_prefix" and not value.startswith(_WEB):
        raise InvalidInput("url_prefix", f"{value!r} begins no URL", "begin with https:// or http:// and the host")
    return value


_UNKNOWN_CHECKSUM = "0" * 64
_MOST_NAMED = 20
"""Most names that the trace of one place lists."""


class _Search:
    """Searches for documents of a selection: in the served index, on disk, in ledger, blobs, graph and object store.

    Changes nothing. Reads the whole journal and every blob, and takes as long as that.
    """

    def __init__(self, context: Context, corpus: str, selection: forgetting.Selection) -> None:
        self._context, self._corpus, self._selection = context, corpus, selection
        self._ids = frozenset(selection.document_ids)
        self._is_meant = selector(selection, source_trust_of(context.settings.trust))
        self._layout = CorpusLayout(context.settings.index_root, corpus)

    def traces(self) -> Iterator[forgetting.Trace]:
        """Yield the findings in each place."""
        ledger, blobs, meant = self._context.ledger, self._context.blobs, (self._corpus, self._ids, self._selection)
        own = self._context.readers
        for readers, layout, told in (
            (own, self._layout, ""),
            (own.beside, CorpusLayout(self._layout.root / FALLBACK_FOLDER, self._corpus), ", of the fallback's index"),
        ):
            if readers is not None and readers.exists(self._corpus):
                yield from self._in_index(readers, layout, told)
        pages = ledger.erasure.pages(*meant)
        yield _trace("known pages", len(pages), (key.hex() for key in pages))
        marked, named = ledger.marks.documents(self._corpus), self._selection
        left = (one for one, url in marked.items() if one in self._ids or (url and _is_named(url, named)))
        yield _trace("marks on passages", len(marked), sorted(left))
        held = ledger.quarantine.of(*meant)
        yield _trace("quarantine", len(held), held)
        yield self._in_batches()
        leftovers = ledger.erasure.leftovers(*meant).blobs  # raw pages, submissions, batches and vectors
        there = sorted(sha256 for sha256 in leftovers if blobs.has(sha256))
        yield _trace("blobs that events lead to", len(leftovers), there)
        copies = artefacts_with(self._context.artefacts, self._corpus, self._is_meant)
        yield _trace("exports and uploads of corpora", 0, copies)
        if self._context.settings.object_store.url:
            yield self._in_object_store()
        yield from self._in_graph()
        if self._context.graph_server is not None:
            yield self._on_graph_server(self._context.graph_server)

    def _in_index(self, readers: CorpusReaders, layout: CorpusLayout, told: str) -> Iterator[forgetting.Trace]:
        """Yield what queries find now, which includes the journal beyond the generation; and what is on disk."""
        served = Found("what queries find")
        for facts in readers.reader(self._corpus).all_facts():
            served.looked_at += 1
            if self._is_meant(facts):
                served.ids.add(facts.document_id)
        current = read_current_name(layout)
        for found in (served, find_in_journal(layout, self._is_meant, self._ids)):
            yield _trace(found.place + told, found.looked_at, sorted(found.ids))
        for found in find_in_generations(layout, self._is_meant):
            kind = "current" if found.place == current else "retained"
            yield _trace(f"{kind} generation {found.place}{told}", found.looked_at, sorted(found.ids))
        beside = [str(layout.beside)] if layout.beside.is_dir() else []  # being reindexed, or kept by a reindexing
        detail = "finish `sluice reindex`, or remove what it kept" if beside else None
        yield _trace(f"corpora kept beside it{told}", len(beside), beside, detail)

    def _in_batches(self) -> forgetting.Trace:
        """Search batches of documents and of chunks, except blobs of other corpora alone."""
        selection, blobs = self._selection, self._context.blobs
        needle = to_json(selection.named[1]).strip(b'"') if selection.named else b""
        looked_at = 0
        found: set[str] = set()
        of_others = self._context.ledger.erasure.blobs_of_others(self._corpus)
        for blob in blobs.kept():
            if blob.sha256 in of_others:
                continue
            try:
                content = blobs.named(blob.sha256)
            except (NotFound, Corrupted):
                continue
            looked_at += 1
            if content.startswith(b'{"documents":') and needle in content:
                found.update(facts.document_id for facts in _facts_in(content) if self._is_meant(facts))
        return _trace("batches among the blobs", looked_at, sorted(found))

    def _in_object_store(self) -> forgetting.Trace:
        """Find generations in the store that are not on disk here; those on disk were searched."""
        store = Roots(self._context.settings).store(self._layout.root)
        stored, here = list_stored_generations(store, self._corpus), set(list_generation_names(self._layout))
        unknown = [name for name in stored if name not in here]
        detail = "not on disk here, so not looked into; they leave the store with the next push" if unknown else None
        return _trace("object store", len(stored), unknown, detail)

    def _in_graph(self) -> Iterator[forgetting.Trace]:
        with self._context.ledger.graph.snapshot(self._corpus) as rows:
            known = [one.document_id for one in rows.standing() if not one.is_tombstone]
        yield self._left_over("graph rows", known)
        folder = self._context.graphs.folder(self._corpus)
        for path in sorted(folder.glob("graph-*")):
            place = f"graph generation {path.name}"
            try:
                view = open_generation(folder, Generation.model_validate_json((path / MANIFEST).read_bytes()))
            except (OSError, ValidationError, Corrupted) as error:
                detail = f"it cannot be read, and goes with the next publishing: {error}"
                yield _trace(place, 0, ["not looked into"], detail)
            else:
                yield self._left_over(place, [view.node(number).key for number in range(view.documents)])

    def _on_graph_server(self, server: GraphServer) -> forgetting.Trace:
        try:
            return self._left_over("graph server", list(server.standing(self._corpus)))
        except SluiceError as error:
            detail = f"what left the index leaves the server when it is back: {error}"
            return _trace("graph server", 0, ["not looked into"], detail)

    def _left_over(self, place: str, held: list[str]) -> forgetting.Trace:
        """Trace documents held at `place` that the selection names by id, or that the index has no more."""
        readers, corpus = self._context.readers, self._corpus
        served = readers.reader(corpus).documents(held) if readers.exists(corpus) else {}
        return _trace(place, len(held), sorted(one for one in held if one in self._ids or one not in served))


def _is_named(url: str, selection: forgetting.Selection) -> bool:
    return url == selection.url or (selection.url_prefix is not None and url.startswith(selection.url_prefix))


def _facts_in(content: bytes) -> Iterator[DocumentFacts]:
    """Yield the facts of each document in a batch of either kind; unchunked, as far as a selection needs them."""
    for kind in (ChunkBatch, DocumentBatch):
        try:
            batch = kind.model_validate_json(content)
        except ValidationError:
            continue
        for document in batch.documents:
            if isinstance(document, ChunkedDocument):
                yield make_facts(document)
            else:
                own = shared_fields(DocumentFacts, document)
                yield DocumentFacts(document_id=document.id, checksum=_UNKNOWN_CHECKSUM, **own)
        return


def _trace(place: str, looked_at: int, names: Iterable[str], detail: str | None = None) -> forgetting.Trace:
    """Return a trace with the first of the names, and the number of further ones."""
    found = tuple(names)
    more = (f"and {len(found) - _MOST_NAMED} more",) if len(found) > _MOST_NAMED else ()
    return forgetting.Trace(place=place, looked_at=looked_at, found=(*found[:_MOST_NAMED], *more), detail=detail)
