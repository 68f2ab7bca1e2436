"""Documents at the doors: submitted ones are checked field by field and batched; the text of indexed ones is read by
lines.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from pydantic_core import PydanticSerializationError

from sluice.contracts.api import DocumentText, Lines, SubmittedDocument
from sluice.contracts.base import Value
from sluice.contracts.document import Document, DocumentFacts, Provenance, document_id_for, is_publication_date
from sluice.contracts.errors import InvalidInput, NotFound, PolicyRefused
from sluice.contracts.index import Answer
from sluice.contracts.learning.passages import PassageFeedback, PassageMarked, Standing
from sluice.index.search.passages import JoinedText, join_chunks
from sluice.ingest.extract.media_types import media_type_for
from sluice.ingest.url import normalise_url
from sluice.otel import metrics
from sluice.text.batches import in_batches
from sluice.trust.private.mask import SECRET, Masked, is_current, is_masked, mask, mask_label
from sluice.trust.private.patterns import build_finder
from sluice.trust.settings import TrustSettings
from sluice.trust.signature import problem_with
from sluice.trust.snippets import snippet_length
from sluice.trust.source_trust import is_derived_id, submission_id_for
from sluice.workers.wiring.corpora import CorpusReaders, Reader

DOCUMENTS_PER_EVENT = 64
"""Documents that travel together: enough to pay a hop and a publish once, few enough to lose little to a crash."""
CHARACTERS_PER_EVENT = 16_000
"""Text that travels together, unless one document is longer: about one portion of the embed stage (4,000 tokens), so
that the first submitted is found first. Larger batches would take turns portion by portion, and end together."""
SMALL_DOCUMENTS, SMALL_CHARACTERS = 8, 20_000
"""Largest submission that precedes bulk: a second of the local model on one core (5,000 tokens)."""


def may_precede_bulk(sizes: Sequence[int]) -> bool:
    """Return whether a submission of documents of these sizes, in characters or bytes, is small enough for that."""
    return len(sizes) <= SMALL_DOCUMENTS and sum(sizes) <= SMALL_CHARACTERS


def batches_of(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Yield batches of documents that travel together."""
    return in_batches(documents, lambda one: one.size, most_items=DOCUMENTS_PER_EVENT, most_size=CHARACTERS_PER_EVENT)


def encoded(field: str, value: Value) -> str:
    """Return the JSON of a submission; refuse half a surrogate pair, which Python's own JSON lets in."""
    try:
        return value.model_dump_json()
    except PydanticSerializationError as error:
        raise InvalidInput(field, f"holds what is not Unicode: {error}", "send valid UTF-8") from error


def usable_url(field: str, url: str) -> str:
    """Return the URL in the form in which it is kept. Raises `InvalidInput`, naming `field`, if it cannot be used."""
    try:
        return normalise_url(url)
    except InvalidInput as error:
        raise InvalidInput(field, error.problem, error.remedy) from error


def require_chunks_of(answer: Answer | None, chunk_ids: Sequence[str]) -> None:
    """Raise `InvalidInput`, naming its position, if a chunk id of the feedback is not among the answer's chunks."""
    given = {chunk.chunk_id for chunk in answer.chunks} if answer else set()
    for position, chunk_id in enumerate(chunk_ids):
        if chunk_id not in given:
            problem = f"{chunk_id!r} is no chunk of the run's answer" if answer else "the run has no answer"
            raise InvalidInput(f"chunk_ids_used.{position}", problem, "send chunk ids from the run's answer.chunks")


def marks_of(
    answer: Answer | None, passages: Sequence[PassageFeedback], owner: str, standing: Standing
) -> list[PassageMarked]:
    """Return the marks on passages of an answer by the key `owner`.

    Raises `InvalidInput`, with its position, for a passage that the answer does not cite or hold, or that is named
    twice. The URL of a submission is only a claim, and no mark on its page.
    """
    chunks = {chunk.chunk_id: chunk for chunk in answer.chunks} if answer else {}
    cited = {citation.number: citation.chunk_id for citation in answer.citations} if answer else {}
    marks: dict[str, PassageMarked] = {}
    for position, one in enumerate(passages):
        chunk = chunks.get((one.chunk_id if one.citation is None else cited.get(one.citation)) or "")
        field = f"passages.{position}." + ("chunk_id" if one.citation is None else "citation")
        if chunk is None or chunk.chunk_id in marks:
            told = one.citation or repr(one.chunk_id)
            problem = f"{told} names a passage again" if chunk else f"the run's answer has no passage {told}"
            numbers = ", ".join(map(str, cited)) or "none"
            raise InvalidInput(field, problem, f"name each passage once, by its citation's number ({numbers})")
        marks[chunk.chunk_id] = PassageMarked(
            chunk_id=chunk.chunk_id,
            document_id=chunk.document_id,
            url=chunk.url if chunk.provenance.source in ("crawl", "search") else None,
            owner=owner,
            standing=standing,
            **{name: getattr(one, name) for name in ("verdict", "reason", "note")},
        )
    return list(marks.values())


def has_content(submitted: SubmittedDocument) -> bool:
    """Return whether the submission has content, be it empty: then it is the document, and its URL is not crawled."""
    return any(part is not None for part in (submitted.text, submitted.html, submitted.data))


def document_of(
    index: int,
    submitted: SubmittedDocument,
    now: datetime,
    submitter: str | None = None,
    keys: Mapping[str, str] = MappingProxyType({}),
    *,
    by_operator: bool = False,
) -> Document:
    """Make the document at `index` of a submission.

    `submitter` is the id of the API key of the request, `by_operator` says that its role is operator; `keys` are the
    public keys that signatures are verified by.

    Its URL and its path are what the sender claims, so without an id of its own its id follows from them and from the
    sender: the same sender's later version replaces it, and it replaces nothing else.

    Raises:
        InvalidInput: its URL or its data cannot be read, its id is one that is derived from an address, or its
            signature is not valid.
    """
    url = usable_url(f"documents.{index}.url", submitted.url) if submitted.url else None
    source = url or submitted.file_path
    own_id = submission_id_for(submitter, source or "")
    if submitted.id and submitted.id != own_id and is_derived_id(submitted.id):
        problem = f"{submitted.id} has the form of ids that follow from an address"
        remedy = "leave the id out: the same url or file_path then names the same document; or choose another id"
        raise InvalidInput(f"documents.{index}.id", problem, remedy)
    data = None
    if submitted.data is not None:
        try:
            data = base64.b64decode(submitted.data, validate=True)
        except ValueError as error:
            raise InvalidInput(f"documents.{index}.data", "not base64", "send base64 (RFC 4648)") from error
    text = submitted.text if submitted.text is not None else submitted.html
    media_type = submitted.media_type or _media_type(submitted, text or "")
    if submitted.signature:
        content = data if data is not None else (text or "").encode("utf-8", "surrogatepass")
        if wrong := problem_with(submitted.signature, content, source, keys):
            raise InvalidInput(f"documents.{index}.signature", *wrong)
    return Document(
        id=submitted.id or own_id,
        url=url,
        file_path=submitted.file_path,
        title=submitted.title,
        media_type=media_type,
        text=text if data is None else None,
        data=base64.b64encode(data) if data is not None else None,
        metadata=submitted.metadata,
        provenance=Provenance(
            source="submission",
            fetched_at=now,
            published_at=submitted.published_at if is_publication_date(submitted.published_at, now) else None,
            author=submitted.author,
            submitted_by=submitter,
            by_operator=by_operator,
            signed_by=submitted.signature.key_id if submitted.signature else None,
        ),
    )


def _media_type(submitted: SubmittedDocument, text: str) -> str:
    if submitted.html is not None:
        return "text/html"
    if submitted.file_path:
        return media_type_for(submitted.file_path, text[:512].encode())
    return "text/markdown"


def read_document_text(
    readers: CorpusReaders,
    settings: TrustSettings,
    corpus: str,
    document_id: str,
    start_line: int = 1,
    end_line: int | None = None,
) -> DocumentText:
    """Return lines `start_line` to `end_line` (inclusive, from 1; to the end by default), as citations number them.

    `document_id` may also be the document's URL or path. Values that the settings name are masked. Lines of passages
    that the guard blocks are empty and listed; line numbers stay.

    Raises:
        NotFound: nothing was written to the corpus, or it holds no such document.
        InvalidInput: the text has no such lines.
        PolicyRefused: the site or the licence asks that no text of the page be shown, or only a snippet.
    """
    reader, facts = find_document(readers, corpus, document_id)
    require_showable(facts, settings)
    joined = join_chunks(reader.chunks(facts.document_id))
    lines = shown(joined, facts, settings).text.split("\n")
    last = len(lines) if end_line is None else min(end_line, len(lines))
    if start_line > len(lines):
        raise InvalidInput("start_line", f"the text has {len(lines)} lines", f"1 to {len(lines)}")
    if last < start_line:
        raise InvalidInput("end_line", "is before start_line", f"{start_line} or more")
    return DocumentText(
        document_id=facts.document_id,
        corpus=corpus,
        url=facts.url,
        file_path=facts.file_path,
        title=facts.title and mask_label(facts.title, settings.mask, build_finder(settings)),
        origin=facts.provenance.origin,
        fetched_at=facts.provenance.fetched_at,
        start_line=start_line,
        end_line=last,
        line_count=len(lines),
        text="\n".join(lines[start_line - 1 : last]),
        left_out=tuple(
            Lines(start_line=max(start, start_line), end_line=min(end, last))
            for start, end in joined.left_out
            if start <= last and end >= start_line
        ),
    )


def find_document(readers: CorpusReaders, corpus: str, document_id: str) -> tuple[Reader, DocumentFacts]:
    """Return a document by its id, URL or path, and the reader that has it. Raises `NotFound`."""
    reader = readers.existing(corpus)
    facts = reader.document(document_id) or reader.document(document_id_for(document_id))
    if facts is None:
        raise NotFound(f"corpus {corpus!r} holds no document {document_id!r}")
    return reader, facts


def require_showable(facts: DocumentFacts, settings: TrustSettings) -> None:
    """Raise `PolicyRefused` if the site or the licence asks that no text of it be shown, or only a snippet."""
    if facts.provenance.nosnippet:
        raise PolicyRefused("nosnippet", "the site asks that no text of this page be shown", f"read it at {facts.url}")
    if (limit := snippet_length(facts.provenance, facts.metadata, settings.snippet_licences)) is not None:
        why = f"at most {limit} characters of a passage may be shown of this document"
        raise PolicyRefused("snippet", why, f"read it at {facts.url or facts.file_path}")


def shown(joined: JoinedText, facts: DocumentFacts, settings: TrustSettings) -> Masked:
    """Return the text with private values masked. If other rules inspected the document, it is searched again."""
    finder = build_finder(settings)
    is_searched = is_current(facts.inspected_by, finder)
    private = joined.private if is_searched or not settings.mask else tuple(finder.find(joined.text))
    for span in private:
        if is_masked(span, settings.mask):
            metrics.MASKED.labels(SECRET if span.is_secret else span.kind).inc()
    return mask(joined.text, private, settings.mask)
