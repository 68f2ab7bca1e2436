"""The writing side of the reloads: `python -m bench.index.publisher FOLDER CHUNKS`.

Publishes a corpus with version 0 of the beacons, then for each line on standard input the next version with a few
changed documents; answers each with the generation's name and the journal offset that the beacons end at.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.index.beacons import CORPUS, beacons
from bench.index.documents import CHUNKS_PER_DOCUMENT, FINGERPRINT
from bench.index.synthetic import SyntheticCorpus
from sluice.index.local.writer import IndexWriter

CHANGED_CHUNKS = 10 * CHUNKS_PER_DOCUMENT


def main(folder: Path, chunks: int) -> None:
    corpus = SyntheticCorpus()
    with IndexWriter(folder, CORPUS) as writer:
        for batch, vectors in corpus.batches(chunks):
            writer.append(batch, vectors, FINGERPRINT)
        version = 0
        _publish(writer, version)
        for _ in sys.stdin:
            version += 1
            for batch, vectors in corpus.batches(CHANGED_CHUNKS, version=version):
                writer.append(batch, vectors, FINGERPRINT)
            _publish(writer, version)


def _publish(writer: IndexWriter, version: int) -> None:
    last_offset = writer.append(*beacons(version), FINGERPRINT)
    print(writer.publish().name, last_offset, flush=True)


if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    main(Path(sys.argv[1]), int(sys.argv[2]))
