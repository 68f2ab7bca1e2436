"""What must hold of the journals after any number of deaths, read past the product's own reader, and then by it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.memory.journal import Journal
from sluice.memory.journal.file import prove
from tests.chaos.memory.writer import Plan, journals_folder, told_file
from tests.support.memory.entries import learning

Entry = dict[str, Any]
"""A line as plain JSON."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found; no problem is what must be."""

    told: int
    """Items that a writer said were recorded."""
    entries: int
    set_aside: int
    """Torn ends that were kept beside the journals."""
    problems: tuple[str, ...]


def judge(
    plan: Plan, folder: Path, readers: Mapping[str, Journal], failed: Iterable[str] = (), *, has_lessons: bool = True
) -> Verdict:
    """Compare the journals with what was to be written, what was told to be, and what the readers hold."""
    lines = {path.stem: _lines(path) for path in sorted(journals_folder(folder).glob("*.jsonl"))}
    told = {
        int(number)
        for writer in range(plan.writers)
        if told_file(folder, writer).exists()
        for number in told_file(folder, writer).read_text().split()
    }
    lessons = _of_lessons(plan, readers) if has_lessons else ()
    return Verdict(
        len(told),
        sum(map(len, lines.values())),
        len(list(journals_folder(folder).glob("*.torn-*"))),
        (*failed, *_of_records(plan, told, lines), *lessons, *_of_readers(readers)),
    )


def _lines(path: Path) -> list[Entry | None]:
    """Each line as plain JSON; None for one that is none."""
    *whole, rest = path.read_bytes().split(b"\n")
    return [_plain(line) for line in whole] + ([None] if rest else [])


def _plain(line: bytes) -> Entry | None:
    try:
        plain = json.loads(line)
    except ValueError:
        return None
    return plain if isinstance(plain, dict) else None


def _of_records(plan: Plan, told: set[int], lines: Mapping[str, list[Entry | None]]) -> Iterator[str]:
    """No record lost, none twice, none in another feature's journal."""
    of_item = {item.number: item.feature for item in plan.items}
    kept: Counter[tuple[str, int]] = Counter()
    for feature, found in lines.items():
        entries = [entry for entry in found if entry is not None]
        if damaged := len(found) - len(entries):
            yield f"{feature}: {damaged} damaged lines"
        for one, count in Counter(entry["id"] for entry in entries).items():
            if count > 1:
                yield f"{feature}: entry {one} stands there {count} times"
        kept.update(
            (feature, entry["body"]["record"]["iteration_number"])
            for entry in entries
            if entry["body"]["kind"] == "iteration"
        )
    for (feature, number), count in kept.items():
        if of_item.get(number) != feature:
            yield f"{feature}: item {number} of {of_item.get(number)} is in another feature's journal"
        if count > 1:
            yield f"{feature}: item {number} is recorded {count} times"
    for number, feature in of_item.items():
        if not kept[feature, number]:
            yield f"{feature}: item {number} is lost" + (", and was told" if number in told else "")


def _of_lessons(plan: Plan, readers: Mapping[str, Journal]) -> Iterator[str]:
    """Each lesson was observed as often as it was taught, and what was written together is there together."""
    taught = Counter((item.feature, item.lesson) for item in plan.items if item.lesson)
    for (feature, lesson), count in taught.items():
        found = readers[feature].read().learnings.get(learning(str(lesson), feature=feature).id)
        if found is None or found.hit_count != count:
            yield f"{feature}: {lesson} was observed {found and found.hit_count} times, and taught {count} times"
    for feature, reader in readers.items():
        expected = {item.iteration.id for item in plan.items if item.lesson and item.feature == feature}
        if reader.read().distilled != expected:
            yield f"{feature}: other iterations are distilled than those that taught something"


def _of_readers(readers: Mapping[str, Journal]) -> Iterator[str]:
    """What was read piece by piece is what a reading from the start gives."""
    for feature, reader in readers.items():
        proof = prove(reader)
        yield from (f"{feature}: {one}" for one in (*proof.differences, *proof.problems))
