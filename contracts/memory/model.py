"""One iteration of an agent's loop in memory: its attempts, errors, decisions and touched files.

Decoding is strict: an unknown field, a missing one or a value of the wrong type is an error that names the field.
Nothing falls back to another type.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from sluice.contracts.base import LaterText, Moment, Sha256, Switch, Value, is_empty, is_none
from sluice.contracts.memory.names import FeatureName, RelativePath

MAX_SUMMARY_CHARACTERS = 2_000
MAX_MESSAGE_CHARACTERS = 2_000
MAX_EMBEDDING_CHARACTERS = 4_000
MAX_ENTRIES = 200
"""The most errors, decisions and files that one record holds."""

ShortText = Annotated[str, Field(max_length=200)]


class IterationOutcome(StrEnum):
    """The result of an iteration."""

    SUCCESS = "Success"
    FAILURE = "Failure"
    PARTIAL = "Partial"
    TIMEOUT = "Timeout"
    RATE_LIMITED = "RateLimited"


class ErrorType(StrEnum):
    """The kind of error that a tool reported."""

    RUNTIME = "Runtime"
    COMPILE = "Compile"
    TEST = "Test"
    LINT = "Lint"
    PERMISSION = "Permission"
    LOGIC = "Logic"
    UNKNOWN = "Unknown"


class FileAction(StrEnum):
    """The action of an iteration on a file."""

    CREATED = "Created"
    MODIFIED = "Modified"
    READ = "Read"
    DELETED = "Deleted"


class ModelTier(StrEnum):
    """The model's role in the loop: `Haiku` works on a task, `Opus` reviews. `model` holds its name."""

    HAIKU = "Haiku"
    OPUS = "Opus"


class CheckRun(Value):
    """A run of a program: with its subcommand (`npm run lint`), on `targets` (files, folders, selected tests).

    Without targets it ran on all of the project.
    """

    program: ShortText
    targets: Annotated[tuple[str, ...], Field(max_length=MAX_ENTRIES)] = ()
    passed: bool = False
    after: LaterText = None
    """Of the last run of a check: what the iteration had changed before it, and said of it."""

    def covers(self, earlier: CheckRun) -> bool:
        """Return whether this run also ran all that an earlier one did: the same program, on its targets or more."""
        if self.program != earlier.program:
            return False
        inside = tuple(f"{wide}{end}" for wide in self.targets for end in ("/", "::", " "))
        of_both = (one in self.targets or one.startswith(inside) for one in earlier.targets)
        return not self.targets or (bool(earlier.targets) and all(of_both))


class ErrorEntry(Value):
    """An error that a tool reported. `line` is 1-based."""

    message: Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE_CHARACTERS)]
    error_type: ErrorType | None = None
    file_path: RelativePath | None = None
    line: Annotated[int, Field(ge=1)] | None = None
    tool: LaterText = None
    """The tool that reported it (`pytest`, `mypy`, `gcc`); None if unknown."""
    evidence: Annotated[str | None, Field(max_length=MAX_MESSAGE_CHARACTERS, exclude_if=is_none)] = None
    """The last lines of the output that reported it, unchanged. An output's first error has them for all its errors."""
    check: Annotated[CheckRun | None, Field(exclude_if=is_none)] = None
    """The run that reported it, on the targets in which it failed: a later run that covers it and passes ends it."""
    solved_by: LaterText = None
    """How it was solved, if it was: the files changed or the commands run in between, and what the agent said of it."""


class DecisionEntry(Value):
    """A decision of the agent, and its rationale."""

    description: Annotated[str, Field(min_length=1, max_length=1_000)]
    rationale: Annotated[str, Field(max_length=1_000)] | None = None


class FileTouched(Value):
    """A file that the iteration read or changed; its path is relative to the project and inside it."""

    path: RelativePath
    action: FileAction


class IterationRecord(Value):
    """One iteration of the agent's loop on one feature: the unit of memory. `source_id` is the hash of the record's
    input, so that recording the same input again adds nothing."""

    iteration_number: Annotated[int, Field(ge=1)]
    task_id: Annotated[int, Field(ge=0)] = 0
    task_title: ShortText = ""
    feature: FeatureName
    discipline: Annotated[str, Field(max_length=100)] = ""
    timestamp: Moment
    outcome: IterationOutcome
    summary: Annotated[str, Field(max_length=MAX_SUMMARY_CHARACTERS)] = ""
    errors: Annotated[tuple[ErrorEntry, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Errors that stand at its end."""
    solved: Annotated[tuple[ErrorEntry, ...], Field(max_length=MAX_ENTRIES, exclude_if=is_empty)] = ()
    """Errors that it ended, its own and those of iterations before it: their check passed, or reported others."""
    checks: Annotated[tuple[CheckRun, ...], Field(max_length=MAX_ENTRIES, exclude_if=is_empty)] = ()
    """The last run of each test, lint, type check and build."""
    decisions: Annotated[tuple[DecisionEntry, ...], Field(max_length=MAX_ENTRIES)] = ()
    files_touched: Annotated[tuple[FileTouched, ...], Field(max_length=MAX_ENTRIES)] = ()
    tokens_used: Annotated[int, Field(ge=0)] | None = None
    duration_ms: Annotated[int, Field(ge=0)] | None = None
    model_tier: ModelTier = ModelTier.HAIKU

    model: LaterText = None
    """The model's own name, as in the agent's output."""
    session_id: LaterText = None
    """The agent's own name of its session."""
    source_id: Annotated[Sha256 | None, Field(exclude_if=is_none)] = None
    effect_sha256: Annotated[Sha256 | None, Field(exclude_if=is_none)] = None
    """Hash of the iteration's effects, without times and addresses: see `memory.extraction.files`."""
    stagnating: Switch = False
    """Whether the previous iterations had exactly the same effects."""
    tokens_estimated: Switch = False
    """Whether `tokens_used` is summed from single messages, as the stream gave no total."""
    not_kept: Annotated[dict[str, int], Field(exclude_if=is_empty)] = Field(default_factory=dict)
    """Items seen in the output but not recorded, counted by reason (`path_outside`, `unknown_event`, `echo`)."""
    cut: Annotated[dict[str, int], Field(exclude_if=is_empty)] = Field(default_factory=dict)
    """Text that sanitising removed, counted by rule."""

    def embedding_text(self) -> str:
        """Return at most 4,000 characters to embed: title, outcome, summary, errors, decisions and changed files."""
        errors = (_told(error) for error in (*self.errors, *self.solved))
        decisions = (
            f"Decision: {one.description}" + (f" ({one.rationale})" if one.rationale else "") for one in self.decisions
        )
        changed = [one.path for one in self.files_touched if one.action is not FileAction.READ]
        lines = (
            self.task_title,
            f"{self.discipline} iteration {self.iteration_number}: {self.outcome}".strip(),
            self.summary,
            *errors,
            *decisions,
            f"Changed: {', '.join(changed)}" if changed else "",
        )
        return "\n".join(line for line in lines if line)[:MAX_EMBEDDING_CHARACTERS]

    def point_id(self, project_path: str) -> UUID:
        """Return the iteration's id in the search index: always the same for the same iteration of the same project."""
        task = (str(self.task_id), str(self.iteration_number), self.source_id or "")
        return point_id(project_path, self.feature, *task)


def point_id(*parts: str) -> UUID:
    """Return the search index id for these parts: always the same for the same parts."""
    return UUID(bytes=hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()[:16], version=5)


def _told(error: ErrorEntry) -> str:
    place = f" in {error.file_path}" + (f":{error.line}" if error.line else "") if error.file_path else ""
    solved = f"; solved: {error.solved_by}" if error.solved_by else ""
    return f"{error.error_type or 'Unknown'} error{place}: {error.message}{solved}"
