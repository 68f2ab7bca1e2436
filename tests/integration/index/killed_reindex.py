"""A program for `test_reindex`: kills a reindexing at random points, and checks what is left, as often as it is told.

Each round forks a process that gives the corpus the other of two models, and dies of SIGKILL at a random one of its
calls of the operating system or, every third round, at a random moment; then a second one checks that what serves is
whole and has every document, adds and removes some, and now and then lets the reindexing finish. The program itself
starts no thread, so forking is safe. Exits with 1 when a check fails. The long form is 500 rounds in a folder of
their own.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sluice.contracts.document import ChunkBatch
from sluice.index.folder import CorpusLayout, list_corpora
from sluice.index.generations.publish import read_current_name, verify
from sluice.index.journal.files import read_journal
from sluice.index.journal.records import Upsert, Vectors, decode_record
from sluice.index.local.reader import IndexReader
from sluice.index.local.reindex import Plan, reindex
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from tests.support.index_corpus import DIMENSION, Maker

OLD, NEW = "test-model@1", "test-model@2"
SETTINGS = WritePolicy(keep_generations=2, background_merge_chunks=0)


def embed_with(fingerprint: str, texts: Sequence[str]) -> Vectors:
    """Vectors that only this fingerprint gives these texts."""
    rows = []
    for text in texts:
        seed = int.from_bytes(hashlib.sha256(f"{fingerprint}|{text}".encode()).digest()[:8], "big")
        rows.append(np.random.default_rng(seed).standard_normal(DIMENSION))
    vectors = np.array(rows, dtype=np.float32).reshape(len(rows), DIMENSION)
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
    return unit


def contents(root: Path) -> dict[str, str]:
    """Every living document of the corpus `c` as its journal has it; each of its vectors is its model's."""
    found: dict[str, str] = {}
    models = set()
    for frame in read_journal(CorpusLayout(root, "c").journal):
        record = decode_record(frame.kind, frame.payload)
        if isinstance(record, Upsert):
            found[record.document.document_id] = record.document.model_dump_json()
            models.add(record.fingerprint)
            expected = embed_with(record.fingerprint, record.document.embedding_texts())
            np.testing.assert_allclose(record.vectors, expected, atol=1e-6)
        else:
            found.pop(record.document_id, None)
    assert len(models) <= 1, models
    return found


def model_of(root: Path) -> str | None:
    """The model that a new reader finds."""
    reader = IndexReader(root, "c", QuerySettings())
    try:
        return reader.model_fingerprint
    finally:
        reader.close()


def other_model(root: Path) -> str:
    """The one of the two models that the corpus does not have."""
    return NEW if model_of(root) == OLD else OLD


def convert(root: Path, fingerprint: str) -> None:
    """Give the corpus the model."""
    plan = Plan(SETTINGS, patience_seconds=10)
    reindex(root, "c", (fingerprint, DIMENSION), lambda texts: embed_with(fingerprint, texts), plan)


def check(root: Path, expected: dict[str, str], number: int) -> None:
    """What serves is whole and complete; then documents come and go, and every fourth time the reindexing ends."""
    layout = CorpusLayout(root, "c")
    assert list_corpora(root) == ("c",), list_corpora(root)
    assert contents(root) == expected
    name = read_current_name(layout)
    assert name is not None
    assert verify(root, "c", name).document_count == len(expected)
    fingerprint = model_of(root)
    assert fingerprint is not None
    make = Maker()
    documents = [make.document(f"round-{number}", f"words of round {number}"), make.document("doc-1", f"at {number}")]
    with IndexWriter(root, "c", SETTINGS) as writer:
        texts = [text for document in documents for text in document.embedding_texts()]
        writer.append(ChunkBatch(documents=tuple(documents)), embed_with(fingerprint, texts), fingerprint)
        writer.remove([f"round-{number - 2}"])
        writer.publish()
    if number % 4 == 0:
        before, target = contents(root), other_model(root)
        convert(root, target)
        assert contents(root) == before
        assert model_of(root) == target
        assert not layout.beside.exists()


def forked(work: Callable[[], None]) -> int:
    """Runs `work` in a child that exits with 0, or with 1 if it raised; returns the child's id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:
        print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def kill_one(root: Path, at_call: int, after_seconds: float) -> int:
    """A reindexing that is killed before the given call (0: none), or after some time. How many calls it made."""
    ours, theirs = os.pipe()
    child = forked(lambda: _convert_counted(root, at_call, theirs))
    os.close(theirs)
    time.sleep(after_seconds)
    if after_seconds:
        os.kill(child, signal.SIGKILL)
    with os.fdopen(ours) as report:
        calls = report.read()
    os.waitpid(child, 0)
    return int(calls or 0)


def main(root: Path, rounds: int) -> None:
    """Kills and checks `rounds` times, printing the number of each round that passed."""
    moments = random.Random(11)
    os.waitpid(forked(lambda: _begin(root)), 0)
    started = time.monotonic()
    calls, seconds = kill_one(root, 0, 0), time.monotonic() - started
    for number in range(1, rounds + 1):
        expected = contents(root)
        if number % 3:
            kill_one(root, moments.randint(1, calls), 0)
        else:
            kill_one(root, 0, moments.uniform(0.001, seconds))
        _, status = os.waitpid(forked(lambda expected=expected, number=number: check(root, expected, number)), 0)
        if status != 0:
            sys.exit(1)
        print(number, flush=True)


def _convert_counted(root: Path, at_call: int, report: int) -> None:
    count, target = 0, other_model(root)

    def look(frame: object, event: str, called: object) -> None:
        nonlocal count
        if event == "c_call" and getattr(called, "__module__", None) in ("posix", "fcntl"):
            count += 1
            if count == at_call:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)
    convert(root, target)
    sys.setprofile(None)
    os.write(report, str(count).encode())


def _begin(root: Path) -> None:
    documents = Maker().many(80)
    with IndexWriter(root, "c", SETTINGS) as writer:
        texts = [text for document in documents for text in document.embedding_texts()]
        writer.append(ChunkBatch(documents=tuple(documents)), embed_with(OLD, texts), OLD)
        writer.publish()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
