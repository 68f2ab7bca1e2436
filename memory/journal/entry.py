"""Entries of a journal. Each is a fact in the past tense; their sum is the state of a feature.

A line is the JSON of a `JournalEntry`: the version first, then the id, and last the hash of all bytes before it, which
reveals a damaged line. It contains only ASCII, ends with a line feed, and is at most `MAX_LINE_BYTES` long with it.
Types are strict in the JSON too: `"7"` is no number, and an unknown field is an error.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field, ValidationError
from pydantic_core import PydanticSerializationError

from sluice.contracts.base import LaterText, Moment, Switch, Value
from sluice.contracts.errors import Corrupted, InvalidInput, first_problem
from sluice.contracts.memory.learning import FeatureLearning, LearningId, LearningSource, LearningText, Reason
from sluice.contracts.memory.model import IterationRecord

ENTRY_VERSION = 1
MAX_LINE_BYTES = 1 << 20


class IterationAdded(Value):
    """An iteration ended."""

    kind: Literal["iteration"] = "iteration"
    record: IterationRecord


class IterationsDistilled(Value):
    """Iterations were searched for learnings. `echoes` counts texts that only repeat their prompts."""

    kind: Literal["distilled"] = "distilled"
    entry_ids: tuple[str, ...]
    echoes: int = 0


class LearningAdded(Value):
    """A learning with new content was added. `near_to` names similar ones that are kept apart."""

    kind: Literal["learning"] = "learning"
    learning: FeatureLearning


class LearningRepeated(Value):
    """A text repeats a learning, which was observed once more. The text is kept, so that this can be undone."""

    kind: Literal["repeated"] = "repeated"
    learning_id: LearningId
    text: LearningText
    reason: Reason
    source: LearningSource
    iteration: Annotated[int, Field(ge=0)] = 0
    task_id: Annotated[int, Field(ge=0)] | None = None
    why: str = ""
    """Reason for which both count as the same."""


class RepetitionUndone(Value):
    """A person ruled that the text of a `repeated` entry is another learning, added by an entry of its own."""

    kind: Literal["repetition_undone"] = "repetition_undone"
    entry_id: str


class LearningPatched(Value):
    """A learning was edited; fields that are None stay unchanged."""

    kind: Literal["patched"] = "patched"
    learning_id: LearningId
    text: LearningText | None = None
    reason: Reason | None = None
    task_id: Annotated[int, Field(ge=0)] | None = None
    source: LearningSource
    note: str = ""


class LearningReviewed(Value):
    """Somebody reviewed a learning. `rejected`: it is not offered any more."""

    kind: Literal["reviewed"] = "reviewed"
    learning_id: LearningId
    rejected: bool = False
    source: LearningSource
    note: str = ""


class ConflictFound(Value):
    """Two near learnings differ. Both stand until somebody decides, or an iteration's outcome does."""

    kind: Literal["conflict"] = "conflict"
    learning_id: LearningId
    other_id: LearningId
    evidence: str = ""


class ConflictResolved(Value):
    """It was decided between two learnings: `kept` stays and stands in the other's place; None: both stay.

    A correction decides too, between itself and the learning that it names as wrong.
    """

    kind: Literal["conflict_resolved"] = "conflict_resolved"
    learning_id: LearningId
    other_id: LearningId
    kept: LearningId | None
    source: LearningSource
    note: str = ""


class BlockPrinted(Value):
    """A block was given to an iteration's prompt. Near copies of its `lines` are no new learnings.

    `lines` leave out the agent's own decisions: to decide so again is no echo.
    """

    kind: Literal["printed"] = "printed"
    session_id: LaterText = None
    iteration_number: Annotated[int, Field(ge=1)]
    learning_ids: tuple[LearningId, ...]
    record_ids: tuple[str, ...] = ()
    lines: tuple[str, ...]


class LearningWeighed(Value):
    """Effect of a learning in an iteration whose prompt showed it. `helped` and `failed_again` exclude each other."""

    kind: Literal["weighed"] = "weighed"
    learning_id: LearningId
    entry_id: str
    """Entry id of the iteration."""
    used: bool
    helped: Switch = False
    failed_again: Switch = False


class LearningsPruned(Value):
    """Learnings without effect were pruned: they are not offered any more."""

    kind: Literal["pruned"] = "pruned"
    learning_ids: tuple[LearningId, ...]
    why: str


EntryBody = Annotated[
    IterationAdded
    | IterationsDistilled
    | LearningAdded
    | LearningRepeated
    | RepetitionUndone
    | LearningPatched
    | LearningReviewed
    | ConflictFound
    | ConflictResolved
    | BlockPrinted
    | LearningWeighed
    | LearningsPruned,
    Field(discriminator="kind"),
]


class JournalEntry(Value):
    """One line of a journal. `id` is fixed before the first try to write it: a second line of that id adds nothing."""

    version: Literal[1] = 1
    id: Annotated[str, Field(pattern=r"^mem_[0-9a-f]{32}$")]
    at: Moment
    body: EntryBody
    continued: Switch = False
    """Whether the next line was written together with this one: if that is missing, this one does not count."""

    @classmethod
    def of(cls, body: EntryBody, *, key: str, at: datetime | None = None) -> JournalEntry:
        """Build an entry. Its id derives from its kind and `key`, and so is the same for the same fact told again."""
        digest = hashlib.sha256(f"{body.kind}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()
        return cls(id=f"mem_{digest[:32]}", at=at or datetime.now(UTC), body=body)

    @classmethod
    def new(cls, record: IterationRecord) -> JournalEntry:
        """Build the entry of an iteration, at the iteration's own time."""
        key = record.source_id or record.model_dump_json(exclude={"timestamp"})
        return cls.of(IterationAdded(record=record), key=f"{record.feature}\0{key}", at=record.timestamp)

    def to_json_line(self) -> str:
        """Return the line, without its line feed.

        Raises `InvalidInput` if it would exceed `MAX_LINE_BYTES`, or a text holds half of a surrogate pair.
        """
        try:
            content = self.model_dump_json(ensure_ascii=True)[:-1]
        except PydanticSerializationError as error:
            raise InvalidInput("data", f"cannot be written as JSON: {error}", "replace what is no Unicode") from error
        line = f'{content},"checksum":"{_checksum(content.encode())}"}}'
        if len(line) >= MAX_LINE_BYTES:
            raise InvalidInput("data", f"an entry of {len(line)} bytes", f"keep it below {MAX_LINE_BYTES} bytes")
        return line

    @classmethod
    def from_json_line(cls, line: bytes | str) -> JournalEntry:
        """Read the entry of a line.

        Raises `Corrupted` for a missing or wrong checksum, no JSON, an unknown version, or wrong fields.
        """
        line = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
        content, checksum = line[:-_CHECKSUM_BYTES], _CHECKSUM.fullmatch(line[-_CHECKSUM_BYTES:])
        if checksum is None:
            raise Corrupted("no entry of a journal: it does not end with a checksum")
        if checksum[1] != _checksum(content).encode():
            raise Corrupted("its checksum is not that of its content")
        try:
            return cls.model_validate_json(content + b"}", strict=True)
        except ValidationError as error:
            field, problem = first_problem(error)
            if field == "version":
                found = json.loads(content + b"}").get("version")
                problem = f"version {found!r} is not known; this program reads version {ENTRY_VERSION}"
            raise Corrupted(f"{field}: {problem}") from error


_CHECKSUM = re.compile(rb',"checksum":"([0-9a-f]{16})"\}')
_CHECKSUM_BYTES = len(',"checksum":"0123456789abcdef"}')


def _checksum(content: bytes) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of the line up to here."""
    return hashlib.sha256(content).hexdigest()[:16]
