"""Our side: `python -m bench.queues.ours FOLDER MODELS CHUNKS` prints the CPU seconds of all chunks.

Documents' chunks travel as in the pipeline, a hundred to a message: recorded in the ledger, published, received by a
real Celery worker, claimed, handled by nothing, settled with a durable commit, acknowledged. All in one process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from celery.signals import worker_ready

from bench.queues.peers import PER_BATCH, items
from sluice.contracts.base import BlobRef
from sluice.contracts.event import Done, Event, Next, new_run_id
from sluice.contracts.ingest import ChunkFact, DocumentChunked
from sluice.ingest.settings import EmbedSettings
from sluice.ledger.ledger import NewRun
from sluice.workers import handlers
from sluice.workers.context import Context
from sluice.workers.processes.worker import run_worker
from sluice.workers.settings import Settings

BLOB = BlobRef(sha256="0" * 64, size_bytes=1)
MESSAGES_PER_RUN = 50


def chunked(batch: list[tuple[str, str]]) -> DocumentChunked:
    """One event with the chunks of a batch."""
    facts = tuple(ChunkFact(chunk_id=chunk_id, text_sha256=sha256) for chunk_id, sha256 in batch)
    return DocumentChunked(chunks_blob=BLOB, document_ids=("doc",), chunks=facts, token_estimate=0)


def enqueue(context: Context, chunks: list[tuple[str, str]]) -> int:
    """Record and publish; the number of messages."""
    bodies = [chunked(chunks[start : start + PER_BATCH]) for start in range(0, len(chunks), PER_BATCH)]
    for start in range(0, len(bodies), MESSAGES_PER_RUN):
        run_id = new_run_id()
        first = [
            (Event.of(body, run_id=run_id, corpus="bench"), Next(body))
            for body in bodies[start : start + MESSAGES_PER_RUN]
        ]
        created = context.ledger.create_run(NewRun(run_id, "documents", "bench", "0" * 64), first)
        context.transport.publish(created.events)
    return len(bodies)


def measure(folder: Path, models: Path, chunks: int) -> float:
    """CPU seconds of this process for `chunks` chunks, its start left out."""
    settings = Settings(data_dir=folder, embed=EmbedSettings(model_dir=models))
    handlers.HANDLERS["DocumentChunked"] = lambda _event, _context: Done()
    spent: list[float] = []

    def feed_and_wait() -> None:
        context = Context(settings)
        started = time.process_time()
        enqueue(context, items(chunks))
        while context.ledger.open_count():
            time.sleep(0.2)
        spent.append(time.process_time() - started)
        context.close()
        os.kill(os.getpid(), signal.SIGTERM)

    worker_ready.connect(lambda **_: threading.Thread(target=feed_and_wait, daemon=True).start(), weak=False)
    with suppress(SystemExit):  # how Celery ends
        run_worker(settings, "embed")
    return spent[0]


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
