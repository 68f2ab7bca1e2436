"""The text of a document as it is indexed, line by line: what a reader of a citation opens."""

from __future__ import annotations

from collections.abc import Iterable

from contracts.api import DocumentText, Lines
from contracts.errors import InvalidInput, NotFound, PolicyRefused
from contracts.trust import PrivateSpan
from index.search.document_text import join_chunks
from workers.wiring.corpora import CorpusReaders

MASK = "█"


def read_document_text(
    readers: CorpusReaders, corpus: str, document_id: str, start_line: int = 1, end_line: int | None = None
) -> DocumentText:
    """Lines `start_line` to `end_line` (inclusive, from 1; to the end by default), as citations number them.

    Secrets are masked, and lines of passages that the guard blocks are empty and named; neither changes a number.

    Raises:
        NotFound: nothing was written to the corpus, or it holds no such document.
        InvalidInput: the text has no such lines.
        PolicyRefused: the site asks that no text of the page be shown.
    """
    reader = readers.existing(corpus)
    facts = reader.document(document_id)
    if facts is None:
        raise NotFound(f"corpus {corpus!r} holds no document {document_id!r}")
    if facts.provenance.nosnippet:
        raise PolicyRefused("nosnippet", "the site asks that no text of this page be shown", f"read it at {facts.url}")
    joined = join_chunks(reader.chunks(document_id))
    lines = masked(joined.text, joined.private).split("\n")
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
        title=facts.title,
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


def masked(text: str, spans: Iterable[PrivateSpan]) -> str:
    """`text` with a mark for each character of a secret but its line breaks, so that lines keep their numbers."""
    parts: list[str] = []
    done = 0
    for span in sorted((span for span in spans if span.is_secret), key=lambda one: one.start):
        start = max(done, span.start)
        hidden = text[start : span.end]
        parts += (text[done:start], "".join(letter if letter == "\n" else MASK for letter in hidden))
        done = max(done, span.end)
    return "".join((*parts, text[done:]))
