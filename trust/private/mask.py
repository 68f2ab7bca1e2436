"""Masks private data in shown texts: `[card]`, `[secret: github-pat]` in place of the value.

A mask stays on the value's line, and a value of several lines leaves as many lines, so that cited lines stay right.
Spans come from the inspection at ingest; headings and facts of a document, which are short and were not inspected, are
searched here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sluice.contracts.retrieval import Retrieval, RetrievedChunk
from sluice.contracts.trust import Inspection, PrivateSpan
from sluice.trust.private.patterns import PatternFinder

ALL, SECRET = "all", "secret"
_MAY_HOLD = re.compile(r"[\d@]|://|\S{20}")
"""A heading without any of these holds no text that the patterns find."""


@dataclass(frozen=True, slots=True)
class Masked:
    """A text after masking, and the edits that map its offsets."""

    text: str
    edits: tuple[tuple[int, int, int], ...]
    """(start, end) in the text before, and the length of the replacement; in order."""

    def moved(self, offset: int) -> int:
        """Return the new offset of a character of the text before; for a masked one, the start of the mask."""
        shift = 0
        for start, end, length in self.edits:
            if offset < end:
                return min(offset, start) + shift
            shift += length - (end - start)
        return offset + shift

    def moved_end(self, offset: int) -> int:
        """Return the new end of a span that ended before `offset`."""
        shift = 0
        for start, end, length in self.edits:
            if offset <= start:
                break
            if offset < end:
                return start + length + shift
            shift += length - (end - start)
        return offset + shift


def placeholder(kind: str) -> str:
    """Return the placeholder of a value of this kind."""
    group, _, rule = kind.partition(".")
    return f"[{group}: {rule}]" if rule else f"[{kind}]"


def is_masked(span: PrivateSpan, kinds: Sequence[str]) -> bool:
    """Return whether the kinds to mask include the span: by its kind, as a secret, or as `all`."""
    return ALL in kinds or span.kind in kinds or (span.is_secret and SECRET in kinds)


def mask(text: str, spans: Sequence[PrivateSpan], kinds: Sequence[str]) -> Masked:
    """Return the text with a placeholder for each span of these kinds. The spans are in order and do not overlap."""
    pieces: list[str] = []
    edits: list[tuple[int, int, int]] = []
    at = 0
    for span in spans:
        start, end = max(span.start, at), min(span.end, len(text))
        if start >= end or not is_masked(span, kinds):
            continue
        instead = placeholder(span.kind) + "\n" * text.count("\n", start, end)
        pieces += [text[at:start], instead]
        edits.append((start, end, len(instead)))
        at = end
    return Masked("".join([*pieces, text[at:]]), tuple(edits))


def hide(text: str, kinds: Sequence[str], finder: PatternFinder) -> str:
    """Return the text for an outside service: searched and masked."""
    return mask(text, finder.find(text), kinds).text if kinds else text


def mask_chunk(
    chunk: RetrievedChunk, kinds: Sequence[str], finder: PatternFinder, count: Counter[str] | None = None
) -> RetrievedChunk:
    """Return the chunk masked for display. A chunk inspected by other rules is searched again by the present ones.

    Spans and findings of its inspection then refer to the shown text. `count` gets the masked values, by kind.
    """
    if not kinds:
        return chunk
    inspection = chunk.inspection or Inspection()
    private = inspection.private if is_current(chunk.inspected_by, finder) else _search(finder, chunk.text)
    masked = mask(chunk.text, private, kinds)
    changes: dict[str, object] = _mask_facts(chunk, lambda text: mask_label(text, tuple(kinds), finder))
    if masked.edits:
        changes["text"] = masked.text
        if count is not None:
            count.update(SECRET if span.is_secret else span.kind for span in private if is_masked(span, kinds))
    if masked.edits or private != inspection.private:
        changes["inspection"] = _moved(inspection, private, masked)
    return chunk.model_copy(update=changes) if changes else chunk


def mask_retrieval(found: Retrieval, kinds: Sequence[str], finder: PatternFinder) -> tuple[Retrieval, Counter[str]]:
    """Return the retrieval masked for display, and the number of masked values of each kind."""
    count: Counter[str] = Counter()
    chunks = tuple(mask_chunk(chunk, kinds, finder, count) for chunk in found.chunks)
    return found.model_copy(update={"chunks": chunks}), count


def is_current(inspected_by: str | None, finder: PatternFinder) -> bool:
    """Return whether a text was inspected by the finder's present rules."""
    return inspected_by is not None and inspected_by.rpartition("+")[2] == finder.version


def _moved(inspection: Inspection, private: Sequence[PrivateSpan], masked: Masked) -> Inspection:
    spans = tuple(
        PrivateSpan(kind=span.kind, start=masked.moved(span.start), end=masked.moved_end(span.end)) for span in private
    )
    findings = tuple(
        finding.model_copy(update={"start": masked.moved(finding.start), "end": masked.moved_end(finding.end)})
        for finding in inspection.findings
    )
    return inspection.model_copy(update={"private": spans, "findings": findings})


def _mask_facts(chunk: RetrievedChunk, mask_one: Callable[[str], str]) -> dict[str, object]:
    """Return the masked headings and facts of a chunk, only those that change."""
    changes: dict[str, object] = {}
    for name in ("title", "symbol_path", "anchor"):
        value = getattr(chunk, name)
        if value and (shown := mask_one(value)) != value:
            changes[name] = shown
    sections = tuple(map(mask_one, chunk.section_path))
    if sections != tuple(chunk.section_path):
        changes["section_path"] = sections
    metadata = {name: mask_one(fact) if isinstance(fact, str) else fact for name, fact in chunk.metadata.items()}
    if metadata != chunk.metadata:
        changes["metadata"] = metadata
    author = chunk.provenance.author
    if author and (shown := mask_one(author)) != author:
        changes["provenance"] = chunk.provenance.model_copy(update={"author": shown})
    return changes


def mask_label(text: str, kinds: tuple[str, ...], finder: PatternFinder) -> str:
    """Return a heading or fact of a document, which was not inspected, masked for display."""
    if not _MAY_HOLD.search(text):
        return text
    return mask(text, _search(finder, text), kinds).text


@lru_cache(maxsize=2_048)
def _search(finder: PatternFinder, text: str) -> tuple[PrivateSpan, ...]:
    """Return the private spans of a text, cached because it is served often."""
    return tuple(finder.find(text))
