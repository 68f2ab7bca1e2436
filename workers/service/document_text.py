"""The indexed text of a document, line by line, for a reader who opens a citation."""

from __future__ import annotations

from sluice.contracts.api import DocumentText, Lines
from sluice.contracts.document import DocumentFacts, document_id_for
from sluice.contracts.errors import InvalidInput, NotFound, PolicyRefused
from sluice.index.search.passages import JoinedText, join_chunks
from sluice.otel import metrics
from sluice.trust.private.mask import SECRET, is_current, is_masked, mask, mask_label
from sluice.trust.private.patterns import build_finder
from sluice.trust.settings import TrustSettings
from sluice.trust.snippets import snippet_length
from sluice.workers.wiring.corpora import CorpusReaders


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
    reader = readers.existing(corpus)
    if not reader.has_document(document_id):
        document_id = document_id_for(document_id)
    facts = reader.document(document_id)
    if facts is None:
        raise NotFound(f"corpus {corpus!r} holds no document {document_id!r}")
    if facts.provenance.nosnippet:
        raise PolicyRefused("nosnippet", "the site asks that no text of this page be shown", f"read it at {facts.url}")
    if (limit := snippet_length(facts.provenance, facts.metadata, settings.snippet_licences)) is not None:
        why = f"at most {limit} characters of a passage may be shown of this document"
        raise PolicyRefused("snippet", why, f"read it at {facts.url or facts.file_path}")
    joined = join_chunks(reader.chunks(document_id))
    lines = _shown(joined, facts, settings).split("\n")
    last = len(lines) if end_line is None else min(end_line, len(lines))
    if start_line > len(lines):
        raise InvalidInput("start_line", f"the text has {len(lines)} lines", f"1 to {len(lines)}")
    if last < start_line:
        raise InvalidInput("end_line", "is before start_line", f"{start_line} or more")
    return DocumentText(
        document_id=document_id,
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


def _shown(joined: JoinedText, facts: DocumentFacts, settings: TrustSettings) -> str:
    """Return the text with private values masked. If other rules inspected the document, it is searched again."""
    finder = build_finder(settings)
    is_searched = is_current(facts.inspected_by, finder)
    private = joined.private if is_searched or not settings.mask else tuple(finder.find(joined.text))
    for span in private:
        if is_masked(span, settings.mask):
            metrics.MASKED.labels(SECRET if span.is_secret else span.kind).inc()
    return mask(joined.text, private, settings.mask).text
