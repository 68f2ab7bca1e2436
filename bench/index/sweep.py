"""How cost grows with size: `python -m bench.index.sweep CHUNKS FOLDER` measures one size and prints its figures.

Documents are generated in a stream and outside the clock. A full snapshot is the first publish, when nothing is
carried over; then the merges that loading left behind are waited for, 1 % of the chunks change, and another publish is
measured against the full one, in seconds and in bytes of files that the generation before does not have. Part of a full
snapshot's work is done while appending, so the time is also held against a rebuild from the journal.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bench.index.child import measured
from bench.index.documents import CHUNKS_PER_DOCUMENT, FINGERPRINT, Batch
from bench.index.synthetic import SyntheticCorpus, Vectors
from sluice.contracts.retrieval import TEXT_STRATEGIES, Query
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings

Figures = dict[str, float]
CORPUS = "sweep"
QUESTIONS = 200
WARM_UP = 20
OPENINGS = 5
CHANGED_SHARE = 0.01
SECONDS_PER_CHUNK = 0.01
"""A generous bound on the time a size takes."""


def measure_sweep(sizes: Sequence[int], folder: Path) -> Figures:
    """Every size in a process of its own, and how the figures grow between them."""
    found: dict[int, Figures] = {}
    for size in sizes:
        scratch = folder / f"sweep-{size}"
        try:
            timeout_seconds = 120 + SECONDS_PER_CHUNK * size
            found[size] = measured("bench.index.sweep", size, scratch, timeout_seconds=timeout_seconds)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    figures = {f"{name} at {size:,}": value for size, values in found.items() for name, value in values.items()}
    return figures | growth(found)


def exponent(cost_by_size: Mapping[int, float]) -> float:
    """The b of cost = a · size^b, by least squares over the logarithms."""
    slope, _ = np.polyfit(np.log(list(cost_by_size)), np.log(list(cost_by_size.values())), 1)
    return float(slope)


def growth(found: Mapping[int, Figures]) -> Figures:
    """Exponents of the query times, and the spread of ingest's cost per chunk around its middle."""
    exponents = {
        f"{strategy} grows as N^": exponent({size: figures[f"{strategy} p50, ms"] for size, figures in found.items()})
        for strategy in TEXT_STRATEGIES
    }
    costs = [figures["ingest, µs per chunk"] for figures in found.values()]
    middle = (max(costs) + min(costs)) / 2
    return exponents | {"ingest per chunk, ± of its middle": (max(costs) - middle) / middle}


def measure_size(chunks: int, folder: Path) -> Figures:
    """All figures of one size."""
    corpus = SyntheticCorpus()
    with IndexWriter(folder, CORPUS) as writer:
        appended = _append(writer, corpus.batches(chunks))
        full_seconds, full_bytes = _written_by(writer.publish, folder)
        figures = {
            "ingest, µs per chunk": (appended + full_seconds) / chunks * 1e6,
            "full snapshot, s": full_seconds,
            "full snapshot, MB": full_bytes / 1e6,
            **_openings(folder),
            **_searches(folder, corpus),
        }
        settled_seconds, settled_bytes = _written_by(writer.finish_merges, folder)
        changed = max(CHUNKS_PER_DOCUMENT, round(chunks * CHANGED_SHARE))
        changed_appended = _append(writer, corpus.batches(changed, version=1))
        changed_seconds, changed_bytes = _written_by(writer.publish, folder)
        started = time.perf_counter()
        writer.rebuild()
        rebuilt_seconds = time.perf_counter() - started
    return figures | {
        "merges after loading, s": settled_seconds,
        "merges after loading, MB": settled_bytes / 1e6,
        "1 % change, append, s": changed_appended,
        "1 % change, snapshot, s": changed_seconds,
        "1 % change, snapshot, MB": changed_bytes / 1e6,
        "rebuild, s": rebuilt_seconds,
        "1 % snapshot : rebuild, time": changed_seconds / rebuilt_seconds,
        "1 % snapshot : full, time": changed_seconds / full_seconds,
        "1 % snapshot : full, bytes": changed_bytes / full_bytes,
    }


def _append(writer: IndexWriter, stream: Iterable[Batch]) -> float:
    """Seconds of the appends alone."""
    seconds = 0.0
    for batch, vectors in stream:
        started = time.perf_counter()
        writer.append(batch, vectors, FINGERPRINT)
        seconds += time.perf_counter() - started
    return seconds


def _written_by(publish: Callable[[], object], folder: Path) -> tuple[float, int]:
    """Seconds of publishing, and the bytes in files that no generation had before and the latest one has."""
    before = _inodes(folder)
    started = time.perf_counter()
    publish()
    seconds = time.perf_counter() - started
    return seconds, sum(size for inode, size in _inodes(folder).items() if inode not in before)


def _inodes(folder: Path) -> dict[int, int]:
    """The files of all generations, by inode, with their sizes; what vanishes meanwhile is left out."""
    found = {}
    for place, _, names in os.walk(folder):
        if "/generations/" in f"{place}/":
            for name in names:
                try:
                    status = os.stat(os.path.join(place, name))
                except FileNotFoundError:
                    continue
                found[status.st_ino] = status.st_size
    return found


def _openings(folder: Path) -> Figures:
    """Milliseconds to open the current generation, with its files in the page cache."""
    return {
        "open, ms": _median_ms(lambda turn: _open(folder, verified=False), OPENINGS),
        "open and verify, ms": _median_ms(lambda turn: _open(folder, verified=True), OPENINGS),
    }


def _open(folder: Path, verified: bool) -> None:
    reader = IndexReader(folder, CORPUS, QuerySettings(), verify_on_open=verified)
    reader.reload()
    reader.close()


def _searches(folder: Path, corpus: SyntheticCorpus) -> Figures:
    texts, vectors = corpus.questions(QUESTIONS)
    reader = IndexReader(folder, CORPUS, QuerySettings(), verify_on_open=False)
    figures = {}
    for strategy in TEXT_STRATEGIES:
        queries = [Query(query=text, corpus=CORPUS, top_k=10, strategy=strategy) for text in texts]
        ask = partial(_ask, reader, queries, vectors)
        _median_ms(ask, WARM_UP)
        figures[f"{strategy} p50, ms"] = _median_ms(ask, QUESTIONS)
    reader.close()
    return figures


def _ask(reader: IndexReader, queries: Sequence[Query], vectors: Vectors, turn: int) -> None:
    reader.search(queries[turn], vectors[turn])


def _median_ms(work: Callable[[int], object], times: int) -> float:
    taken = []
    for turn in range(times):
        started = time.perf_counter()
        work(turn)
        taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken)


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(json.dumps(measure_size(int(sys.argv[1]), Path(sys.argv[2]))))
