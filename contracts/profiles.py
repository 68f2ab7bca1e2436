"""Features and checks that the marketing and code profiles add to coverage."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import LaterText, Switch, Value, is_empty, is_none

Channel = Literal["news", "press_release", "social", "forum", "owned", "other"]
"""The kind of a source: the press, an announcement, a social network, a forum, a brand's own site, anything else."""

Share = Annotated[float, Field(ge=0, le=1)]


class Sentiment(Value):
    """The tone of an English passage, from -1 to 1, as a lexicon of words reads it: no judgement of its truth."""

    score: Annotated[float, Field(ge=-1, le=1)]
    label: Literal["positive", "neutral", "negative"]


class Disclosure(Value):
    """Whether a passage that speaks for a brand says so: clearly, in words that are not clear enough, or not at all."""

    status: Literal["marked", "unclear", "missing"]
    text: str
    """The words that it was found by: the mark itself, or what shows that the passage speaks for a brand."""
    rule: str
    source: str
    """Where the rule comes from."""


class Claim(Value):
    """Words of a passage that need proof before they may be repeated as true."""

    rule: str
    text: str
    needs: str
    """What would substantiate it."""
    source: str
    """Where the rule comes from."""
    cites_evidence: Switch = False
    """The sentence refers to a study; whether that one proves it is not checked."""


class PassageInsights(Value):
    """What was found in one cited passage."""

    sentiment: Annotated[Sentiment | None, Field(exclude_if=is_none)] = None
    """None for a passage that is not English, or has no text."""
    disclosure: Annotated[Disclosure | None, Field(exclude_if=is_none)] = None
    """None where nothing shows that the passage speaks for a brand."""
    claims: Annotated[tuple[Claim, ...], Field(exclude_if=is_empty)] = ()
    channel: Annotated[Channel | None, Field(exclude_if=is_none)] = None


class CodeSample(Value):
    """What a tool must know before it runs code from a passage. Sluice runs none."""

    language: str | None
    executed: Literal[False] = False
    policy: Literal["allowed", "needs_approval", "denied"]
    why: tuple[str, ...] = ()
    """The rules that ask for an approval or deny it, each with the words that it met."""


class Voice(Value):
    """How often one brand is named in a set of passages. `share` is its part of all brands' passages."""

    brand: str
    passages: Annotated[int, Field(ge=0)]
    documents: Annotated[int, Field(ge=0)]
    share: Share
    channels: dict[str, int] = Field(default_factory=dict)
    """Its passages by the kind of their source."""


class Channels(Value):
    """How varied the sources of an answer are."""

    passages: dict[str, int]
    """By the kind of their source."""
    domains: Annotated[int, Field(ge=0)]
    """Registered domains."""
    diversity: Share
    """Shannon entropy of the passages over registered domains, as a share of the most possible: 0 for one source."""


class AnswerInsights(Value):
    """What was found over the whole answer. `corpus_voices` counts passages of the corpus."""

    answer_voices: Annotated[tuple[Voice, ...], Field(exclude_if=is_empty)] = ()
    corpus_voices: Annotated[tuple[Voice, ...], Field(exclude_if=is_empty)] = ()
    channels: Annotated[Channels | None, Field(exclude_if=is_none)] = None


Count = Annotated[int, Field(ge=0)]


class MentionVelocity(Value):
    """Documents that name the question's entity, by their date of publication: lately, and in the time before."""

    entity: str
    recent_documents: Count
    recent_days: Annotated[int, Field(ge=1)]
    earlier_documents: Count
    earlier_days: Annotated[int, Field(ge=1)]


class Dependency(Value):
    """A package that the question names and a repository depends on: the version used, the newest that is indexed."""

    name: str
    used: str
    file_path: str
    newest: LaterText = None
    """None where no release of it is indexed."""


class DomainMeasures(Value):
    """Each measured where the profile weighs it, and left out elsewhere."""

    velocity: Annotated[MentionVelocity | None, Field(exclude_if=is_none)] = None
    dependencies: Annotated[tuple[Dependency, ...], Field(exclude_if=is_empty)] = ()
    failing_tests: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Of the tests that a report names as failing, those that the question's words name too."""
    todo_marks: Annotated[Count | None, Field(exclude_if=is_none)] = None
    """TODO, FIXME, XXX and HACK in the code of the passages found."""
    code_lines: Annotated[Count | None, Field(exclude_if=is_none)] = None
    """Lines of code of the passages found."""
