"""Corpora and their documents: made, described, listed, changed and deleted.

What is listed is what queries find now: the served generation and the journal beyond it. A list goes by an order that
each segment keeps, so a part of it reads the documents of that part, and those between that a filter leaves out.
"""

from __future__ import annotations

import os
import secrets
import sys
import tarfile
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from operator import sub
from pathlib import Path
from typing import IO, Any

from sluice.contracts.api import DocumentText, RunAccepted
from sluice.contracts.base import shared_fields
from sluice.contracts.document import Chunk, DocumentFacts, document_id_for
from sluice.contracts.errors import Conflict, Corrupted, InvalidInput, NotFound, PolicyRefused, PreconditionFailed
from sluice.contracts.event import Next
from sluice.contracts.filters import Where
from sluice.contracts.ingest import DocumentAmended, ForgetDirected
from sluice.contracts.operations import corpora as shown
from sluice.contracts.operations.forget import Selection
from sluice.contracts.operations.quarantine import QuarantineFilter
from sluice.contracts.operations.transfer import UPLOADED, Artefact, ExportDirected, ImportDirected
from sluice.contracts.trust import Verdict
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import GenerationInfo
from sluice.index.generations.publish import verify as verify_generation
from sluice.index.journal.journal import read_last_offset
from sluice.index.search.filters import Matches, matcher, score
from sluice.index.search.passages import JoinedText
from sluice.ledger.corpora import CorpusEntry
from sluice.ledger.events.outbox import Entry
from sluice.memory.qdrant_schema import is_memory_corpus
from sluice.trust.private.mask import mask_label
from sluice.trust.private.patterns import build_finder
from sluice.trust.source_trust import source_trust_of
from sluice.workers.backup.forgotten import note as note_forgotten
from sluice.workers.context import Context
from sluice.workers.service.callers import Caller
from sluice.workers.service.documents import find_document, read_document_text, require_showable
from sluice.workers.service.documents import shown as shown_text
from sluice.workers.service.freshness import files_of, recheck
from sluice.workers.service.graphs import GraphDesk
from sluice.workers.service.service import Service, require_documents_corpus
from sluice.workers.transfer import check_hashes, read_manifest
from sluice.workers.wiring.corpora import FIRST_CORPUS, Reader, policy_of
from sluice.workers.wiring.graphs import is_graphed

_ORDERS: Mapping[shown.DocumentOrder, Any] = {
    "id": ("by_id", False),
    "-id": ("by_id", True),
    "fetched_at": ("by_fetch", False),
    "-fetched_at": ("by_fetch", True),
}


MOST_COUNTED = 10_000
"""To where what a corpus holds back is counted."""
DOCUMENTS_AGED = 1_000
"""Documents whose ages are looked at: some ten milliseconds."""
AGE_DAYS = (1, 7, 30, 90, 365)
"""Ends of the groups of ages."""


class CorpusDesk:
    """Corpora as a caller may see and change them. Memory's corpora are none of them.

    Every method on one corpus raises `Forbidden` for one that the caller may not touch, and `NotFound` for one that
    does not exist.
    """

    def __init__(self, context: Context) -> None:
        self._context, self._service = context, Service(context)
        self._entries = context.ledger.corpora

    def some(self, caller: Caller, limit: int, after: str | None) -> list[shown.CorpusView]:
        """Return the caller's corpora by name."""
        entries = self._entries.all()
        written = (name for name in self._context.readers.names() if name not in entries)
        made = (name for name, entry in entries.items() if not entry.is_deleted)
        first = () if FIRST_CORPUS in entries else (FIRST_CORPUS,)
        names = sorted(name for name in {*written, *made, *first} if _is_shown(name, caller))
        part = islice((name for name in names if after is None or name > after), limit)
        return [self._view(name, entries.get(name)) for name in part]

    def one(self, name: str, caller: Caller) -> shown.CorpusView:
        """Return one corpus with its figures."""
        self.require(name, caller)
        return self._view(name, self._entries.one(name))

    def create(self, wanted: shown.NewCorpus, caller: Caller) -> shown.CorpusView:
        """Make a corpus. Raises `Conflict` if there is one of that name, and `InvalidInput` for settings that allow
        more than the instance's policy."""
        caller.may_touch(wanted.name)
        require_documents_corpus(wanted.name)
        settings = shown.CorpusSettings(**shared_fields(shown.CorpusSettings, wanted))
        self._check(wanted.name, settings)
        if self._entries.one(wanted.name) is None and self._context.readers.exists(wanted.name):
            raise Conflict(f"corpus {wanted.name!r} exists already")
        return self._view(wanted.name, self._entries.create(wanted.name, settings, caller.owner))

    def change(self, name: str, patch: shown.CorpusPatch, version: int | None, caller: Caller) -> shown.CorpusView:
        """Change settings; None among the patch's gives a setting its default. `version` is the one that the caller
        has seen. Raises `PreconditionFailed` if it is another now."""
        self.require(name, caller)
        require_documents_corpus(name)
        entry = self._entries.one(name) or CorpusEntry(name)
        if version is not None and version != entry.version:
            raise PreconditionFailed(f"corpus {name!r} has version {entry.version} now: read it again, then change it")
        given = {field: getattr(patch, field) for field in patch.model_fields_set}
        kept = {field: value for field, value in dict(entry.settings).items() if field not in given}
        settings = shown.CorpusSettings(**kept, **{field: v for field, v in given.items() if v is not None})
        self._check(name, settings)
        return self._view(name, self._entries.change(entry, settings, caller.owner))

    def state(self, name: str, caller: Caller) -> shown.CorpusState:
        """Return what is behind a corpus's figures: its generations, lags, ages of documents, and what is held back."""
        self.require(name, caller)
        context, layout = self._context, CorpusLayout(self._context.settings.index_root, name)
        reader, end = context.readers.reader(name), max(read_last_offset(layout), context.truth.reached(name))
        ages, looked_at = self._ages(name, reader)
        job = files_of(context, name).last
        has_graph = is_graphed(name) and context.readers.exists(name)
        return shown.CorpusState(
            corpus=name,
            generations=tuple(map(_generation, context.readers.generations(name))),
            journal_end=end,
            journal_lag=max(0, end - reader.stats().journal_offset),
            ages=ages,
            looked_at=looked_at,
            held=context.ledger.quarantine.count(QuarantineFilter(corpora=(name,)), MOST_COUNTED + 1),
            freshness_job_at=datetime.fromtimestamp(job.stat().st_mtime, UTC) if job.exists() else None,
            graph_behind=GraphDesk(context).unpublished(name) if has_graph else None,
        )

    def verify(self, name: str, generation: str, caller: Caller) -> shown.Generation:
        """Read every file of a generation and compare its hash; what is wrong is its `problem`. Raises `NotFound`."""
        self._has(name, generation, caller)
        self._context.ledger.console.record(caller.owner, "verify", [f"corpus:{name}"], generation)
        found = self._generation(name, generation)
        try:
            verify_generation(self._context.settings.index_root, name, generation)
        except Corrupted as error:
            return found.model_copy(update={"problem": str(error)})
        return found

    def roll_back(self, name: str, generation: str, caller: Caller, note: str) -> shown.Generation:
        """Verify a generation and serve it, until there are new records to publish. Recorded with who, when and why.

        Raises `NotFound`, and `Corrupted` if it is not as it was published; nothing is changed then.
        """
        self._has(name, generation, caller)
        self._context.ledger.console.record(
            caller.owner, "roll_back", [f"corpus:{name}"], f"{generation} {note}".strip()
        )
        self._context.readers.roll_back(name, generation)
        return self._generation(name, generation)

    def recheck(self, name: str, caller: Caller) -> RunAccepted:
        """Begin a run that requests the pages of the corpus that are due again. Recorded with who and when.

        Raises `NotFound` if none is due, and what `recheck` does.
        """
        self.require(name, caller)
        run_id = recheck(self._context, name)
        if run_id is None:
            raise NotFound(f"no page of corpus {name!r} is due to be looked at again")
        self._context.ledger.console.record(caller.owner, "recheck", [f"corpus:{name}"], run_id)
        return RunAccepted(run_id=run_id, status="open", links={"run": f"/v1/runs/{run_id}"})

    def _has(self, name: str, generation: str, caller: Caller) -> None:
        self.require(name, caller)
        if all(one.name != generation for one in self._context.readers.generations(name)):
            raise NotFound(f"corpus {name!r} has no generation {generation[:100]!r}")

    def _generation(self, name: str, generation: str) -> shown.Generation:
        known = next((one for one in self._context.readers.generations(name) if one.name == generation), None)
        if known is None:
            raise NotFound(f"generation {generation} of corpus {name!r} made way for newer ones meanwhile")
        return _generation(known)

    def _ages(self, name: str, reader: Reader) -> tuple[tuple[shown.AgeGroup, ...], int]:
        every = reader.listed("by_id") if reader.engine == "local" else reader.all_facts()  # else that reads them all
        facts = {one.document_id: one.provenance.fetched_at for one in islice(every, DOCUMENTS_AGED)}
        seen, now = self._context.page_memory.seen_at(name, tuple(facts)), datetime.now(UTC)
        days = sorted((now - max(at, seen.get(one, at))).total_seconds() / 86_400 for one, at in facts.items())
        ends = [bisect_right(days, most) for most in AGE_DAYS] + [len(days)]
        groups = zip((*AGE_DAYS, None), map(sub, ends, [0, *ends]), strict=True)
        return tuple(shown.AgeGroup(days=most, documents=count) for most, count in groups), len(days)

    def delete(self, name: str, caller: Caller, note: str) -> RunAccepted:
        """Begin a run that forgets every document of the corpus; from now on the corpus does not exist. Its open runs
        are cancelled. Raises `Overloaded` if the index's queue is full."""
        self.require(name, caller)
        require_documents_corpus(name)
        selection = Selection(everything=True)
        run = self._service.new_run("deletion", name, owner=caller.owner, is_small=True, deletes_corpus=True)
        self._context.admission.admit(run, {"index": 1})
        body = ForgetDirected(selection=selection, keep_out=False, operator=caller.owner, note=note)
        told = {"corpus": name, "everything": True, "keep_out": False, "note": note}
        note_forgotten(self._context, "delete_corpus", **told)
        first = [Entry(self._service.event_of(Next(body), run))]
        accepted = self._service.started(self._context.ledger.forgotten.forget(run, first, [], caller.owner, note))
        while others := [one for one in self._open_runs(name) if one != accepted.run_id]:
            for run_id in others:
                self._service.cancel(run_id)
        return accepted

    def export(self, name: str, caller: Caller) -> RunAccepted:
        """Begin a run that writes the corpus to an artefact, whose id is the run's `artefact` link."""
        self.require(name, caller)
        artefact_id = f"art_{secrets.token_hex(12)}"
        run = self._service.new_run("export", name, owner=caller.owner)
        accepted = self._service.begin(run, [Next(ExportDirected(artefact_id=artefact_id))])
        links = {**accepted.links, "artefact": f"/v1/artefacts/{artefact_id}"}
        return accepted.model_copy(update={"links": links})

    def bring_in(self, name: str, artefact_id: str, caller: Caller) -> RunAccepted:
        """Begin a run that writes an artefact's documents to a corpus that exists.

        Raises `NotFound` without the artefact or the corpus.
        """
        self.require(name, caller)
        require_documents_corpus(name)
        manifest = read_manifest(self.artefact(artefact_id, caller))
        run = self._service.new_run("import", name, owner=caller.owner)
        return self._service.begin(run, [Next(ImportDirected(artefact_id=artefact_id, manifest=manifest))])

    def artefact(self, artefact_id: str, caller: Caller) -> Path:
        """Return the file of an artefact. Raises `NotFound` without it, or if it is an export of a corpus that the
        caller may not see."""
        path = self._context.artefacts.path(artefact_id)
        manifest = read_manifest(path)
        if not artefact_id.startswith(UPLOADED) and not caller.may_see(manifest.corpus):
            raise NotFound(f"there is no artefact {artefact_id!r}")
        return path

    @contextmanager
    def receiving(self) -> Iterator[IO[bytes]]:
        """Yield a file to receive an artefact in; removes what `take_in` does not keep."""
        folder = self._context.artefacts.folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".received-", delete=False) as file:
            try:
                yield file
            finally:
                Path(file.name).unlink(missing_ok=True)

    def take_in(self, file: IO[bytes]) -> Artefact:
        """Keep what was received as an artefact. Raises `InvalidInput` if it is no whole export."""
        file.flush()
        received = Path(file.name)
        manifest = read_manifest(received)
        try:
            check_hashes(received, manifest)
        except (Corrupted, tarfile.TarError) as error:
            raise InvalidInput("body", f"is no whole export: {error}", "upload it again") from error
        artefact_id, size = f"{UPLOADED}{secrets.token_hex(12)}", received.stat().st_size
        self._context.artefacts.keep(received, artefact_id)
        return Artefact(id=artefact_id, bytes=size, manifest=manifest)

    def _open_runs(self, name: str) -> list[str]:
        return [one.run_id for one in self._context.ledger.runs(500, None, name, status="open")]

    def _check(self, name: str, settings: shown.CorpusSettings) -> None:
        policy = self._context.settings.trust.policy_of(name)
        for place, source in enumerate(settings.sources):
            if not policy.takes_source(source):
                remedy = f"one of {', '.join(policy.sources)}, or change trust.corpora in the instance's settings"
                raise InvalidInput(f"sources.{place}", f"{source!r} is none that the instance's policy allows", remedy)

    def require(self, name: str, caller: Caller) -> None:
        """Raise `Forbidden` or `NotFound` unless the caller may touch the corpus, and it exists."""
        caller.may_touch(name)
        self._context.readers.require(name)

    def _view(self, name: str, entry: CorpusEntry | None) -> shown.CorpusView:
        context, entry = self._context, entry or CorpusEntry(name)
        stats, policy = context.readers.reader(name).stats(), policy_of(context.settings.trust, context.ledger, name)
        return shown.CorpusView(
            name=name,
            **{field: getattr(entry, field) for field in ("version", "created_at", "created_by", "settings")},
            policy=shown.CorpusPolicyView(
                search=policy.search,
                crawl=policy.crawl,
                sources=policy.sources or None,
                forbidden_patterns=len(policy.forbidden),
            ),
            engine=stats.engine,
            documents=stats.document_count,
            chunks=stats.chunk_count,
            generation=stats.generation,
            journal_offset=stats.journal_offset,
            bytes=_size_of(CorpusLayout(context.settings.index_root, name).journal.parent),
            embedding_model=stats.model_fingerprint,
        )


def _generation(info: GenerationInfo) -> shown.Generation:
    same = {field: getattr(info, field) for field in ("name", "is_current", "journal_offset", "created_at", "problem")}
    counts = {"documents": info.document_count, "chunks": info.chunk_count, "bytes": info.size_bytes}
    return shown.Generation(**same, **counts, sha256=info.id_set_hash)


class DocumentDesk:
    """The documents of corpora, as they are served now. Every method raises `Forbidden` for a corpus that the caller
    may not touch, and `NotFound` for a corpus or a document that does not exist."""

    def __init__(self, context: Context) -> None:
        self._context, self._service = context, Service(context)
        self._trust = source_trust_of(context.settings.trust)

    def look_through(
        self,
        caller: Caller,
        corpus: str,
        where: Where | None,
        text: str | None,
        order: shown.DocumentOrder,
        limit: int,
        after: str | None,
        most: int = sys.maxsize,
    ) -> tuple[list[shown.DocumentView], str | None]:
        """Return documents that meet the condition and have `text` in title, address or id, in any case, of at most
        `most` that are read; and the position from which to go on, None at the end."""
        by, backwards = _ORDERS[order]
        listed, is_wanted = self._reader(caller, corpus).listed(by, after, backwards=backwards), self._test(where, text)
        found: list[shown.DocumentView] = []
        for count, facts in enumerate(listed, 1):
            if is_wanted(facts):
                found.append(self._view(corpus, facts))
            if len(found) == limit or count == most:
                position = facts.fetch_key if by == "by_fetch" else facts.document_id
                return found, position if next(listed, None) is not None else None
        return found, None

    def count(self, caller: Caller, corpus: str, where: Where | None, text: str | None) -> shown.DocumentCount:
        """Count the documents that meet the condition; reads every document unless there is none."""
        reader = self._reader(caller, corpus)
        if where is None and text is None:
            return shown.DocumentCount(corpus=corpus, documents=reader.document_count)
        return shown.DocumentCount(corpus=corpus, documents=sum(map(self._test(where, text), reader.all_facts())))

    def one(self, caller: Caller, corpus: str, document_id: str) -> shown.DocumentView:
        """Return one document by its id, URL or path."""
        reader, facts = self._found(caller, corpus, document_id)
        return self._view(corpus, facts).model_copy(update={"chunks": len(reader.chunks(facts.document_id))})

    def text(
        self, caller: Caller, corpus: str, document_id: str, first: int = 1, last: int | None = None
    ) -> DocumentText:
        """Return lines of the document's text. Raises as `read_document_text` does."""
        caller.may_touch(corpus)
        readers, settings = self._context.readers, self._context.settings.trust
        return read_document_text(readers, settings, corpus, document_id, first, last)

    def is_memory(self, corpus: str) -> bool:
        """Return whether a corpus is an agent's memory, which is shown to few."""
        return is_memory_corpus(corpus)

    def chunks(
        self, caller: Caller, corpus: str, document_id: str, limit: int, after: str | None
    ) -> list[shown.ChunkView]:
        """Return the document's passages in its order, private values masked."""
        reader, facts = self._found(caller, corpus, document_id)
        first, withheld = int(after) + 1 if after is not None else 0, None
        try:
            require_showable(facts, self._context.settings.trust)
        except PolicyRefused as refused:
            withheld = refused.problem
        wanted = [chunk for chunk in reader.chunks(facts.document_id) if chunk.ordinal >= first][:limit]
        return [self._shown(chunk, facts, withheld) for chunk in wanted]

    def links(self, caller: Caller, corpus: str, document_id: str) -> list[shown.LinkView]:
        """Return the links of the document's passages that are shown, in its order."""
        reader, facts = self._found(caller, corpus, document_id)
        links = [link for chunk in reader.chunks(facts.document_id) if not _is_blocked(chunk) for link in chunk.links]
        targets = {link.url: document_id_for(link.url) for link in links}
        there = reader.documents(list(targets.values()))
        return [
            shown.LinkView(
                url=link.url,
                words=link.words,
                line=link.line,
                document_id=target if (target := targets[link.url]) in there else None,
            )
            for link in links
        ]

    def amend(self, caller: Caller, corpus: str, document_id: str, patch: shown.DocumentPatch) -> RunAccepted:
        """Begin a run that changes the document's metadata: a new version with the same passages and vectors. Raises
        `PolicyRefused` if the corpus is an agent's memory."""
        _, facts = self._found(caller, corpus, document_id)
        require_documents_corpus(corpus)
        run = self._service.new_run("documents", corpus, owner=caller.owner, is_small=True)
        body = DocumentAmended(document_id=facts.document_id, metadata=patch.metadata)
        return self._service.begin(run, [Next(body)])

    def _reader(self, caller: Caller, corpus: str) -> Reader:
        caller.may_touch(corpus)
        self._context.readers.require(corpus)
        return self._context.readers.existing(corpus)

    def _found(self, caller: Caller, corpus: str, document_id: str) -> tuple[Reader, DocumentFacts]:
        self._reader(caller, corpus)
        return find_document(self._context.readers, corpus, document_id)

    def _test(self, where: Where | None, text: str | None) -> Matches:
        meets = matcher(where, self._trust, datetime.now(UTC)) if where is not None else None
        sought = text.casefold() if text else ""

        def is_wanted(facts: DocumentFacts) -> bool:
            names = (facts.title, facts.url, facts.file_path, facts.document_id)
            has_text = not sought or any(sought in name.casefold() for name in names if name)
            return has_text and (meets is None or meets(facts))

        return is_wanted

    def _view(self, corpus: str, facts: DocumentFacts) -> shown.DocumentView:
        settings, provenance = self._context.settings.trust, facts.provenance
        title = facts.title and mask_label(facts.title, settings.mask, build_finder(settings))
        own = shared_fields(shown.DocumentView, facts) | shared_fields(shown.DocumentView, provenance)
        told = {"id": facts.document_id, "corpus": corpus, "title": title}
        trust = round(score(facts, self._trust, datetime.now(UTC)), 4)
        return shown.DocumentView(**{**own, **told, "trust": trust})

    def _shown(self, chunk: Chunk, facts: DocumentFacts, withheld: str | None) -> shown.ChunkView:
        withheld = "the guard withholds it" if _is_blocked(chunk) else withheld
        private = chunk.inspection.private if chunk.inspection else ()
        told = JoinedText(text=chunk.text, left_out=(), private=private)
        text = None if withheld else shown_text(told, facts, self._context.settings.trust).text
        own = shared_fields(shown.ChunkView, chunk)
        return shown.ChunkView(**{**own, "text": text, "withheld": withheld})


def _is_blocked(chunk: Chunk) -> bool:
    return chunk.inspection is not None and chunk.inspection.verdict is Verdict.BLOCKED


def _is_shown(name: str, caller: Caller) -> bool:
    return caller.may_see(name) and not is_memory_corpus(name)


def _size_of(folder: Path) -> int:
    """Return the bytes of the files below a folder; a file of two names counts once."""
    return sum({facts.st_ino: facts.st_size for facts in _files_below(folder)}.values())


def _files_below(folder: Path) -> Iterator[os.stat_result]:
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.lstat(os.path.join(place, name))
            except FileNotFoundError:  # collected meanwhile
                continue
