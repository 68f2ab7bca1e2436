"""Features and checks that the marketing and code profiles add to coverage."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import LaterText, Switch, Value, is_empty, is_none

Channel = Literal["news", "press_release", "social", "forum", "owned", "other"]
"""The kind of a source: press, announcement, social network, forum, a brand's own site, or another."""

Share = Annotated[float, Field(ge=0, le=1)]


class Sentiment(Value):
    """The tone of an English passage, from -1 to 1, by a word lexicon. It does not judge truth."""

    score: Annotated[float, Field(ge=-1, le=1)]
    label: Literal["positive", "neutral", "negative"]


class Disclosure(Value):
    """Whether a passage that speaks for a brand discloses it: clearly, in unclear words, or not at all."""

    status: Literal["marked", "unclear", "missing"]
    text: str
    """The matched words: the mark itself, or the evidence that the passage speaks for a brand."""
    rule: str
    source: str
    """The origin of the rule."""


class Claim(Value):
    """Words of a passage that need proof before they may be repeated as true."""

    rule: str
    text: str
    needs: str
    """The evidence that would substantiate it."""
    source: str
    """The origin of the rule."""
    cites_evidence: Switch = False
    """Whether the sentence refers to a study. Whether the study proves the claim is not checked."""


class PassageInsights(Value):
    """Findings in one cited passage."""

    sentiment: Annotated[Sentiment | None, Field(exclude_if=is_none)] = None
    """None if the passage is not English, or has no text."""
    disclosure: Annotated[Disclosure | None, Field(exclude_if=is_none)] = None
    """None without evidence that the passage speaks for a brand."""
    claims: Annotated[tuple[Claim, ...], Field(exclude_if=is_empty)] = ()
    channel: Annotated[Channel | None, Field(exclude_if=is_none)] = None


class CodeSample(Value):
    """Facts that a tool needs before it runs code from a passage. Sluice runs no such code."""

    language: str | None
    executed: Literal[False] = False
    policy: Literal["allowed", "needs_approval", "denied"]
    why: tuple[str, ...] = ()
    """The rules that require approval or deny it, each with the matched words."""


class Voice(Value):
    """Mentions of one brand in a set of passages. `share` is its part of all brands' passages."""

    brand: str
    passages: Annotated[int, Field(ge=0)]
    documents: Annotated[int, Field(ge=0)]
    share: Share
    channels: dict[str, int] = Field(default_factory=dict)
    """Its passages by kind of source."""


class Channels(Value):
    """The variety of an answer's sources."""

    passages: dict[str, int]
    """Passages by kind of source."""
    domains: Annotated[int, Field(ge=0)]
    """Registered domains."""
    diversity: Share
    """Shannon entropy of the passages over registered domains, as a share of the most possible: 0 for one source."""


class AnswerInsights(Value):
    """Findings over the whole answer. `corpus_voices` counts passages of the corpus."""

    answer_voices: Annotated[tuple[Voice, ...], Field(exclude_if=is_empty)] = ()
    corpus_voices: Annotated[tuple[Voice, ...], Field(exclude_if=is_empty)] = ()
    channels: Annotated[Channels | None, Field(exclude_if=is_none)] = None


Count = Annotated[int, Field(ge=0)]


class MentionVelocity(Value):
    """Documents that name the question's entity, by publication date: recent, and earlier."""

    entity: str
    recent_documents: Count
    recent_days: Annotated[int, Field(ge=1)]
    earlier_documents: Count
    earlier_days: Annotated[int, Field(ge=1)]


class Dependency(Value):
    """A package that the question names and a repository depends on: the version used, the newest indexed version."""

    name: str
    used: str
    file_path: str
    newest: LaterText = None
    """None if no release of it is indexed."""


class DomainMeasures(Value):
    """Measurements of a domain. Each is taken only if the profile gives it a weight."""

    velocity: Annotated[MentionVelocity | None, Field(exclude_if=is_none)] = None
    dependencies: Annotated[tuple[Dependency, ...], Field(exclude_if=is_empty)] = ()
    failing_tests: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Tests that a report lists as failing and that the question names."""
    todo_marks: Annotated[Count | None, Field(exclude_if=is_none)] = None
    """TODO, FIXME, XXX and HACK in the code of the retrieved passages."""
    code_lines: Annotated[Count | None, Field(exclude_if=is_none)] = None
    """Lines of code in the retrieved passages."""
