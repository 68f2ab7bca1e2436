"""The evidence of one citation, what an operator does about a bad one, and our copies of documents: their text by the
lines that citations name, and their passages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from fastapi import Response

from sluice.api.access import CONSOLE
from sluice.api.console.frame import Operating, Visiting, pages
from sluice.contracts.api import DocumentText
from sluice.contracts.errors import InvalidInput, PolicyRefused
from sluice.contracts.learning.passages import PassageReason
from sluice.contracts.operations.evidence import EvidenceView, Span

evidence, documents = pages(), pages()
ADDRESS = "/runs/{run_id}/evidence/{number}"
REASONS: dict[str, PassageReason] = {
    "wrong": "wrong",
    "outdated": "outdated",
    "off topic": "off_topic",
    "attack": "attack",
    "duplicate": "duplicate",
}
"""Why a passage is bad, in words, and as feedback says it."""
MOST_LINES, AROUND, MOST_CHUNKS = 500, 60, 200
"""Lines and passages of a page, and the lines above the cited ones on it."""
_LINES = re.compile(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?")


@evidence.get(ADDRESS)
def one(visit: Visiting, run_id: str, number: int) -> Response:
    """Show what one citation rests on."""
    found = visit.instance.evidence.one(run_id, number, visit.caller)
    return visit.show(
        "evidence.html",
        one=found,
        pieces=list(pieces(found.snippet, found.matched)),
        copy=copy_of(found),
        reasons=list(REASONS),
    )


def copy_of(found: EvidenceView) -> str:
    """Return the address, below the console's, of our copy of the document at the cited lines."""
    document, lines = quote(found.document_id, safe=""), f"{found.start_line}-{found.end_line}"
    return f"documents/{found.corpus}/{document}?lines={lines}#L{found.start_line}-L{found.end_line}"


def pieces(text: str, spans: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a text in order, and whether each is a matched word."""
    at = 0
    for span in spans:
        yield text[at : span.start], False
        yield text[span.start : span.end], True
        at = span.end
    yield text[at:], False


@evidence.post(ADDRESS + "/bad")
def bad(visit: Operating, run_id: str, number: int) -> Response:
    """Record that the passage is bad evidence."""
    reason = REASONS.get(visit.form.get("reason", ""))
    if reason is None:
        raise InvalidInput("reason", f"say why: {', '.join(REASONS)}")
    follows = visit.instance.evidence.mark(run_id, number, visit.caller, reason, visit.note())
    return visit.done(f"It is recorded. In later answers the passage loses a share of its score and trust. {follows}")


@evidence.post(ADDRESS + "/distrust")
def distrust(visit: Operating, run_id: str, number: int) -> Response:
    """Keep the source out from now on."""
    kept_out = visit.instance.evidence.keep_out_source(run_id, number, visit.caller, visit.note())
    return visit.done(f"{kept_out} is on the negative list: nothing of it comes in any more. What is there stays.")


@evidence.post(ADDRESS + "/forget")
def forget(visit: Operating, run_id: str, number: int) -> Response:
    """Forget the cited document, once the operator has typed so."""
    if visit.form.get("typed", "").strip() != "forget":
        raise InvalidInput("typed", "type forget: the document goes with every trace of it, and is kept out")
    run = visit.instance.evidence.forget(run_id, number, visit.caller, visit.note())
    return visit.done("The document is forgotten once this run is finished.", f"{CONSOLE}/runs/{run.run_id}")


class Line(NamedTuple):
    """A line of a text; `anchor` names the cited lines that begin with it."""

    number: int
    text: str
    is_cited: bool
    is_withheld: bool
    anchor: str


@documents.get("/documents/{corpus}/{document_id:path}")
def document(
    visit: Visiting, corpus: str, document_id: str, lines: str = "", begins: int = 0, chunks: int = 0
) -> Response:
    """Show a document, the lines `12-30` marked; text that the guard or its site withholds stays so."""
    first, last = _cited(lines)
    desk, caller = visit.instance.documents, visit.caller
    if desk.is_memory(corpus):
        caller.may_touch(corpus)
        visit.looked("memory_read", f"document:{corpus}:{document_id}"[:500])
    facts = desk.one(caller, corpus, document_id)
    start = begins if begins > 0 else max(1, first - AROUND)
    text, withheld = None, ""
    try:
        text = desk.text(caller, corpus, document_id, start, start + MOST_LINES - 1)
    except InvalidInput:  # it is shorter by now
        start = 1
        text = desk.text(caller, corpus, document_id, start, MOST_LINES)
    except PolicyRefused as refused:
        withheld = refused.problem
    passages = desk.chunks(caller, corpus, document_id, MOST_CHUNKS + 1, str(chunks - 1) if chunks > 0 else None)
    return visit.show(
        "document.html",
        document=facts,
        text=text,
        lines=[] if text is None else _lines_of(text, first, last),
        withheld=withheld,
        chunks=passages[:MOST_CHUNKS],
        more_chunks=passages[MOST_CHUNKS].ordinal if len(passages) > MOST_CHUNKS else 0,
        cited=lines if first else "",
        above=max(1, start - MOST_LINES) if start > 1 else 0,
        below=start + MOST_LINES if text is not None and text.end_line < text.line_count else 0,
    )


def _cited(lines: str) -> tuple[int, int]:
    """Return the first and the last of the lines that are to be marked; (0, 0) for none."""
    if not lines:
        return 0, 0
    found = _LINES.fullmatch(lines)
    if not found:
        raise InvalidInput("lines", f"{lines[:50]!r} names no lines", "as in 12-30")
    first = int(found[1])
    return first, max(first, int(found[2] or first))


def _lines_of(text: DocumentText, first: int, last: int) -> list[Line]:
    left_out = {number for part in text.left_out for number in range(part.start_line, part.end_line + 1)}
    return [
        Line(
            number=number,
            text=line,
            is_cited=first <= number <= last,
            is_withheld=number in left_out,
            anchor=f"L{first}-L{last}" if number == first else "",
        )
        for number, line in enumerate(text.text.split("\n"), text.start_line)
    ]


ROUTERS = (evidence, documents)
