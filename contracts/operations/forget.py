"""Forgetting documents: the selection, the proof, and the negative list that keeps them out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sluice.contracts.base import CorpusName, LaterText, Moment, Value, is_none
from sluice.contracts.document import document_id_for, snippet_id_for
from sluice.contracts.filters import LaterWhere, Where, compare
from sluice.contracts.operations.dead_letters import Note
from sluice.contracts.retrieval import Filters

ForgottenKind = Literal["url", "url_prefix", "document_id", "run_id", "submitted_by", "checksum"]
"""The kind of a negative list entry: documents of one URL, of a URL prefix, one document, a run's documents, an API
key's submissions, one content (the SHA-256 of a document's version)."""

_COMPARED = {"url_prefix": ("url", "prefix"), "document_id": ("id", "eq")}

Told = Annotated[str | None, Field(min_length=1, max_length=4_096, exclude_if=is_none)]


class Selection(Value):
    """A selection of documents: exactly one field is set."""

    url: Told = None
    url_prefix: Told = None
    document_id: Told = None
    run_id: Told = None
    submitted_by: Told = None
    """The id of the API key that submitted them."""
    filters: Annotated[Filters | None, Field(exclude_if=is_none)] = None
    where: LaterWhere = None
    """A condition in the filter language, as JSON or as text."""
    everything: Annotated[Literal[True] | None, Field(exclude_if=is_none)] = None
    """The whole corpus, with its entry: what `DELETE /v1/corpora/{corpus}` directs."""

    @model_validator(mode="after")
    def _names_one(self) -> Selection:
        named = [name for name in Selection.model_fields if getattr(self, name) is not None]
        if len(named) != 1:
            choice = ", ".join(Selection.model_fields)
            raise ValueError(f"give exactly one of {choice}; {len(named)} are given")
        if self.filters is not None and self.condition is None:
            raise ValueError("filters hold no condition: that would be every document")
        return self

    @property
    def condition(self) -> Where | None:
        """Return the selection's condition in the filter language; None for everything."""
        if self.named is not None:
            kind, value = self.named
            field, operator = _COMPARED.get(kind, (kind, "eq"))
            return compare(field, operator, value)
        return self.where if self.filters is None else self.filters.condition

    @property
    def named(self) -> tuple[ForgottenKind, str] | None:
        """Return the selection's entry in a negative list; None for filters, whose documents are listed one by one."""
        kinds: tuple[ForgottenKind, ...] = ("url", "url_prefix", "document_id", "run_id", "submitted_by")
        told = ((kind, getattr(self, kind)) for kind in kinds)
        return next(((kind, value) for kind, value in told if value is not None), None)

    @property
    def document_ids(self) -> tuple[str, ...]:
        """Return the ids that follow without the corpus: the named one, or those of a page and its snippet."""
        if self.url is not None:
            return document_id_for(self.url), snippet_id_for(self.url)
        return (self.document_id,) if self.document_id is not None else ()


class ForgetRequest(Selection):
    """`DELETE /v1/documents`: remove documents with every trace of them, and with `keep_out` for good."""

    corpus: CorpusName = "default"
    keep_out: bool = True
    """Whether to add them to the negative list, so that they are neither crawled nor accepted again."""
    note: Note = ""

    @property
    def selection(self) -> Selection:
        """Return the selection alone."""
        return Selection(**{name: getattr(self, name) for name in Selection.model_fields})


class ForgottenEntry(Value):
    """An entry of the negative list."""

    id: str
    corpus: CorpusName
    kind: ForgottenKind
    value: str
    at: Moment
    operator: str
    note: str


class NewEntry(Value):
    """`POST /v1/forgotten`: an entry for documents that are not (or no longer) in the corpus."""

    corpus: CorpusName = "default"
    kind: ForgottenKind
    value: Annotated[str, Field(min_length=1, max_length=4_096)]
    note: Note = ""


class Trace(Value):
    """A searched place, the number of items searched, and the traces found."""

    place: str
    looked_at: int
    found: tuple[str, ...] = ()
    detail: LaterText = None


class WouldForget(Value):
    """`POST /v1/forget?dry_run=true`: what would be forgotten of what is served now."""

    corpus: CorpusName
    documents: int
    examples: tuple[str, ...]
    """The first of their ids, in order."""


class ForgetProof(Value):
    """The remaining traces of forgotten documents, by place."""

    corpus: CorpusName
    selection: Selection
    traces: tuple[Trace, ...]

    @property
    def is_proven(self) -> bool:
        """Return whether there are no traces anywhere."""
        return not any(trace.found for trace in self.traces)
