"""Requests and responses of memory's interfaces."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sluice.contracts.api import RunAccepted
from sluice.contracts.base import Moment, Switch, Value, is_empty, is_none
from sluice.contracts.memory.learning import FeatureLearning, LearningId, LearningSource, LearningText, Reason
from sluice.contracts.memory.model import IterationOutcome, IterationRecord, ModelTier
from sluice.contracts.memory.names import FeatureName, ProjectPath

StreamFormat = Literal["auto", "claude-code", "swe-agent", "mini-swe-agent", "openhands", "codex", "trace", "record"]
"""Format of an agent's output; `auto` detects it. `record` is an `IterationRecord` as JSON."""


MAX_ITERATION = 1_000_000
"""Highest number of an iteration that is taken: one far beyond the others would be the last one for ever."""


class IterationContext(Value):
    """Facts about an iteration that the agent's output lacks. None: read from the output, or counted on by one."""

    iteration_number: Annotated[int, Field(ge=1, le=MAX_ITERATION)] | None = None
    task_id: Annotated[int, Field(ge=0)] | None = None
    task_title: Annotated[str, Field(max_length=200)] | None = None
    discipline: Annotated[str, Field(max_length=100)] | None = None
    session_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    timestamp: Moment | None = None
    duration_ms: Annotated[int, Field(ge=0)] | None = None
    model_tier: ModelTier | None = None
    working_directory: Annotated[str, Field(max_length=1_024)] | None = None
    """The folder that absolute paths are resolved against, if the output names none."""
    timed_out: bool = False
    """Whether the agent was stopped at a deadline."""
    outcome: IterationOutcome | None = None
    """The outcome, where the caller knows it: from his own tests, or a reviewer."""


class IterationSubmission(Value):
    """An iteration to remember: the agent's output in one of the formats."""

    project: ProjectPath
    feature: FeatureName
    format: StreamFormat = "auto"
    data: str | dict[str, Any] | list[Any]
    """The output as text or as JSON."""
    context: IterationContext = IterationContext()


class IterationAccepted(Value):
    """An iteration was written to the journal. `run` indexes it; the same iteration always gets the same run. `run` is
    None without an instance, or when the queues are full: the index then catches up later."""

    entry_id: str
    is_new: bool
    record: IterationRecord
    stagnating: bool
    run: RunAccepted | None = None


class LearningRequest(Value):
    """A learning to add. A repetition of an earlier one is counted there instead."""

    project: ProjectPath
    feature: FeatureName
    text: LearningText
    reason: Reason
    source: LearningSource = LearningSource.AGENT
    iteration: Annotated[int, Field(ge=0)] = 0
    task_id: Annotated[int, Field(ge=0)] | None = None


class LearningPatch(Value):
    """Changes to one learning; None leaves a field as it is. A review sets `state`."""

    text: LearningText | None = None
    reason: Reason | None = None
    task_id: Annotated[int, Field(ge=0)] | None = None
    reviewed: Literal[True] | None = None
    """Whether somebody has looked at it."""
    rejected: bool | None = None
    """True: it is no longer offered to prompts; False: it is offered again."""
    keep_over: LearningId | None = None
    """Id of a differing learning to reject in favour of the patched one."""
    source: LearningSource = LearningSource.HUMAN
    """The author of the change: `Human`, or `OpusReviewed` for a reviewing model. An instance accepts these only from
    operators' keys; for an agent's key it is `Agent`."""
    note: Annotated[str, Field(max_length=500)] = ""


class LearningResult(Value):
    """The result of adding a learning."""

    verdict: Literal["unique", "duplicate", "conflict", "echo", "refused"]
    learning: FeatureLearning | None = None
    """The current learning: the new one, or the one that it repeats. None if it was refused."""
    other: Annotated[FeatureLearning | None, Field(exclude_if=is_none)] = None
    """The learning from which it differs, or that it retired as wrong."""
    why: str = ""
    run: RunAccepted | None = None


Pair = Annotated[tuple[LearningId, LearningId], Field(json_schema_extra={"items": {"type": "string"}})]
"""`items` is for readers of schemas that know no `prefixItems`."""


class Learnings(Value):
    """Learnings of a feature, newest last; `conflicts` are the undecided pairs."""

    learnings: tuple[FeatureLearning, ...]
    conflicts: tuple[Pair, ...] = ()
    to_review: Annotated[tuple[LearningId, ...], Field(exclude_if=is_empty)] = ()
    """Those that look like harmful advice and that nobody has reviewed: prompts mark them."""


class Recollection(Value):
    """One item that memory holds on a question, with its ranking."""

    kind: Literal["iteration", "learning"]
    id: str
    text: str
    iteration: int
    score: float
    relevance: float
    """The search's score, in [0, 1]."""
    weight: float
    """Factor on the relevance, from the item's age, its outcome and its record of use."""
    outcome: Annotated[IterationOutcome | None, Field(exclude_if=is_none)] = None
    learning: Annotated[FeatureLearning | None, Field(exclude_if=is_none)] = None
    record: Annotated[IterationRecord | None, Field(exclude_if=is_none)] = None
    to_review: Switch = False
    """Whether it looks like harmful advice that nobody has reviewed."""


class Recall(Value):
    """The items that memory holds on a question, best first."""

    project: str
    feature: str
    query: str
    results: tuple[Recollection, ...]
    searched: Literal["hybrid", "bm25", "journal"]
    """`journal`: the index is unavailable, so words were compared with the journal itself."""
    behind: int = 0
    """Entries of the journal that the index does not hold yet."""
    duration_ms: float


class PromptBlock(Value):
    """A block for the next iteration's prompt. Its content is observation, to be verified before it is relied on."""

    text: str
    tokens: int
    learning_ids: tuple[str, ...] = ()
    record_ids: tuple[str, ...] = ()
    left_out: int = 0
    """Learnings and errors that did not fit."""
    withheld: Annotated[dict[str, int], Field(exclude_if=is_empty)] = Field(default_factory=dict)
    """Texts that sanitising removed, counted by rule."""


class RagStatus(Value):
    """The state of a project's memory: whether index and embedder are available, and the lag of the index."""

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
    """Collections of this project's memory that have no journal."""
    problems: tuple[str, ...] = ()
    """Damaged lines of journals, each with file and line."""


class RememberedProject(Value):
    """A project with a memory, and those of its features that the key may touch."""

    project: ProjectPath
    features: tuple[FeatureName, ...]


class MemoryProof(Value):
    """The state that follows from a feature's journal, compared with the stored state."""

    feature: str
    collection: str
    entries: int
    state_sha256: str
    """Hash of the state recomputed from the journal's first line: equal journals give equal states, id for id."""
    documents: int
    """Documents that the index should hold, without the withheld ones."""
    indexed: int
    withheld: int = 0
    """Documents that the guard holds in quarantine, or that the negative list excludes."""
    missing: tuple[str, ...] = ()
    """Ids that the index lacks, or has in another version."""
    surplus: tuple[str, ...] = ()
    """Ids in the index that the journal lacks."""
    differences: tuple[str, ...] = ()
    """Differences between the stored state and the recomputed one."""
    problems: tuple[str, ...] = ()
    """Damaged lines of the journal."""

    @property
    def is_equal(self) -> bool:
        """Return whether the stored state equals the journal's in every item."""
        return not (self.missing or self.surplus or self.differences or self.problems)
