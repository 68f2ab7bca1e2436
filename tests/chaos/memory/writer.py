"""A process that records iterations and lessons of many features, as fast as the disk lets it, until it is killed.

It is forked by `tests.chaos.memory.crowd`. What is done is told by one line in a file of its own, written by one call
after the transaction has returned: it goes on behind the last line there, so what was written and not told is done
again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.memory.learning import LearningSource
from sluice.memory.journal import FeatureMemory, Journal, JournalEntry
from sluice.memory.journal import entry as entries
from tests.chaos.memory.failpoints import Fault, arm
from tests.support.memory.entries import added, iteration, learning, said


@dataclass(frozen=True, slots=True)
class Item:
    """An iteration to record, with what it taught: one of a few lessons of its feature, or nothing."""

    number: int
    feature: str
    lesson: str | None

    @property
    def iteration(self) -> JournalEntry:
        """Its entry; the id follows from the number."""
        return iteration(self.number, self.feature)

    def decide(self, state: FeatureMemory) -> list[JournalEntry]:
        """What is to be added for it: nothing where it was recorded by a process that could not tell."""
        if self.iteration.id in state.entry_ids:
            return []
        return [self.iteration, *self.taught(state)]

    def taught(self, state: FeatureMemory) -> list[JournalEntry]:
        """What is to be added for its lesson."""
        if self.lesson is None:
            return []
        distilled = said(entries.IterationsDistilled(entry_ids=(self.iteration.id,)))
        known = learning(self.lesson, feature=self.feature)
        if known.id not in state.learnings:
            return [added(self.lesson, feature=self.feature), distilled]
        repeated = entries.LearningRepeated(
            learning_id=known.id, text=self.lesson, reason=f"again in {self.number}", source=LearningSource.AGENT
        )
        return [said(repeated), distilled]


@dataclass(frozen=True, slots=True)
class Plan:
    """What all writers do. The same seed, the same items."""

    items: tuple[Item, ...]
    writers: int

    @classmethod
    def of(cls, iterations: int, features: int, writers: int, seed: int) -> Plan:
        """A plan drawn from the seed."""
        chance = random.Random(seed)
        return cls(
            tuple(
                Item(
                    number,
                    f"feature-{chance.randrange(features)}",
                    chance.choice((None, None, *(f"lesson {which}" for which in range(4)))),
                )
                for number in range(1, iterations + 1)
            ),
            writers,
        )

    def of_writer(self, writer: int) -> Sequence[Item]:
        """The items of one writer, in its order."""
        return self.items[writer :: self.writers]


def told_file(folder: Path, writer: int) -> Path:
    """Where a writer tells what it has done, a number on each line."""
    return folder / f"writer-{writer}.told"


def journals_folder(folder: Path) -> Path:
    """Where the journals lie."""
    return folder / "memory"


def write(plan: Plan, folder: Path, writer: int, fault: Fault | None) -> None:
    """A writer's life, from where the one before it ended."""
    if fault is not None:
        arm(fault)
    path = told_file(folder, writer)
    done = path.read_bytes().count(b"\n") if path.exists() else 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    journals: dict[str, Journal] = {}
    for item in plan.of_writer(writer)[done:]:
        journal = journals.setdefault(item.feature, Journal(journals_folder(folder), item.feature))
        record_and_tell(journal, item, descriptor)


def record_and_tell(journal: Journal, item: Item, descriptor: int) -> None:
    """Record an item, and then tell that it is."""
    journal.transact(item.decide)
    os.write(descriptor, f"{item.number}\n".encode())
