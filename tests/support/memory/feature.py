"""Iterations and learnings of one feature, as tests of memory make them: a state to which entries are added."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.contracts.memory.api import LearningResult, PromptBlock
from sluice.contracts.memory.learning import FeatureLearning, LearningSource
from sluice.contracts.memory.model import DecisionEntry, ErrorEntry, ErrorType, FileAction, FileTouched, IterationRecord
from sluice.memory.journal.entry import JournalEntry
from sluice.memory.journal.feature_memory import FeatureMemory, fold
from sluice.memory.learning.add import Candidate, add_learning
from sluice.memory.learning.deduplication import check_deduplication
from sluice.memory.learning.distil import distil
from sluice.memory.ports import AskModel, Sanitise
from sluice.memory.recall.prompt import make_prompt_block
from sluice.memory.sanitise import sanitise_record, sanitize_learning_text

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class Feature:
    """The memory of a feature, without a file."""

    def __init__(self, sanitise: Sanitise = sanitize_learning_text) -> None:
        self.state = FeatureMemory("auth")
        self.entries: list[JournalEntry] = []
        self.at = START
        self._sanitise = sanitise

    def fold(self, entries: Iterable[JournalEntry]) -> list[JournalEntry]:
        """Add entries that are new, as the journal does."""
        new = [entry for entry in entries if entry.id not in self.state.entry_ids]
        for entry in new:
            fold(self.state, entry)
        self.entries += new
        return new

    def record(self, number: int, outcome: str = "Failure", *, sanitise: Sanitise | None = None, **fields: Any) -> str:
        """Record an iteration, with `sanitise` as memory does; its entry id."""
        made = IterationRecord(
            iteration_number=number,
            feature="auth",
            timestamp=self.at + timedelta(minutes=number),
            outcome=outcome,
            **fields,
        )
        entry = JournalEntry.new(sanitise_record(made, sanitise) if sanitise else made)
        self.fold([entry])
        return entry.id

    def learn(self, text: str, source: LearningSource = LearningSource.AGENT, **fields: Any) -> LearningResult:
        """Add a learning."""
        candidate = Candidate(text, fields.pop("reason", "seen in a test run"), source, **fields)
        result, entries = add_learning(
            self.state, candidate, compare=check_deduplication, sanitise=self._sanitise, at=self.at
        )
        self.fold(entries)
        return result

    def distil(self, ask: AskModel | None = None) -> list[JournalEntry]:
        """Distil what waits; the new entries."""
        found = distil(
            self.state, compare=check_deduplication, sanitise=self._sanitise, at=self.at, ask=ask, model="small-model"
        )
        return self.fold(found)

    def prompt(self, sanitise: Sanitise) -> tuple[PromptBlock, JournalEntry]:
        """The block for the next iteration's prompt, of at most 4,000 characters."""
        return make_prompt_block(
            self.state,
            iteration_number=self.state.next_iteration(),
            session_id=None,
            task_id=None,
            query="",
            max_tokens=4_000,
            count_tokens=len,
            sanitise=sanitise,
            now=self.at,
        )

    @property
    def learnings(self) -> list[FeatureLearning]:
        """As they stand, the oldest first."""
        return list(self.state.learnings.values())

    @property
    def texts(self) -> list[str]:
        """What they say."""
        return [one.text for one in self.learnings]


def error(
    message: str,
    path: str | None = None,
    line: int | None = None,
    kind: ErrorType = ErrorType.TEST,
    tool: str = "pytest",
) -> ErrorEntry:
    """An error as a tool reports it."""
    return ErrorEntry(message=message, error_type=kind, file_path=path, line=line, tool=tool)


def changed(*paths: str) -> tuple[FileTouched, ...]:
    """Files that an iteration changed."""
    return tuple(FileTouched(path=path, action=FileAction.MODIFIED) for path in paths)


def decided(*pairs: tuple[str, str | None]) -> Sequence[DecisionEntry]:
    """Decisions and why they were taken."""
    return tuple(DecisionEntry(description=what, rationale=why) for what, why in pairs)
