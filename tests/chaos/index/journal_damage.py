"""Damage to the journal, which is the truth: it is reported as `Corrupted`, and never skipped.

A bit that flips, a segment that is cut, missing or swapped for another must be refused when the journal is read: at
the latest when a rebuild reads all of it, and the generation that is current keeps serving. Only the end of the last
segment may be cut off, as a death in the middle of an append leaves it: then exactly the records before it are held.
A flipped bit in the very last record cannot be told from such a torn end, unless a generation covers that record.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.errors import Corrupted
from sluice.index.folder import CorpusLayout
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from tests.chaos.index.child import ChildFailed, in_child
from tests.chaos.index.corpus import (
    CORPUS,
    TODAY,
    WITH_RECENT,
    Holding,
    Step,
    after,
    copy_tree,
    documents,
    found,
    new_reader,
    passages,
)
from tests.chaos.index.harms import flip_a_bit

SETTINGS = WritePolicy(journal_segment_bytes=4_000)
PUBLISHED = (Step(documents(range(12))), *(Step(documents((number,))) for number in range(12, 24)))
APPENDED = tuple(Step(documents((number,), version=3)) for number in range(8))
KINDS = ("flip", "flip", "flip", "cut", "missing", "swap", "torn", "beside")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One damage, where the writer noticed it, and what was wrong."""

    damage: str
    noticed: str
    problems: tuple[str, ...]


def refusals(folder: Path, seed: int, count: int) -> Iterator[Refusal]:
    """`count` damages at random, each to a fresh copy of a journal of several segments."""
    base, root = folder / "base", folder / "copy"
    ends = in_child(lambda: _write(base))
    for number in range(count):
        copy_tree(base, root)
        try:
            yield in_child(lambda: _suffer(root, random.Random(f"{seed}:{number}"), ends))  # noqa: B023
        except ChildFailed as error:
            yield Refusal("unknown", "", (str(error),))
        finally:
            shutil.rmtree(root)
    shutil.rmtree(base)


def _write(root: Path) -> list[int]:
    """Write the corpus, publish a part of it; the sizes of the last segment after each append that is in it."""
    sizes = []
    with IndexWriter(root, CORPUS, SETTINGS, clock=lambda: TODAY) as writer:
        for step in PUBLISHED:
            step.perform(writer)
        writer.publish()
        for step in APPENDED:
            step.perform(writer)
            sizes.append((_segments(root)[-1].name, _segments(root)[-1].stat().st_size))
    last = _segments(root)[-1].name
    assert len(_segments(root)) > 3
    return [size for name, size in sizes if name == last]


def _suffer(root: Path, chance: random.Random, ends: list[int]) -> Refusal:
    done, lost_records = _harm(_segments(root), chance, ends)
    before = passages(_holding(0))
    problems = _followed(root)
    try:
        writer = IndexWriter(root, CORPUS, SETTINGS, clock=lambda: TODAY)
    except Corrupted:
        return Refusal(done, "open", (*problems, *_serves(root, before)))
    try:
        writer.publish()
        writer.rebuild()
        noticed = "never"
    except Corrupted:
        noticed = "rebuild"
    writer.close()
    if noticed == "never" and lost_records is None:
        problems.append("nobody noticed")
    if lost_records is not None and noticed != "never":
        problems.append("what is no damage is called damage")
    right = passages(_holding(len(APPENDED) - (lost_records or 0)))
    return Refusal(done, noticed, tuple(f"{done}: {problem}" for problem in (*problems, *_serves(root, right))))


def _harm(segments: list[Path], chance: random.Random, ends: list[int]) -> tuple[str, int | None]:
    """Do one damage. Returns what was done and, where it is a torn end, how many appends are lost with it."""
    kind, path = chance.choice(KINDS), chance.choice(segments)
    content = path.read_bytes()
    match kind:
        case "flip":
            last_start = ends[-2]
            changed = flip_a_bit(content[:last_start], chance) + content[last_start:] if path == segments[-1] else b""
            path.write_bytes(changed or flip_a_bit(content, chance))
        case "cut":
            path = chance.choice(segments[:-1])
            os.truncate(path, chance.randrange(path.stat().st_size))
        case "missing":
            path = chance.choice(segments[:-1])
            path.unlink()
        case "swap":
            path, other = chance.sample(segments[:-1], 2)
            path.write_bytes(other.read_bytes())
        case "beside":  # what stands beside the segments may help a reader, and is not the truth
            others = [other for other in path.parent.iterdir() if other not in segments]
            for other in others[:1]:
                old = other.read_bytes()
                other.write_bytes(flip_a_bit(old, chance) if chance.random() < 0.5 else b"")
            return f"beside: {[other.name for other in others[:1]]}", 0
        case "torn":
            path, size = segments[-1], chance.randrange(ends[0], ends[-1])
            os.truncate(path, size)
            return f"torn at {size}", sum(end > size for end in ends)
    return f"{kind} {path.name}", None


def _followed(root: Path) -> list[str]:
    """What is wrong with what a reader lays over the generation from the damaged journal: no record is left out."""
    told: list[str] = []
    reader = new_reader(root, told, settings=WITH_RECENT)
    held = found(reader)
    reader.close()
    if held in [passages(_holding(count)) for count in range(len(APPENDED) + 1)]:
        return []
    return [f"a reader of recent records leaves one out: {told}"]


def _holding(appended: int) -> Holding:
    """What the journal holds with so many of the appended records."""
    return after({}, [record for step in (*PUBLISHED, *APPENDED[:appended]) for record in step.records])


def _serves(root: Path, right: list[tuple[str, str, str]]) -> tuple[str, ...]:
    problems: list[str] = []
    reader = new_reader(root, problems)
    if found(reader) != right:
        problems.append("something else is served")
    return tuple(problems)


def _segments(root: Path) -> list[Path]:
    return sorted(CorpusLayout(root, CORPUS).journal.glob("*.log"))
