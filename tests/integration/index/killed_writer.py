"""A program for `test_publish`: kills a writer at random, and checks what is left, as often as it is told.

Each round forks a writer, kills it with SIGKILL, then forks a checker; the program itself starts no
thread, so forking is safe. Where to die is left to the clock, so that merges and the collector, which run beside
the writer, are hit too; every single system call is hit by `tests.chaos.index`. Exits with 1 when a check fails.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sluice.contracts.retrieval import Query, Strategy
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import read_current_name, verify
from sluice.index.local.reader import IndexReader
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from tests.support.index_corpus import Maker

SETTINGS = WritePolicy(keep_generations=2, max_segments=3, background_merge_chunks=0)
PUBLISHED_ONLY = QuerySettings(duplicate_threshold=0, max_recent_chunks=0)


def write_for_ever(root: Path, report: int) -> None:
    """Appends and publishes without end, telling each offset that was acknowledged."""
    make = Maker()
    writer = IndexWriter(root, "c", SETTINGS)
    number = 0
    while True:
        number += 1
        documents = [make.document(f"d{i}", f"ferrets {number}") for i in range(number % 7 + 1)]
        os.write(report, f"appended {writer.append(*make.batch(documents))}\n".encode())
        os.write(report, f"published {writer.publish().journal_offset}\n".encode())


def check(root: Path, appended: int, published: int) -> None:
    """What was acknowledged is there, and the current generation is whole."""
    reader = IndexReader(root, "c", PUBLISHED_ONLY)
    found = reader.search(Query(query="ferrets", strategy=Strategy.BM25, top_k=50))
    assert found.journal_offset >= published
    assert reader.fallback_reason is None
    reader.close()
    name = read_current_name(CorpusLayout(root, "c"))
    if name is not None:
        assert verify(root, "c", name).document_count == len(found.chunks)
    with IndexWriter(root, "c", SETTINGS) as writer:
        assert writer.journal_offset >= appended
        writer.publish()


def forked(work: Callable[[], None]) -> int:
    """Runs `work` in a child that exits with 0, or with 1 if it raised; returns the child's id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def kill_one(root: Path, seconds: float) -> tuple[int, int]:
    """The last offsets that a writer called appended and published before it was killed."""
    ours, theirs = os.pipe()
    child = forked(lambda: write_for_ever(root, theirs))
    os.close(theirs)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(ours) as report:
        lines = [line.split() for line in report.read().splitlines()]
    offsets = {"appended": 0, "published": 0}
    offsets.update({word: int(offset) for word, offset in lines})
    return offsets["appended"], offsets["published"]


def main(root: Path, rounds: int) -> None:
    """Kills and checks `rounds` times, printing the number of each round that passed."""
    moments = random.Random(7)
    for number in range(1, rounds + 1):
        offsets = kill_one(root, moments.uniform(0.01, 0.4))
        _, status = os.waitpid(forked(lambda offsets=offsets: check(root, *offsets)), 0)
        if status != 0:
            sys.exit(1)
        print(number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
