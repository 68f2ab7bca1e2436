"""Requests and responses of memory's interfaces."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sluice.contracts.api import RunAccepted
from sluice.contracts.base import Moment, Value, is_empty, is_none
from sluice.contracts.memory.learning import FeatureLearning, LearningId, LearningSource, LearningText, Reason
from sluice.contracts.memory.model import IterationOutcome, IterationRecord, ModelTier
from sluice.contracts.memory.names import FeatureName, ProjectPath

StreamFormat = Literal["auto", "claude-code", "swe-agent", "mini-swe-agent", "openhands", "trace", "record"]
"""What an agent's output is written in; `auto` looks at it. `record` is an `IterationRecord` as JSON."""


class IterationContext(Value):
    """What an agent's output does not say of its iteration. None: read from the output, or counted on."""

    iteration_number: Annotated[int, Field(ge=1)] | None = None
    task_id: Annotated[int, Field(ge=0)] | None = None
    task_title: Annotated[str, Field(max_length=200)] | None = None
    discipline: Annotated[str, Field(max_length=100)] | None = None
    session_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    timestamp: Moment | None = None
    duration_ms: Annotated[int, Field(ge=0)] | None = None
    model_tier: ModelTier | None = None
    working_directory: Annotated[str, Field(max_length=1_024)] | None = None
    """The folder that absolute paths are resolved against, where the output names none."""
    timed_out: bool = False
    """Whether the agent was ended at a deadline."""


class IterationSubmission(Value):
    """An iteration to remember: the agent's output in one of the formats."""

    project: ProjectPath
    feature: FeatureName
    format: StreamFormat = "auto"
    data: str | dict[str, Any] | list[Any]
    """The output as text, or as the JSON that it is."""
    context: IterationContext = IterationContext()


class IterationAccepted(Value):
    """An iteration stands in the journal. `run` brings it into the index, the same one for the same iteration.

    It is None without an instance, and where the queues have no room: then the index follows by itself.
    """

    entry_id: str
    is_new: bool
    record: IterationRecord
    stagnating: bool
    run: RunAccepted | None = None


class LearningRequest(Value):
    """A learning to add. One that says the same as an earlier one is counted there instead."""

    project: ProjectPath
    feature: FeatureName
    text: LearningText
    reason: Reason
    source: LearningSource = LearningSource.AGENT
    iteration: Annotated[int, Field(ge=0)] = 0
    task_id: Annotated[int, Field(ge=0)] | None = None


class LearningPatch(Value):
    """Changes to one learning; what is None stays. `state` is decided by a review."""

    text: LearningText | None = None
    reason: Reason | None = None
    task_id: Annotated[int, Field(ge=0)] | None = None
    reviewed: Literal[True] | None = None
    """That somebody has looked at it."""
    rejected: bool | None = None
    """True: it is not offered any more; False: it is again."""
    keep_over: LearningId | None = None
    """Of two that contradict each other: this one is kept, that one rejected."""
    source: LearningSource = LearningSource.HUMAN
    """Who says so: `Human`, or `OpusReviewed` for a reviewing model. An instance takes these of operators' keys alone;
    with an agent's key it is `Agent`."""
    note: Annotated[str, Field(max_length=500)] = ""


class LearningResult(Value):
    """What became of a learning that was added."""

    verdict: Literal["unique", "duplicate", "conflict", "echo", "refused"]
    learning: FeatureLearning | None = None
    """The learning as it stands now: the new one, or the one that it repeats. None where it was refused."""
    other: Annotated[FeatureLearning | None, Field(exclude_if=is_none)] = None
    """The learning that it contradicts."""
    why: str = ""
    run: RunAccepted | None = None


class Learnings(Value):
    """Learnings of a feature, the newest last; `conflicts` are pairs that nobody has decided between."""

    learnings: tuple[FeatureLearning, ...]
    conflicts: tuple[tuple[LearningId, LearningId], ...] = ()


class Recollection(Value):
    """One thing that memory holds on a question, and what ranked it."""

    kind: Literal["iteration", "learning"]
    id: str
    text: str
    iteration: int
    score: float
    relevance: float
    """From the search, in [0, 1]."""
    weight: float
    """By which its age, its outcome and how it fared multiply the relevance."""
    outcome: Annotated[IterationOutcome | None, Field(exclude_if=is_none)] = None
    learning: Annotated[FeatureLearning | None, Field(exclude_if=is_none)] = None
    record: Annotated[IterationRecord | None, Field(exclude_if=is_none)] = None


class Recall(Value):
    """What memory holds on a question, the best first."""

    project: str
    feature: str
    query: str
    results: tuple[Recollection, ...]
    searched: Literal["hybrid", "bm25", "journal"]
    """`journal`: the index is away, so words were compared with the journal itself."""
    behind: int = 0
    """Entries of the journal that the index does not hold yet."""
    duration_ms: float


class PromptBlock(Value):
    """A block for the next iteration's prompt: what it says is observation, to be verified before it is relied on."""

    text: str
    tokens: int
    learning_ids: tuple[str, ...] = ()
    record_ids: tuple[str, ...] = ()
    left_out: int = 0
    """Learnings and errors that found no room."""
    withheld: Annotated[dict[str, int], Field(exclude_if=is_empty)] = Field(default_factory=dict)
    """What sanitising kept out, by rule."""


class RagStatus(Value):
    """How the memory of a project fares: is the index there, is the embedder, and how far are they behind."""

    engine: str
    index_available: bool
    embedder_available: bool
    embedding_model: str | None
    features: int
    records: int
    learnings: int
    conflicts: int
    behind: int
    """Entries of the journals that the index does not hold yet."""
    collections: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    """Collections of this project's memory that no journal stands behind."""
    problems: tuple[str, ...] = ()
    """Damaged lines of journals, each with file and line."""


class MemoryProof(Value):
    """What follows from the journal of a feature, against what is held."""

    feature: str
    collection: str
    entries: int
    state_sha256: str
    """Of the state as read anew from the journal's first line: equal journals give equal states, id for id."""
    documents: int
    """That the index is to hold, without those that are withheld."""
    indexed: int
    withheld: int = 0
    """Documents that the guard holds in quarantine, or that the negative list keeps out."""
    missing: tuple[str, ...] = ()
    """Ids that the index lacks, or has in another version."""
    surplus: tuple[str, ...] = ()
    """Ids that it has and the journal does not."""
    differences: tuple[str, ...] = ()
    """In what the state that is held differs from the one read anew."""
    problems: tuple[str, ...] = ()
    """Damaged lines of the journal."""

    @property
    def is_equal(self) -> bool:
        """Whether everything held is exactly what the journal says."""
        return not (self.missing or self.surplus or self.differences or self.problems)
