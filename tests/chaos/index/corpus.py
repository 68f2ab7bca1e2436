"""Corpora to be harmed, and what a query must answer over them.

A `Holding` is the dictionary that a corpus is compared with: document id → document. Answers are compared whole:
every field of every result, at a fixed time, so that not even a score may differ.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sluice.contracts.document import ChunkedDocument
from sluice.contracts.retrieval import Filters, Query, Strategy
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import rollback
from sluice.index.local.reader import IndexReader
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from tests.support.index_corpus import Maker

CORPUS = "c"
MAKE = Maker()
TODAY = datetime(2026, 2, 1, tzinfo=UTC)
WORDS = ("ferret", "otter", "marten", "badger", "weasel", "polecat", "mink", "stoat", "wolverine", "fisher")
EVERYWHERE = "mustelid"
"""A word that stands in every chunk, so that one question finds all of them."""

Holding = dict[str, ChunkedDocument]
Answers = tuple[tuple[str, ...], ...]
"""For each question of `QUESTIONS` its results as JSON, best first."""

KEPT = WritePolicy(keep_generations=9)
"""Settings under which no story loses a generation."""

QUESTIONS: tuple[Query, ...] = (
    *(
        Query(query=f"{word} {other}", corpus=CORPUS, strategy=way, top_k=10)
        for word, other in (WORDS[:2], WORDS[3:5], WORDS[7:9])
        for way in Strategy
    ),
    *(Query(query=EVERYWHERE, corpus=CORPUS, strategy=way, top_k=200) for way in Strategy),
    Query(query=WORDS[0], corpus=CORPUS, filters=Filters(languages=("de",)), top_k=50),
    Query(query=WORDS[1], corpus=CORPUS, filters=Filters(sources=("crawl",)), top_k=50),
)

VECTORS = {question: MAKE.vector(question) for question in (EVERYWHERE, *(one.query for one in QUESTIONS))}
"""Made once, before anything is forked."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is done to a corpus before a publish: versions that arrive, then documents that go."""

    puts: tuple[ChunkedDocument, ...] = ()
    removals: tuple[str, ...] = ()

    @property
    def records(self) -> tuple[ChunkedDocument | str, ...]:
        """One by one, in the order in which the journal has them."""
        return (*self.puts, *self.removals)

    def perform(self, writer: IndexWriter) -> int:
        """Append it; the last offset."""
        offset = writer.append(*MAKE.batch(self.puts)) if self.puts else 0
        return writer.remove(self.removals) if self.removals else offset


def document(number: int, version: int = 1) -> ChunkedDocument:
    """Document `number` in a version: one to three chunks of words, the same ones for the same arguments."""
    chance = random.Random(1_000 * number + version)
    texts = {f"{EVERYWHERE} {' '.join(chance.choices(WORDS, k=6))} v{version}" for _ in range(chance.randint(1, 3))}
    return MAKE.document(
        f"doc-{number}",
        *sorted(texts),
        url=f"https://site{number % 3}.example/{number}",
        title=f"About {chance.choice(WORDS)}",
        language=("de", "en")[number % 2],
        source=("crawl", "file")[number % 2],
    )


def documents(numbers: Iterable[int], version: int = 1) -> tuple[ChunkedDocument, ...]:
    """Several documents in one version."""
    return tuple(document(number, version) for number in numbers)


def after(holding: Holding, records: Sequence[ChunkedDocument | str]) -> Holding:
    """The dictionary after these records."""
    changed = dict(holding)
    for record in records:
        if isinstance(record, str):
            changed.pop(record, None)
        else:
            changed[record.document_id] = record
    return changed


def passages(holding: Holding) -> list[tuple[str, str, str]]:
    """Every (document id, chunk id, text), sorted: what must be found when everything is asked for."""
    chunks = (chunk for held in holding.values() for chunk in held.chunks)
    return sorted((chunk.document_id, chunk.chunk_id, chunk.text) for chunk in chunks)


PUBLISHED_ONLY = QuerySettings(duplicate_threshold=0, max_recent_chunks=0)
"""A reader that serves what is published and nothing else, every duplicate of it."""
WITH_RECENT = QuerySettings(duplicate_threshold=0)
"""One that also serves what was appended since."""


def new_reader(
    root: Path, told: list[str], is_verified: bool = True, settings: QuerySettings = PUBLISHED_ONLY
) -> IndexReader:
    """A reader that tells its fallbacks to `told` and lives at a fixed time."""
    return IndexReader(root, CORPUS, settings, clock=lambda: TODAY, on_fallback=told.append, verify_on_open=is_verified)


def answers(reader: IndexReader) -> Answers:
    """What the reader finds for every question."""
    return tuple(
        tuple(chunk.model_dump_json() for chunk in reader.search(query, VECTORS[query.query]).chunks)
        for query in QUESTIONS
    )


def found(reader: IndexReader) -> list[tuple[str, str, str]]:
    """Every passage the reader serves, by either arm. Raises `AssertionError` when the arms differ."""
    by_way = {}
    for way in (Strategy.BM25, Strategy.VECTOR):
        query = Query(query=EVERYWHERE, corpus=CORPUS, strategy=way, top_k=200)
        chunks = reader.search(query, VECTORS[EVERYWHERE]).chunks
        by_way[way] = sorted((chunk.document_id, chunk.chunk_id, chunk.text) for chunk in chunks)
    assert by_way[Strategy.BM25] == by_way[Strategy.VECTOR], "the two arms hold different chunks"
    return by_way[Strategy.VECTOR]


def copy_tree(source: Path, target: Path) -> None:
    """A copy of a folder that keeps what is hard-linked within it hard-linked, and links as links."""
    copies: dict[int, str] = {}
    for folder, folder_names, file_names in os.walk(source):
        new_folder = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(new_folder, exist_ok=True)
        for name in [*file_names, *folder_names]:
            old, new = os.path.join(folder, name), os.path.join(new_folder, name)
            status = os.lstat(old)
            if os.path.islink(old):
                os.symlink(os.readlink(old), new)
            elif name in folder_names:
                continue
            elif status.st_ino in copies:
                os.link(copies[status.st_ino], new)
            else:
                copies[status.st_ino] = shutil.copy2(old, new)


@dataclass(frozen=True, slots=True)
class Story:
    """How a corpus came to be: settings, and for each publish its step; what it ends with; its last act."""

    name: str
    steps: tuple[Step, ...]
    settings: WritePolicy = KEPT
    ending: Callable[[Path], None] = lambda root: None

    @property
    def records(self) -> list[ChunkedDocument | str]:
        """Everything that the journal has at the end."""
        return [record for step in self.steps for record in step.records]

    @property
    def holding(self) -> Holding:
        """What the journal holds at the end."""
        return after({}, self.records)

    def tell(self, root: Path, after_each: Callable[[Path], None] = lambda root: None) -> None:
        """Write the corpus below `root`; `after_each` is called after every publish and at the end."""
        with IndexWriter(root, CORPUS, self.settings, clock=lambda: TODAY) as writer:
            for step in self.steps:
                step.perform(writer)
                writer.publish()
                after_each(root)
        self.ending(root)
        after_each(root)


def rebuild(root: Path) -> None:
    """End a story with a generation that was made from the journal alone."""
    with IndexWriter(root, CORPUS, KEPT, clock=lambda: TODAY) as writer:
        assert writer.rebuild().is_proven


def roll_back(root: Path) -> None:
    """End a story with the generation before the newest as the current one."""
    names = sorted(path.name for path in CorpusLayout(root, CORPUS).generations.iterdir())
    rollback(root, CORPUS, names[-2])
