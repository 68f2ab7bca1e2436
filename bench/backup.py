"""What a backup costs, and what it does to whoever works meanwhile: `python -m bench.backup [DOCUMENTS]`.

An instance with that many documents of two passages, a run of four events with a blob for every ten of them, and
vectors at random. While it is backed up, another process commits to the ledger without a pause.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from sluice.contracts.document import ChunkBatch
from sluice.contracts.event import Done, Event, Next, new_run_id
from sluice.contracts.ingest import CrawlDirected, DocumentsSubmitted
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import ObjectStoreSettings
from sluice.ledger.ledger import Claim, Ledger, NewRun
from sluice.workers.backup.archive import Keys, Seal
from sluice.workers.backup.restore import restore
from sluice.workers.backup.take import take
from sluice.workers.backup.target import Target
from sluice.workers.context import Context
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.settings import Settings
from tests.support.index_corpus import Maker

DOCUMENTS = 50_000
DIMENSION = 384
SPAWN = multiprocessing.get_context("spawn")
WORDS = [f"word{number}" for number in range(5_000)]


def measure_backup(count: int = DOCUMENTS, folder: Path | None = None) -> dict[str, float]:
    """Seconds, CPU seconds and size of a backup and of its restoration, and the slowest commit beside it."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        data_dir, file = Path(scratch) / "data", Path(scratch) / "one.backup"
        _fill(data_dir, count)
        size = sum(path.stat().st_size for path in data_dir.rglob("*") if path.is_file())
        quiet = _committing(data_dir, lambda: time.sleep(5))
        took: list[tuple[float, float]] = []
        beside = _committing(data_dir, lambda: took.append(_measured(_take, data_dir, file)))
        backup_bytes = file.stat().st_size
        took.append(_measured(_restore, data_dir, file, Path(scratch) / "new"))
    return {
        "documents": count,
        "data directory MB": size / 1e6,
        "backup MB": backup_bytes / 1e6,
        "backup s": took[0][0],
        "backup CPU s": took[0][1],
        "restoration s": took[1][0],
        "restoration CPU s": took[1][1],
        "slowest commit before, ms": 1e3 * quiet,
        "slowest commit meanwhile, ms": 1e3 * beside,
    }


def _fill(data_dir: Path, count: int) -> None:
    draw, make = np.random.default_rng(3), Maker()
    blobs, passages = BlobStore(data_dir / "blobs"), [" ".join(draw.choice(WORDS, 60)) for _ in range(500)]
    with IndexWriter(data_dir / "index", "docs") as writer:
        for start in range(0, count, 1_000):
            some = [
                make.document(f"doc-{n}", f"document {n} {passages[n % 499]}", f"{passages[n % 491]} end of {n}")
                for n in range(start, min(start + 1_000, count))
            ]
            vectors = draw.standard_normal((2 * len(some), DIMENSION), dtype=np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            writer.append(ChunkBatch(documents=tuple(some)), vectors, "random")
        writer.publish()
    with Ledger(f"sqlite:///{data_dir / 'ledger.sqlite'}") as ledger:
        for n in range(count // 10):
            run = NewRun(new_run_id(), "documents", "docs", "0" * 64)
            blob = blobs.put(f"submission {n}\n{' '.join(passages[n % 480 : n % 480 + 10])}".encode())
            first = Event.of(DocumentsSubmitted(documents=blob, document_count=1), run_id=run.run_id, corpus="docs")
            ledger.create_run(run, [(first, Next(first.body))])
            claim = ledger.claim_next("chunk", "bench", 60.0)
            assert isinstance(claim, Claim)
            ledger.settle(claim, Done(tuple(Next(CrawlDirected(url=f"https://e.org/{n}", depth=0)) for _ in range(1))))


def _take(data_dir: Path, file: Path) -> None:
    with closing(Context(Settings(data_dir=data_dir))) as context:
        take(context, Target(str(file), ObjectStoreSettings()), Seal(passphrase="bench"))


def _restore(data_dir: Path, file: Path, into: Path) -> None:
    target, keys = Target(str(file), ObjectStoreSettings()), Keys(passphrase="bench")
    done = restore(Settings(data_dir=data_dir), target, keys, "bench", into=into)
    assert done.is_equal, [one for one in done.compared if not one.is_equal]


def _measured(work: object, *told: Path) -> tuple[float, float]:
    """Wall and CPU seconds of the work in a process of its own."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = SPAWN.Process(target=work, args=told)  # type: ignore[arg-type]
    process.start()
    process.join()
    assert process.exitcode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, cpu


def _committing(data_dir: Path, meanwhile: object) -> float:
    """The slowest commit, in seconds, of a thread that commits while `meanwhile` runs."""
    import threading

    stop, slowest = threading.Event(), [0.0]

    def commit() -> None:
        with Ledger(f"sqlite:///{data_dir / 'ledger.sqlite'}") as ledger:
            while not stop.wait(0.01):
                began = time.monotonic()
                ledger.lease("bench", "bench", 1.0)
                slowest[0] = max(slowest[0], time.monotonic() - began)

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        meanwhile()  # type: ignore[operator]
    finally:
        stop.set()
        thread.join()
    return slowest[0]


if __name__ == "__main__":
    for name, value in measure_backup(int(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENTS).items():
        print(f"{name:32} {value:,.2f}")
