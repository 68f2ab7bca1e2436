"""Un-ingest: what is to be forgotten, and the negative list that keeps it out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sluice.contracts.base import CorpusName, LaterText, Moment, Value, is_none
from sluice.contracts.document import document_id_for, snippet_id_for
from sluice.contracts.operations.dead_letters import Note
from sluice.contracts.retrieval import Filters

ForgottenKind = Literal["url", "url_prefix", "document_id", "run_id", "submitted_by", "checksum"]
"""What an entry of the negative list names: documents of one URL, of URLs that begin so, one document, what a run
brought, what an API key handed in, one content (the SHA-256 of a document's version)."""

Told = Annotated[str | None, Field(min_length=1, max_length=4_096, exclude_if=is_none)]


class Selection(Value):
    """Which documents: exactly one of these says it."""

    url: Told = None
    url_prefix: Told = None
    document_id: Told = None
    run_id: Told = None
    submitted_by: Told = None
    """The id of the API key that handed them in."""
    filters: Annotated[Filters | None, Field(exclude_if=is_none)] = None

    @model_validator(mode="after")
    def _names_one(self) -> Selection:
        named = [name for name in Selection.model_fields if getattr(self, name) is not None]
        if len(named) != 1:
            choice = ", ".join(Selection.model_fields)
            raise ValueError(f"give exactly one of {choice}; {len(named)} are given")
        if self.filters is not None and self.filters == Filters():
            raise ValueError("filters hold no condition: that would be every document")
        return self

    @property
    def named(self) -> tuple[ForgottenKind, str] | None:
        """What a negative list says of it; None for filters, whose documents it names one by one."""
        kinds: tuple[ForgottenKind, ...] = ("url", "url_prefix", "document_id", "run_id", "submitted_by")
        told = ((kind, getattr(self, kind)) for kind in kinds)
        return next(((kind, value) for kind, value in told if value is not None), None)

    @property
    def document_ids(self) -> tuple[str, ...]:
        """The ids that follow from it, whatever a corpus holds: the named one, or those of a page and its snippet."""
        if self.url is not None:
            return document_id_for(self.url), snippet_id_for(self.url)
        return (self.document_id,) if self.document_id is not None else ()


class ForgetRequest(Selection):
    """`DELETE /v1/documents`: remove documents with every trace of them, and with `keep_out` for good."""

    corpus: CorpusName = "default"
    keep_out: bool = True
    """Whether the negative list names them, so that they are neither crawled nor taken in again."""
    note: Note = ""

    @property
    def selection(self) -> Selection:
        """Which documents."""
        return Selection(**{name: getattr(self, name) for name in Selection.model_fields})


class ForgottenEntry(Value):
    """A line of the negative list."""

    id: str
    corpus: CorpusName
    kind: ForgottenKind
    value: str
    at: Moment
    operator: str
    note: str


class NewEntry(Value):
    """`POST /v1/forgotten`: something to be kept out that is not (any more) in the corpus."""

    corpus: CorpusName = "default"
    kind: ForgottenKind
    value: Annotated[str, Field(min_length=1, max_length=4_096)]
    note: Note = ""


class Trace(Value):
    """A place in which something was looked for, how much of it was looked at, and what was found."""

    place: str
    looked_at: int
    found: tuple[str, ...] = ()
    detail: LaterText = None


class Meant(Value):
    """`POST /v1/forgotten/count`: how many of the documents that are served now a request to forget means."""

    documents: int


class ForgetProof(Value):
    """What is left of forgotten documents: nothing, or where."""

    corpus: CorpusName
    selection: Selection
    traces: tuple[Trace, ...]

    @property
    def is_proven(self) -> bool:
        """Whether nothing was found anywhere."""
        return not any(trace.found for trace in self.traces)
