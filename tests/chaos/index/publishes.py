"""Kinds of publish to be interrupted: what is there before, what is appended, and what must be there after.

The traced child opens the writer, sets a mark, appends step by step, tells each that was acknowledged, publishes,
closes, and sets the second mark: the collector of old generations is interrupted too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.document import ChunkedDocument
from sluice.contracts.errors import Corrupted, NotFound
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import list_generations, verify
from sluice.index.local.reader import find_in_generations, find_in_journal
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from tests.chaos.index.corpus import (
    CORPUS,
    TODAY,
    WITH_RECENT,
    Holding,
    Step,
    Story,
    after,
    documents,
    found,
    new_reader,
    passages,
    roll_back,
)
from tests.chaos.index.tracer import mark


@dataclass(frozen=True, slots=True)
class Kind:
    """A publish: the story before it, the steps it makes searchable, the settings of its writer."""

    before: Story
    steps: tuple[Step, ...]
    settings: WritePolicy
    is_rolled_back: bool = False
    """Whether the current generation lacks the story's last step."""
    rebuilds: bool = False
    erases: bool = False
    """Whether nothing may be left of what the steps remove: then the next writer erases again, as a retry does."""

    @property
    def name(self) -> str:
        """The name of the story before."""
        return self.before.name

    @property
    def records(self) -> list[ChunkedDocument | str]:
        """Everything that is appended, record by record."""
        return [record for step in self.steps for record in step.records]

    @property
    def old(self) -> Holding:
        """What is served before."""
        steps = self.before.steps[:-1] if self.is_rolled_back else self.before.steps
        return after({}, [record for step in steps for record in step.records])

    def holding(self, record_count: int) -> Holding:
        """What the journal holds when so many of the records are in it."""
        return after(self.before.holding, self.records[:record_count])

    @property
    def new(self) -> Holding:
        """What is served when all went well."""
        return self.holding(len(self.records))

    def prepare(self, root: Path) -> None:
        """Write what is there before."""
        if self.before.steps:
            self.before.tell(root)

    def perform(self, root: Path, report: int) -> None:
        """The interrupted part; tells how many steps were acknowledged, one byte each, then `P` for the publish."""
        writer = IndexWriter(root, CORPUS, self.settings, clock=lambda: TODAY)
        mark()
        for step in self.steps:
            step.perform(writer)
            os.write(report, b"a")
        if self.rebuilds:
            writer.rebuild()
        elif self.erases:
            writer.erase()
        else:
            writer.publish()
        os.write(report, b"P")
        writer.close()
        mark()


def look(root: Path, kind: Kind, told: bytes) -> list[str]:
    """What is wrong with a corpus whose writer was stopped after it had told `told`."""
    least = sum(len(step.records) for step in kind.steps[: told.count(b"a")])
    most = sum(len(step.records) for step in kind.steps[: told.count(b"a") + 1])
    problems = _served(root, kind, must_be_new=b"P" in told)
    problems += _recent(root, kind, least, most)
    problems += unverified(root)
    allowed = [passages(kind.holding(count)) for count in range(least, most + 1)]
    if kind.erases:  # what was not acknowledged is removed by the retry
        gone = {name for step in kind.steps for name in step.removals}
        allowed = [[passage for passage in some if passage[0] not in gone] for some in allowed]
    fallbacks: list[str] = []
    with IndexWriter(root, CORPUS, kind.settings, clock=lambda: TODAY, on_fallback=fallbacks.append) as writer:
        problems += [f"the next writer fell back: {reason}" for reason in fallbacks]
        if kind.erases:
            problems += _left_of_removed(root, kind) if b"P" in told else []
            for step in kind.steps:
                writer.remove(step.removals)
            writer.erase()
            problems += _left_of_removed(root, kind)
        step_after(least).perform(writer)
        writer.publish()
    reader = new_reader(root, fallbacks)
    extra = {document.document_id for document in step_after(least).puts}
    kept = [passage for passage in found(reader) if passage[0] not in extra]
    if kept not in allowed:
        problems.append(f"after another publish: {len(kept)} passages, acknowledged were {len(allowed[0])}")
    reader.close()
    problems += unverified(root)
    left = [path.name for path in (root / CORPUS / "generations").iterdir() if path.name.startswith(".")]
    return problems + [f"left behind: {name}" for name in left]


def _left_of_removed(root: Path, kind: Kind) -> list[str]:
    """Where on disk something is left of what the steps remove."""
    gone, layout = {name for step in kind.steps for name in step.removals}, CorpusLayout(root, CORPUS)
    places = [
        *find_in_generations(layout, lambda facts: facts.document_id in gone),
        find_in_journal(layout, lambda facts: facts.document_id in gone, frozenset(gone)),
    ]
    return [f"{sorted(found.ids)} are erased and still in {found.place}" for found in places if found.ids]


def step_after(record_count: int) -> Step:
    """What is appended after an interruption: a document that no story has."""
    return Step(documents((900 + record_count,)))


def _served(root: Path, kind: Kind, must_be_new: bool) -> list[str]:
    """What is wrong with what a reader finds before any writer has cleaned up."""
    fallbacks: list[str] = []
    reader = new_reader(root, fallbacks)
    passages_found, count = found(reader), reader.document_count
    reader.close()
    problems = [f"a reader fell back: {reason}" for reason in fallbacks]
    allowed = [kind.new] if must_be_new else [kind.old, kind.new]
    if (passages_found, count) not in [(passages(holding), len(holding)) for holding in allowed]:
        problems.append(f"served are {len(passages_found)} passages of {count} documents: neither the old nor the new")
    return problems


def _recent(root: Path, kind: Kind, least: int, most: int) -> list[str]:
    """What is wrong with what a reader finds that serves what is appended, at least so many of the records."""
    fallbacks: list[str] = []
    reader = new_reader(root, fallbacks, settings=WITH_RECENT)
    held, generation, covered = found(reader), reader.generation, reader.journal_offset
    reader.close()
    problems = [f"a reader of recent records: {reason}" for reason in fallbacks]
    is_newest = any(info.is_current for info in list_generations(root, CORPUS)[:1])
    if generation is None or (not is_newest and held == passages(kind.old)):
        return problems  # as after a rollback: nothing is laid over a generation that is not the newest
    record_count = covered - len(kind.before.records)
    if not least <= record_count <= most:
        problems.append(f"{record_count} of the appended records are served, acknowledged were {least}")
    if held != passages(kind.holding(record_count)):
        problems.append(f"with recent records {len(held)} passages are served: not what {record_count} records leave")
    return problems


def unverified(root: Path) -> list[str]:
    """Generations that are listed and do not verify."""
    problems = []
    for info in list_generations(root, CORPUS):
        try:
            verify(root, CORPUS, info.name)
        except NotFound:  # collected since it was listed
            continue
        except Corrupted as error:
            problems.append(f"generation {info.name} is listed: {error}")
    return problems


_SMALL = WritePolicy(keep_generations=2, max_segments=2, merge_factor=2, flush_chunks=4)
_ASIDE = WritePolicy(keep_generations=2, max_segments=2, merge_factor=2, flush_chunks=4, background_merge_chunks=0)
_USUAL = WritePolicy(keep_generations=3)
_GROWN = (Step(documents(range(12))), Step(documents(range(12, 15))), Step(documents((1, 13), 2), ("doc-2",)))

KINDS: tuple[Kind, ...] = (
    Kind(Story("first", ()), (Step(documents(range(3))), Step(documents((3,)))), _USUAL),
    Kind(Story("incremental", _GROWN, _USUAL), (Step(documents((20, 21))), Step(documents((22,)))), _USUAL),
    Kind(
        Story("deletes", _GROWN, _USUAL),
        (Step(documents((3, 4), 3), ("doc-12", "doc-5")), Step((), ("doc-6",))),
        _USUAL,
    ),
    Kind(Story("merge", _GROWN, _SMALL), (Step(documents(range(20, 26))), Step(documents((1,), 5), ("doc-7",))), _SMALL),
    Kind(Story("merge aside", _GROWN, _ASIDE), (Step(documents(range(20, 26))), Step(documents((1,), 5))), _ASIDE),
    Kind(
        Story("after a rollback", _GROWN, _USUAL, roll_back), (Step(documents((30,))),), _USUAL, is_rolled_back=True
    ),
    Kind(Story("rebuild", _GROWN, _USUAL), (Step(documents((40,))),), _USUAL, rebuilds=True),
    Kind(
        Story("erase", _GROWN, _USUAL),
        (Step((), ("doc-6", "doc-13")), Step(documents((3,), 3), ("doc-7",))),
        _USUAL,
        erases=True,
    ),
    Kind(
        Story("journal roll", _GROWN, WritePolicy(journal_segment_bytes=1_000)),
        (Step(documents((50,))), Step(documents((51,)))),
        WritePolicy(journal_segment_bytes=1_000),
    ),
)  # fmt: skip
