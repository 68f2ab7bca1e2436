"""The trust in a chunk, and the findings of the guard and of the search for private data.

An `Inspection` is made once, when a chunk is ingested, and stored with it; answering only reads it. `TrustScore`
and `GateCheck` have the names and keys of the retrieval RFC, in JSON too (`chunkId`, `domainTrust`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from sluice.contracts.base import LaterText, Value, is_empty, is_none

Origin = Literal["crawled", "searched", "submitted", "operator", "file"]
"""The observed (not claimed) origin of a document: fetched from its URL; shown by a search provider as a snippet of its
URL; submitted by a caller, who may claim any URL; submitted by the operator; read from a local file."""
FLOOD = "flood"
"""The rule that marks passages that were made for the question, when answering."""


class Verdict(StrEnum):
    """The guard's verdict on a chunk: nothing found; served with a mark; never served."""

    PASSED = "passed"
    WARNED = "warned"
    BLOCKED = "blocked"


class Finding(Value):
    """A finding of the guard: a rule, and the characters of the chunk's text that it matched (`text[start:end]`)."""

    rule: str
    start: Annotated[int, Field(ge=0)] = 0
    end: Annotated[int, Field(ge=0)] = 0
    score: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """The model's probability, if the rule is a model."""


class PrivateSpan(Value):
    """Characters of a chunk's text that hold private data or a secret (`text[start:end]`); never the value itself.
    `kind` is `card`, `iban`, `email`, `ip`, `ssn`, `phone`, a name of an installed recogniser, or `secret.RULE`."""

    kind: str
    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]

    @property
    def is_secret(self) -> bool:
        """Return whether it is a credential, which is masked unless the policy says otherwise."""
        return self.kind.startswith("secret.")


class Inspection(Value):
    """Findings in a chunk at ingest. A chunk without findings has no inspection."""

    verdict: Verdict = Verdict.PASSED
    findings: Annotated[tuple[Finding, ...], Field(exclude_if=is_empty)] = ()
    private: Annotated[tuple[PrivateSpan, ...], Field(exclude_if=is_empty)] = ()


def with_warning(inspection: Inspection | None, rule: str, text: str) -> Inspection:
    """Return the inspection of a chunk with one more finding, of its whole text, and at least a warning."""
    known = inspection or Inspection()
    verdict = Verdict.WARNED if known.verdict is Verdict.PASSED else known.verdict
    finding = Finding(rule=rule, start=0, end=len(text))
    return known.model_copy(update={"verdict": verdict, "findings": (*known.findings, finding)})


class Signature(Value):
    """A signature on a document, by a key that the operator lists in `trust.keys`."""

    key_id: Annotated[str, Field(min_length=1, max_length=200)]
    value: Annotated[str, Field(max_length=200)]
    """Base64 of the 64 bytes of an Ed25519 signature, as `sluice sign` makes it."""


class _AsInRfc(Value):
    """A value whose JSON has the RFC's keys, in camel case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)


class TrustFactors(_AsInRfc):
    """The factors of a trust score. None: the factor does not apply to this chunk, and is left out of the score."""

    domain_trust: Annotated[float | None, Field(ge=0, le=1)] = None
    """1 for a listed domain, 0 for another one; None if the source's domain is not known for certain."""
    signature_valid: bool | None = None
    """None for a document without a signature."""
    time_freshness: Annotated[float, Field(ge=0, le=1)] = 1.0
    """From 1 for today's text to 0.7 for one of a year ago or more."""
    author_reputation: Annotated[float | None, Field(ge=0, le=1)] = None
    """1 for an author known on that domain; None if none of the domain's authors is known."""
    feedback: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """What the score was multiplied by for what callers say against the passage; None where nobody does."""


class TrustPart(Value):
    """A part of a trust score: what it adds to it, below 0 too. None: it did not apply."""

    name: str
    adds: float | None
    why: str


class TrustScore(_AsInRfc):
    """The trust in a chunk's source, in [0, 1], with its factors."""

    chunk_id: str
    score: Annotated[float, Field(ge=0, le=1)]
    factors: TrustFactors
    origin: Origin

    def lowered(self, doubt: float) -> TrustScore:
        """Return the score of a passage that callers speak against; `doubt` is the share that it loses."""
        factors = self.factors.model_copy(update={"feedback": 1.0 - doubt})
        return self.model_copy(update={"score": self.score * (1.0 - doubt), "factors": factors})


class GateCheck(Value):
    """The outcome of a gate over a whole retrieval, such as `gate-i-source-trust`."""

    id: str
    passed: bool
    severity: Literal["P0", "P1", "P2"]
    value: float
    """The measurement: the mean trust, or the number of blocked chunks."""
    threshold: float
    minimum: Annotated[float | None, Field(exclude_if=is_none)] = None
    """The lowest value of one chunk, where `value` is a mean."""
    detail: LaterText = None
