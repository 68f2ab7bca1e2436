"""The reading side of the reloads: `python -m bench.index.searchers FOLDER`. Threads search without pause.

Prints the name of each generation that a search came from, once. A line on standard input names the phase that begins;
`end` ends, and the last line printed is the account: for each phase latencies, failures and memory, and how often
which version of which beacon was seen under which journal offset.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import sys
import threading
import time
from array import array
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from bench.index.beacons import CORPUS, QUERY, beacon_vector, sighting
from bench.index.synthetic import SyntheticCorpus, Vectors
from sluice.contracts.retrieval import Query
from sluice.index.local.reader import IndexReader
from sluice.index.settings import QuerySettings

THREADS = 2
QUESTIONS = 100
LOOK_SECONDS = 0.02


class Searchers:
    """Threads over one reader, and what they saw."""

    def __init__(self, folder: Path) -> None:
        self._reader = IndexReader(folder, CORPUS, QuerySettings())
        self._counting = threading.Lock()
        self.phase = "warm up"
        self.ending = False
        self.generations: dict[str, None] = {}
        self.seen: Counter[tuple[int, int, int, int]] = Counter()
        self.failures: dict[str, list[str]] = defaultdict(list)
        self.latencies: dict[str, array[float]] = defaultdict(lambda: array("d"))
        self.resident_bytes: dict[str, list[int]] = defaultdict(list)

    def search_on(self) -> None:
        """Every other question is the beacons', until told to end."""
        texts, vectors = SyntheticCorpus().questions(QUESTIONS)
        questions = [Query(query=text, corpus=CORPUS, top_k=10) for text in texts]
        turn = 0
        while not self.ending:
            self._search(QUERY, beacon_vector())
            self._search(questions[turn % QUESTIONS], vectors[turn % QUESTIONS])
            turn += 1

    def account(self) -> dict[str, Any]:
        """Everything by phase."""
        return {
            "phases": {phase: self._figures(phase) for phase in self.latencies},
            "seen": [[*key, times] for key, times in self.seen.items()],
        }

    def _search(self, query: Query, vector: Vectors) -> None:
        phase, started = self.phase, time.perf_counter()
        try:
            found = self._reader.search(query, vector)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is a failed search)
            self.failures[phase].append(repr(error))
            return
        self.latencies[phase].append((time.perf_counter() - started) * 1e3)
        if len(found.chunks) < query.top_k:
            self.failures[phase].append(f"{len(found.chunks)} chunks from {found.generation}")
        self.generations.setdefault(str(found.generation))
        if query is QUERY:
            with self._counting:
                self.seen.update((found.journal_offset, *sighting(chunk)) for chunk in found.chunks)

    def _figures(self, phase: str) -> dict[str, Any]:
        latencies = self.latencies[phase]
        cuts = statistics.quantiles(latencies, n=100)
        return {
            "searches": len(latencies),
            "p50_ms": cuts[49],
            "p99_ms": cuts[98],
            "failures": self.failures[phase],
            "resident_bytes": self.resident_bytes[phase],
        }


def main(folder: Path) -> None:
    searchers = Searchers(folder)
    threads = [threading.Thread(target=searchers.search_on) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    told = 0
    while not searchers.ending:
        if select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
            line = sys.stdin.readline().strip()
            searchers.ending = line in ("", "end")
            searchers.phase = searchers.phase if searchers.ending else line
        searchers.resident_bytes[searchers.phase].append(resident_bytes())
        names = list(searchers.generations)
        for name in names[told:]:
            print(name, flush=True)
        told = len(names)
    for thread in threads:
        thread.join()
    print(json.dumps(searchers.account()), flush=True)


def resident_bytes() -> int:
    """Resident memory of this process, mapped files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    main(Path(sys.argv[1]))
