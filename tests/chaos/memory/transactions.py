"""Kinds of transactions of a journal, done once by a child that is killed, cut off from power or refused on the way.

Whatever happens the journal holds what it held before or all that was to be added, never a part; what the child was
told to be written is there; and doing it again gives the very state of an undisturbed run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sluice.memory.journal import Journal, JournalEntry
from sluice.memory.journal import entry as entries
from sluice.memory.journal.file import prove, state_sha256
from tests.chaos.index.tracer import mark
from tests.support.memory.entries import added, iteration, learning, said

FEATURE = "auth"
REPEATED = entries.LearningRepeated(learning_id=learning().id, text="again", reason="seen again", source="Agent")
TOGETHER = (iteration(2), added(), said(REPEATED))


@dataclass(frozen=True, slots=True)
class Kind:
    """What stands there before, and what a transaction adds to it."""

    name: str
    prepare: Callable[[Path], None]
    entries: tuple[JournalEntry, ...]
    torn: bytes = b""
    """What a dead writer has left at the end, and must be kept aside."""

    def perform(self, root: Path, told: int) -> None:
        """The transaction, between two marks; whoever reads from `told` is told that it is done."""
        journal = open_journal(root)
        mark()
        journal.append(self.entries)
        os.write(told, b"done")
        mark()


def open_journal(root: Path) -> Journal:
    """The journal below `root`, in folders that are made with it."""
    return Journal(root / "db" / "memory", FEATURE)


def _nothing(_: Path) -> None:
    return


def _one_iteration(root: Path) -> None:
    open_journal(root).append([iteration(1)])


def _and_behind_it(torn: bytes) -> Callable[[Path], None]:
    def prepare(root: Path) -> None:
        _one_iteration(root)
        with open_journal(root).path.open("ab") as file:
            file.write(torn)

    return prepare


def _begun() -> bytes:
    """Two of three lines that were to be written together."""
    lines = [one.model_copy(update={"continued": True}).to_json_line() for one in (iteration(3), iteration(4))]
    return "".join(f"{line}\n" for line in lines).encode()


HALF_A_LINE = iteration(3).to_json_line().encode()[:200]
KINDS = (
    Kind("the first entry", _nothing, (iteration(1),)),
    Kind("one entry", _one_iteration, (iteration(2),)),
    Kind("three entries", _one_iteration, TOGETHER),
    Kind("behind half a line", _and_behind_it(HALF_A_LINE), TOGETHER, HALF_A_LINE),
    Kind("behind two lines of three", _and_behind_it(_begun()), TOGETHER, _begun()),
    Kind("behind a line without its end", _and_behind_it(iteration(2).to_json_line().encode()), TOGETHER),
)


def undisturbed(kind: Kind, root: Path) -> tuple[str, ...]:
    """The SHA-256 of each state that a reader may see where nothing happens: before, healed, and after."""
    root.mkdir()
    kind.prepare(root)
    journal = open_journal(root)
    states = [journal.read(), journal.transact(lambda _: [])[0]]
    journal.append(kind.entries)
    return tuple(state_sha256(one) for one in (*states, journal.read()))


def look(kind: Kind, root: Path, told: bytes, expected: tuple[str, ...]) -> list[str]:
    """What is wrong after a disturbance, and after doing it again."""
    problems = []
    found = state_sha256(open_journal(root).read())
    if found not in expected:
        problems.append("a part of the entries is there")
    if told and found != expected[-1]:
        problems.append("what was acknowledged is lost")
    journal = open_journal(root)
    journal.append(kind.entries)
    proof = prove(journal)
    if proof.sha256 != expected[-1]:
        problems.append("doing it again gives another state")
    problems += [*proof.differences, *map(str, proof.problems)]
    if kind.torn and kind.torn not in [one.read_bytes() for one in journal.path.parent.glob("*.torn-*")]:
        problems.append("what was cut off is not kept")
    return problems
