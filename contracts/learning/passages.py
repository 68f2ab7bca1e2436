"""What callers say against single passages of answers: requests, events, and what stands of it.

A mark is one key's word on one passage of one run's answer. It lowers the passage in later searches of the corpus.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from sluice.contracts.base import CorpusName, LaterText, Moment, Value, is_none
from sluice.contracts.event import Body

PassageReason = Literal["wrong", "harmful", "outdated", "off_topic", "attack", "duplicate"]
"""Why a passage is bad evidence: it says what is false; it would do harm; it was true once; it is on another matter; it
was written to steer who reads it; it repeats another one."""
PassageVerdict = Literal["bad", "fine"]
"""`fine` takes back what the same key said against the passage in the same run."""
Standing = Literal["asker", "operator", "other"]
"""Who speaks: the key that asked, an operator's, or another one."""
PassageNote = Annotated[str, Field(max_length=1_000)]
DOUBTED = 0.2
"""Doubt from which a page is crawled after all others: one key said so in two runs, or an operator did."""


class PassageFeedback(Value):
    """Feedback on one passage of an answer, which is named by its citation's number or by its chunk's id."""

    citation: Annotated[int | None, Field(ge=1, exclude_if=is_none)] = None
    chunk_id: LaterText = None
    verdict: PassageVerdict = "bad"
    reason: Annotated[PassageReason | None, Field(exclude_if=is_none)] = None
    """Needed with the verdict `bad`. Of an outdated passage its page is read again soon; pages that are wrong, harmful
    or an attack, and others of their hosts, are crawled late."""
    note: PassageNote = ""

    @model_validator(mode="after")
    def _is_whole(self) -> PassageFeedback:
        if (self.citation is None) == (self.chunk_id is None):
            raise ValueError("give either citation or chunk_id")
        if (self.verdict == "bad") != (self.reason is not None):
            raise ValueError("give a reason with the verdict bad, and none with fine")
        return self


class PassageMarked(Body):
    """A key said that a passage of the run's answer is bad evidence, or took that back."""

    chunk_id: str
    document_id: str
    url: LaterText = None
    verdict: PassageVerdict
    reason: PassageReason | None = None
    note: str = ""
    owner: str
    """Id of the key."""
    standing: Standing


class PassageCleared(Body):
    """An operator lifted every mark on a passage of a corpus."""

    of_corpus: CorpusName
    chunk_id: str
    operator: str
    note: str = ""


class PassageMark(NamedTuple):
    """A mark that stands."""

    run_id: str
    chunk_id: str
    owner: str
    standing: Standing
    document_id: str
    url: str | None
    reason: PassageReason


class MarkedPassage(Value):
    """A passage of a corpus with what is said against it."""

    chunk_id: str
    document_id: str
    url: LaterText = None
    doubt: Annotated[float, Field(ge=0, le=1)]
    """The share by which its score and its trust are lowered."""
    reasons: dict[PassageReason, int]
    """Number of marks by reason."""
    keys: int
    """Number of keys that gave them."""
    last_at: Moment
