"""Memory's sanitising with the guard and the finder of private data of `trust`. An instance binds them by it, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from memory.ports import EmbedTexts, GuardSpan, Sanitise

if TYPE_CHECKING:
    from contracts.document import ChunkedDocument
    from contracts.trust import Finding

PRIVATE_KINDS = ("secret", "email", "iban", "card", "ssn", "phone")
"""What is masked. Addresses of machines stay: an error that names one is understood by it."""


def sanitise_with_trust(embed: EmbedTexts | None = None) -> Sanitise:
    """Memory's own rules, the guard's and the masking of secrets and private data, as one.

    By rules alone it takes about a millisecond for a usual text. With `embed` (unit vectors of all-MiniLM-L6-v2) the
    guard's model has a say as well; then it raises what `embed` raises.
    """
    from memory.sanitise import build_sanitise

    return build_sanitise(lambda text: find_commands(text, embed), mask_private)


def find_commands(text: str, embed: EmbedTexts | None = None) -> Sequence[GuardSpan]:
    """What the guard of `trust` finds in a text that somebody handed in."""
    from contracts.trust import Verdict
    from trust.guard.guard import find_by_rule
    from trust.guard.mention import is_about_attacks
    from trust.guard.verdict import decide

    findings = find_by_rule(text)
    if embed is not None:
        findings = (*findings, *_by_model(text, embed))
    if not findings:
        return ()
    verdict = decide(findings, submitted=True, about_attacks=is_about_attacks(text))
    blocks = verdict is Verdict.BLOCKED
    return [GuardSpan(one.rule, one.start, one.end, blocks) for one in findings]


def mask_private(text: str) -> tuple[str, Mapping[str, int]]:
    """`text` with placeholders for secrets and private data, and how many of each kind there were."""
    from trust.private.finder import PatternFinder
    from trust.private.mask import is_masked, mask

    spans = PatternFinder().find(text)
    if not spans:
        return text, {}
    kinds = Counter(span.kind for span in spans if is_masked(span, PRIVATE_KINDS))
    return mask(text, spans, PRIVATE_KINDS).text, kinds


def _by_model(text: str, embed: EmbedTexts) -> Sequence[Finding]:
    from trust.guard.mention import Topic, is_mentioned_to_model
    from trust.guard.model import find_by_model, load_model

    found = find_by_model(_as_document(text), load_model(), embed)
    topic = Topic(text, "")
    return [one for one in found.values() if not is_mentioned_to_model(text, one.start, one.end, topic)]


def _as_document(text: str) -> ChunkedDocument:
    """A text as the guard's model reads it: a document of one chunk."""
    from contracts.document import Chunk, ChunkedDocument, Provenance

    checksum = sha256(text.encode("utf-8", "replace")).hexdigest()
    chunk = Chunk(
        chunk_id="memory",
        document_id="memory",
        ordinal=0,
        text=text,
        start_line=1,
        end_line=1,
        token_estimate=0,
        checksum=checksum,
    )
    provenance = Provenance(source="submission", fetched_at=datetime(1970, 1, 1, tzinfo=UTC))
    return ChunkedDocument(document_id="memory", checksum=checksum, provenance=provenance, chunks=(chunk,))
