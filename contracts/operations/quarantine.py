"""The quarantine: chunks that the guard blocked, kept out of the index until an operator releases or purges them.

Documents forgotten on request are kept out by the negative list (`Forgotten`) instead.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import CorpusName, Moment, Value
from sluice.contracts.operations.dead_letters import CorporaFilter, OperatorAction, Part
from sluice.contracts.trust import Finding, Origin

QuarantineState = Literal["held", "released", "purged"]
"""`released`: an operator found it harmless, and it is not blocked again. `purged`: its text was removed for good."""

MOST_HELD_AT_ONCE = 1_000
"""The most chunks in one response."""


class QuarantineFilter(CorporaFilter):
    """A filter of chunks; all given conditions must hold."""

    rule: str | None = None
    state: QuarantineState | Literal["any"] = "held"
    url_prefix: str | None = None
    document_id: str | None = None
    run_id: str | None = None


class QuarantinePage(QuarantineFilter, Part):
    """A filter, and a part of its results, the latest first."""

    limit: Annotated[int, Field(ge=1, le=MOST_HELD_AT_ONCE)] = 100


class QuarantinedChunk(Value):
    """A chunk in a list. `position` continues the list after it. `checksum` is of the chunk's text, `document_sha256`
    of the document's version. `held_at` is when it was first blocked. `operator`, `decided_at` and `note` record who
    released or purged it, when and why."""

    id: str
    position: str
    corpus: CorpusName
    document_id: str
    document_sha256: str
    chunk_id: str
    checksum: str
    url: str | None
    file_path: str | None
    origin: Origin
    submitted_by: str | None
    findings: tuple[Finding, ...]
    inspected_by: str | None
    run_id: str | None
    held_at: Moment
    state: QuarantineState
    operator: str | None
    decided_at: Moment | None
    note: str | None


class QuarantinedText(QuarantinedChunk):
    """A complete chunk. `text` is None once purged; `findings` refer to its characters."""

    text: str | None
    section_path: tuple[str, ...] = ()
    actions: tuple[OperatorAction, ...] = ()


class Released(Value):
    """A chunk was released. `run_id` indexes it; None: it waits for the next crawl, for the reason in `waits_for`."""

    id: str
    run_id: str | None
    waits_for: str | None = None
