"""What listing, counting, exporting, importing and deleting cost in a corpus of 100,000 documents.

    python -m bench.whole_corpus [--documents 100000]

A running instance on its defaults, without the graph. The corpus comes in by an import, of documents of one passage of
sixty words with random vectors; it is exported, imported into another corpus, and the two are compared by hashes of
their ids, texts and vectors. CPU-seconds are those of every process of the instance, memory is the largest sum of PSS.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from bench.startup import cpu_seconds, pss_megabytes
from sluice.contracts.document import Chunk, ChunkedDocument, Provenance
from sluice.contracts.operations.transfer import ARTEFACTS, DOCUMENTS, VECTORS, ExportManifest
from sluice.ingest.embed.minilm import FINGERPRINTS
from sluice.workers.transfer import pack, read_batches, read_manifest
from tests.support.instance import Instance

DIMENSION = 384
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = [
    f"{first}{second}{third}" for first in "bdfgklmnprst" for second in "aeiou" for third in ("n", "rd", "sk", "lt")
]
SECONDS = 3_600.0


def documents_of(count: int) -> Any:
    """Yield so many documents, the same ones each time."""
    choose = random.Random(7)
    for number in range(count):
        text = f"Paragraph {number}: {' '.join(choose.choices(WORDS, k=60))}."
        checksum = hashlib.sha256(text.encode()).hexdigest()
        name = f"doc-{number:06d}"
        chunk = Chunk(
            chunk_id=checksum[:24],
            document_id=name,
            ordinal=0,
            text=text,
            start_line=1,
            end_line=1,
            token_estimate=80,
            checksum=checksum,
        )
        yield ChunkedDocument(
            document_id=name,
            checksum=checksum,
            url=f"https://site{number % 50}.example/{number}",
            title=f"Page {number}",
            language="en" if number % 3 else "de",
            metadata={"number": number, "tenth": number % 10},
            provenance=Provenance(source="crawl", fetched_at=BEGIN + timedelta(seconds=choose.randrange(10**7))),
            chunks=(chunk,),
        )


def write_artefact(path: Path, count: int) -> None:
    """Write an export of so many documents, as this instance would."""
    vectors = np.random.default_rng(7)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        lines, rows = Path(folder) / DOCUMENTS, Path(folder) / VECTORS
        with zstandard.open(lines, "wb") as out, zstandard.open(rows, "wb") as vectors_out:
            for document in documents_of(count):
                out.write(document.model_dump_json().encode() + b"\n")
                vector = vectors.standard_normal(DIMENSION).astype("<f4")
                vectors_out.write((vector / np.linalg.norm(vector)).astype("<f4").tobytes())
        manifest = ExportManifest(
            corpus="made",
            exported_at=BEGIN,
            generation=None,
            journal_offset=0,
            documents=count,
            chunks=count,
            model=FINGERPRINTS["fp32"],
            dimension=DIMENSION,
            files={},
        )
        pack(Path(folder), manifest, path)


def hashes(path: Path) -> dict[str, str]:
    """Return hashes over the ids, texts and vectors of an artefact, and how many documents there are."""
    told = {name: hashlib.sha256() for name in ("ids", "texts", "vectors")}
    count = 0
    for batch, vectors in read_batches(path, read_manifest(path)):
        for document in batch.documents:
            count += 1
            told["ids"].update(document.document_id.encode() + b"\0")
            told["texts"].update("\0".join(chunk.text for chunk in document.chunks).encode() + b"\0")
        told["vectors"].update(vectors)
    return {"documents": str(count)} | {name: digest.hexdigest()[:16] for name, digest in told.items()}


class Measured:
    """Prints wall seconds, CPU-seconds and peak memory of each step."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        """Do the work, and print what it cost."""
        stop, peak = threading.Event(), [0.0]

        def watch() -> None:
            while not stop.wait(1.0):
                memory = pss_megabytes(self._instance.process_id, self._instance.processes)
                peak[0] = max(peak[0], sum(memory.values()))

        before, began = cpu_seconds(self._instance.process_id), time.perf_counter()
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        result = work()
        wall, cpu = time.perf_counter() - began, cpu_seconds(self._instance.process_id) - before
        stop.set()
        watcher.join()
        print(
            f"{name:44} {wall:8.2f} s  {cpu:8.2f} CPU-s  {peak[0] or 0:6.0f} MB  load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        return result


def main() -> None:
    """Run every step."""
    parser = argparse.ArgumentParser(prog="python -m bench.whole_corpus", description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    count = parser.parse_args().documents
    with (
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder,
        Instance(Path(folder), GRAPH__ENABLED="false") as instance,
    ):
        http, measured = instance.http, Measured(instance)

        def done(response: Any) -> dict[str, Any]:
            assert response.status_code == 202, response.text
            run = instance.wait(response.json()["run_id"], SECONDS)
            assert run["status"] == "finished", run
            return dict(response.json())

        def page(**parameters: Any) -> dict[str, Any]:
            response = http.get("/v1/documents", params={"corpus": "first", "limit": 100, **parameters})
            assert response.status_code == 200, response.text
            return dict(response.json())

        def counted(**parameters: Any) -> int:
            return int(http.get("/v1/documents/count", params=parameters).json()["documents"])

        def bring_in(corpus: str, artefact: str) -> None:
            http.post("/v1/corpora", json={"name": corpus}).raise_for_status()
            done(http.post(f"/v1/corpora/{corpus}/import", json={"artefact_id": artefact}))

        made = instance.data_dir / ARTEFACTS / f"art_{24 * '0'}.tar"
        made.parent.mkdir(mode=0o700, exist_ok=True)
        write_artefact(made, count)
        print(f"the file: {made.stat().st_size / 1e6:.0f} MB")
        measured("import", lambda: bring_in("first", made.stem))
        assert counted(corpus="first") == count
        first = measured("first page by id", page)
        measured("first page again", page)
        cursor = first["next_cursor"]
        for _ in range(5):
            cursor = page(limit=500, cursor=cursor)["next_cursor"]
        measured("a page further on", lambda: page(cursor=cursor))
        measured("first page by fetch, newest first", lambda: page(order="-fetched_at"))
        measured("first page of a filter (1 in 10)", lambda: page(where="metadata.tenth = 3"))
        measured("first page of a rare filter (10)", lambda: page(where="metadata.number < 10"))
        measured("count all", lambda: counted(corpus="first"))
        print("count by filter:", measured("count by filter", lambda: counted(corpus="first", where='language = "de"')))
        exported = measured("export", lambda: done(http.post("/v1/corpora/first/export")))
        artefact = exported["links"]["artefact"].rpartition("/")[2]
        measured("import of the export", lambda: bring_in("second", artefact))
        again = done(http.post("/v1/corpora/second/export"))["links"]["artefact"].rpartition("/")[2]
        told = [hashes(made.with_name(f"{name}.tar")) for name in (made.stem, artefact, again)]
        print("hashes:", told[0], "equal:", told[0] == told[1] == told[2])
        condition = {"corpus": "first", "where": "metadata.tenth < 2", "keep_out": False}
        would = measured(
            "dry run of a deletion", lambda: http.post("/v1/forget", params={"dry_run": True}, json=condition).json()
        )
        print("would forget:", would["documents"])
        measured("delete by filter (1 in 5)", lambda: done(http.post("/v1/forget", json=condition)))
        assert counted(corpus="first") == count - would["documents"]
        measured("delete the corpus", lambda: done(http.delete("/v1/corpora/first")))
        assert http.get("/v1/corpora/first").status_code == 404


if __name__ == "__main__":
    main()
