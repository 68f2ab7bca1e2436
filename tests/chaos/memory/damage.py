"""Journals damaged at random: every line that is whole counts, every other is told with its place, memory goes on."""

from __future__ import annotations

import json
import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.memory.api import LearningPatch
from sluice.contracts.memory.model import DecisionEntry, ErrorEntry, ErrorType, IterationOutcome
from sluice.memory import Memory, RagConfig, open_memory
from sluice.memory.journal import Journal, JournalEntry
from tests.support.memory.entries import record

FEATURE, PROJECT = "auth", "/home/me/shop"
_DECISIONS = ("Use the pool", "Do not use the pool", "Retry twice", "Use a timeout of 30 s")
_EVERY = 20
"""Of so many damaged journals one is also used, which takes a hundred times as long."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """A journal that was harmed in some ways, and what was wrong with how it was read or used."""

    harms: tuple[str, ...]
    lines: int
    """Those that are none any more."""
    is_used: bool
    problems: tuple[str, ...]


def damages(folder: Path, seed: int, count: int) -> Iterator[Damaged]:
    """Harm one and the same journal in `count` ways, each drawn from the seed."""
    chance = random.Random(seed)
    whole = _whole(folder / "whole", chance)
    for number in range(count):
        harms = tuple(chance.choice(list(HARMS)) for _ in range(chance.randint(1, 4)))
        lines = list(whole)
        for harm in harms:
            place = chance.randrange(len(lines) - 1)
            lines[place] = HARMS[harm](lines[place], chance)
        path = folder / str(number) / f"{FEATURE}.jsonl"
        path.parent.mkdir()
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        yield _look(path, set(whole), harms, number % _EVERY == 0, chance)


def _flip_a_bit(line: bytes, chance: random.Random) -> bytes:
    content = bytearray(line or b" ")
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def _exchange_a_digit(line: bytes, chance: random.Random) -> bytes:
    """What still is JSON, and says something else."""
    places = [at for at, byte in enumerate(line) if chr(byte) in "12345678"]
    at = chance.choice(places or [0])
    return line[:at] + b"9" + line[at + 1 :]


HARMS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "a bit flips": _flip_a_bit,
    "a digit is another": _exchange_a_digit,
    "the end is cut": lambda line, chance: line[: chance.randrange(len(line) + 1)],
    "the begin is cut": lambda line, chance: line[chance.randrange(len(line) + 1) :],
    "zeros": lambda line, _: b"\0" * len(line),
    "a line feed within": lambda line, _: line[: len(line) // 2] + b"\n" + line[len(line) // 2 :],
    "marks of a merge": lambda line, _: b"<<<<<<< HEAD\n" + line + b"\n=======",
    "twice": lambda line, _: line + b"\n" + line,
}
"""What may become of a line, by name."""


def _look(path: Path, whole: set[bytes], harms: tuple[str, ...], is_used: bool, chance: random.Random) -> Damaged:
    lines = path.read_bytes().split(b"\n")[:-1]
    broken = {number for number, line in enumerate(lines, start=1) if line not in whole}
    expected = {JournalEntry.from_json_line(line).id for line in lines if line in whole}
    try:
        problems = [*_read(path, broken, expected), *(_use(path, expected, chance) if is_used else ())]
    except Exception:
        problems = [traceback.format_exc(limit=-4)]
    return Damaged(harms, len(broken), is_used, tuple(problems))


def _read(path: Path, broken: set[int], expected: set[str]) -> Iterator[str]:
    journal = Journal(path.parent, FEATURE)
    found = journal.read().entry_ids
    if lost := expected - found:
        yield f"{len(lost)} entries of whole lines do not count"
    if strange := found - expected:
        yield f"{len(strange)} entries of damaged lines count"
    if untold := broken - {one.line for one in journal.problems()}:
        yield f"the damage of lines {sorted(untold)} is not told"
    content = path.read_bytes()
    for one in journal.problems():
        if one.offset and content[one.offset - 1 : one.offset] != b"\n":
            yield f"no line begins at {one}"


def _use(path: Path, expected: set[str], chance: random.Random) -> Iterator[str]:
    """The rest of memory on a damaged journal: it records, and tells of the damage."""
    content = path.read_bytes()
    with open_memory(path.parent, PROJECT, config=RagConfig(engine="none")) as memory:
        use(memory, chance, 100)
        if bool(memory.status().problems) != bool(Journal(path.parent, FEATURE).problems()):
            yield "the status does not tell of the damage"
    if not path.read_bytes().startswith(content):
        yield "what stood there was changed"
    if not expected < Journal(path.parent, FEATURE).read().entry_ids:
        yield "nothing is recorded any more"


def _whole(folder: Path, chance: random.Random) -> list[bytes]:
    with open_memory(folder, PROJECT, config=RagConfig(engine="none")) as memory:
        use(memory, chance, 1)
        use(memory, chance, 9)
    return (folder / f"{FEATURE}.jsonl").read_bytes().split(b"\n")[:-1]


def use(memory: Memory, chance: random.Random, first: int) -> None:
    """Eight iterations, and all that is done with what they taught."""
    for number in range(first, first + 8):
        memory.prompt(FEATURE)
        memory.record(FEATURE, _iteration(number, chance), format="record")
    memory.learn(FEATURE, "Use the pool for every call", "seen")
    memory.learn(FEATURE, "Never use the pool for any call", "seen")
    for one in memory.learnings(FEATURE, state=None).learnings:
        if chance.random() < 0.3:
            memory.patch(FEATURE, one.id, LearningPatch(reviewed=True, rejected=chance.random() < 0.5))
    memory.prune(FEATURE)
    memory.recall(FEATURE, "pool")
    memory.prompt(FEATURE)


def _iteration(number: int, chance: random.Random) -> dict[str, object]:
    error = ErrorEntry(message=f"TypeError: no '{chance.choice('abc')}'", error_type=ErrorType.RUNTIME, line=3)
    made = record(
        number,
        FEATURE,
        source_id=None,
        errors=(error,) * chance.randint(0, 1),
        decisions=(DecisionEntry(description=chance.choice(_DECISIONS), rationale="it failed otherwise"),),
        outcome=chance.choice(list(IterationOutcome)),
    )
    plain: dict[str, object] = json.loads(made.model_dump_json())
    return plain
