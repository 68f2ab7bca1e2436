"""Un-ingest on request: documents go with every trace of them, and the negative list keeps them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sluice.contracts.api import RunAccepted
from sluice.contracts.errors import InvalidInput, NotFound
from sluice.contracts.ingest import ForgetDirected
from sluice.contracts.operations.forget import (
    ForgetProof,
    ForgetRequest,
    ForgottenEntry,
    ForgottenKind,
    NewEntry,
    Selection,
)
from sluice.contracts.outcome import Next
from sluice.index.search.selection import is_selected
from sluice.ledger.events.outbox import Entry
from sluice.workers.context import Context
from sluice.workers.service.caller import Caller
from sluice.workers.service.service import Service
from sluice.workers.service.submissions import usable_url
from sluice.workers.service.trust.forget_proof import prove

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
        created = self._forgotten.forget(run, first, entries, caller.owner, request.note)
        self._context.transport.publish(created.events)
        self._context.transport.announce(created.events)
        links = {"run": f"/v1/runs/{created.run_id}", "events": f"/v1/runs/{created.run_id}/events"}
        return RunAccepted(run_id=created.run_id, status=created.status, links=links)

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
