"""What the server answers on: /v1/memory. Written by `.ci/client_models.py` from the server's OpenAPI description: do not edit."""

# fmt: off
from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from sluice_client.models.base import Model
from sluice_client.models.answers import RunAccepted

ErrorType = Literal['Runtime', 'Compile', 'Test', 'Lint', 'Permission', 'Logic', 'Unknown'] | str
FileAction = Literal['Created', 'Modified', 'Read', 'Deleted'] | str
IterationOutcome = Literal['Success', 'Failure', 'Partial', 'Timeout', 'RateLimited'] | str
LearningSource = Literal['Auto', 'Agent', 'Human', 'OpusReviewed'] | str
LearningState = Literal['active', 'rejected', 'pruned'] | str
ModelTier = Literal['Haiku', 'Opus'] | str

class CheckRun(Model):  # A run of a program: with its subcommand (`npm run lint`), on `targets` (files, folders,
    program: str
    targets: list[str] = []
    passed: bool = False
    after: str | None = None

class DecisionEntry(Model):  # A decision of the agent, and its rationale.
    description: str
    rationale: str | None = None

class ErrorEntry(Model):  # An error that a tool reported
    message: str
    error_type: ErrorType | None = None
    file_path: str | None = None
    line: int | None = None
    tool: str | None = None
    evidence: str | None = None
    check: CheckRun | None = None
    solved_by: str | None = None

class FeatureLearning(Model):  # One learning
    id: str
    feature: str
    text: str
    reason: str
    source: LearningSource
    iteration: int
    timestamp: datetime
    task_id: int | None = None
    hit_count: int = 1
    reviewed: bool = False
    state: LearningState = 'active'
    conflicts_with: list[str] = []
    retired_by: str | None = None
    shown: int = 0
    used: int = 0
    helped: int = 0
    failed_again: int = 0
    near_to: list[str] = []
    edited: bool = False

class FileTouched(Model):  # A file that the iteration read or changed; its path is relative to the project and inside
    path: str
    action: FileAction

class IterationAccepted(Model):  # An iteration was written to the journal
    entry_id: str
    is_new: bool
    record: IterationRecord
    stagnating: bool
    run: RunAccepted | None = None

class IterationRecord(Model):  # One iteration of the agent's loop on one feature: the unit of memory
    iteration_number: int
    task_id: int = 0
    task_title: str = ''
    feature: str
    discipline: str = ''
    timestamp: datetime
    outcome: IterationOutcome
    summary: str = ''
    errors: list[ErrorEntry] = []
    solved: list[ErrorEntry] = []
    checks: list[CheckRun] = []
    decisions: list[DecisionEntry] = []
    files_touched: list[FileTouched] = []
    tokens_used: int | None = None
    duration_ms: int | None = None
    model_tier: ModelTier = 'Haiku'
    model: str | None = None
    session_id: str | None = None
    source_id: str | None = None
    effect_sha256: str | None = None
    stagnating: bool = False
    tokens_estimated: bool = False
    not_kept: dict[str, int] | None = None
    cut: dict[str, int] | None = None

class LearningResult(Model):  # The result of adding a learning.
    verdict: Literal['unique', 'duplicate', 'conflict', 'echo', 'refused'] | str
    learning: FeatureLearning | None = None
    other: FeatureLearning | None = None
    why: str = ''
    run: RunAccepted | None = None

class Learnings(Model):  # Learnings of a feature, newest last; `conflicts` are the undecided pairs.
    learnings: list[FeatureLearning]
    conflicts: list[tuple[str, str]] = []
    to_review: list[str] = []

class MemoryProof(Model):  # The state that follows from a feature's journal, compared with the stored state.
    feature: str
    collection: str
    entries: int
    state_sha256: str
    documents: int
    indexed: int
    withheld: int = 0
    missing: list[str] = []
    surplus: list[str] = []
    differences: list[str] = []
    problems: list[str] = []

class PromptBlock(Model):  # A block for the next iteration's prompt
    text: str
    tokens: int
    learning_ids: list[str] = []
    record_ids: list[str] = []
    left_out: int = 0
    withheld: dict[str, int] | None = None

class RagStatus(Model):  # The state of a project's memory: whether index and embedder are available, and the lag of
    engine: str
    index_available: bool
    embedder_available: bool
    embedding_model: str | None
    features: int
    records: int
    learnings: int
    conflicts: int
    behind: int
    collections: list[str] = []
    orphans: list[str] = []
    problems: list[str] = []

class Recall(Model):  # The items that memory holds on a question, best first.
    project: str
    feature: str
    query: str
    results: list[Recollection]
    searched: Literal['hybrid', 'bm25', 'journal'] | str
    behind: int = 0
    duration_ms: float

class Recollection(Model):  # One item that memory holds on a question, with its ranking.
    kind: Literal['iteration', 'learning'] | str
    id: str
    text: str
    iteration: int
    score: float
    relevance: float
    weight: float
    outcome: IterationOutcome | None = None
    learning: FeatureLearning | None = None
    record: IterationRecord | None = None
    to_review: bool = False

class RememberedProject(Model):  # A project with a memory, and those of its features that the key may touch.
    project: str
    features: list[str]
