"""Sluice against its peers on the same real chunks: search, ingest, freshness. Interleaved, medians of rounds.

Every figure's name is `measure, unit: contestant`. Wall time is what is compared; processor time stands beside it, as
a busy machine shows in the first only.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.index.contestants import PEERS, SLUICE, Contestant, Written, line_up, write
from bench.index.real import Passages

Figures = dict[str, float]
CONTESTANTS = (SLUICE, *PEERS)
TOP = 10
ADDED = 10
"""Chunks that come at once when freshness is measured."""

_FOUND_BY = {"bm25": "terms", "hybrid": "hybrid"}
_DURABLE = {"lancedb": "files synced", "txtai": "saved whole"}
"""What peers do only when told to, and Sluice's journal does always."""
_FRESHNESS = {"wall_ms": "found by {}, ms", "cpu_ms": "found by {}, CPU ms", "add_ms": "added, ms"}


def measure_peers(passages: Passages, folder: Path, rounds: int, ingest_rounds: int) -> Figures:
    """Everything at once: the engines of the last ingest are searched, then added to."""
    corpus = write(folder, "corpus", passages.texts, passages.vectors)
    figures = measure_ingest(corpus, len(passages.texts), folder, ingest_rounds - 1) if ingest_rounds > 1 else {}
    with line_up(CONTESTANTS, folder / "last") as contestants:
        for one in contestants:
            print(f"{one.name}: {', '.join(one.strategies)}; what is added: {one.durability}")
        last = {one.name: one.ingest(corpus) for one in contestants}
        if not figures:
            figures = ingest_figures({name: [taken] for name, taken in last.items()}, len(passages.texts))
        figures |= measure_search(contestants, passages, folder, rounds)
        figures |= measure_freshness(contestants, passages, folder, rounds)
    return figures


def measure_ingest(corpus: Written, chunks: int, folder: Path, rounds: int) -> Figures:
    """Chunks per second from nothing to searchable, vectors given; the ratio of each peer's time to Sluice's."""
    taken: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for turn in range(rounds):
        for name in CONTESTANTS:
            with line_up([name], folder / f"ingest-{turn}") as (contestant,):
                taken[name].append(contestant.ingest(corpus))
    return ingest_figures(taken, chunks)


def measure_search(contestants: Sequence[Contestant], passages: Passages, folder: Path, rounds: int) -> Figures:
    """Milliseconds of a top-10 with texts, each strategy of each; recall of the vector arm against exact search."""
    questions = write(folder, "questions", passages.queries, passages.query_vectors)
    truth = exact(passages.vectors, passages.query_vectors, TOP)
    walls: dict[tuple[str, str], list[float]] = defaultdict(list)
    cpus: dict[tuple[str, str], list[float]] = defaultdict(list)
    recalls: Figures = {}
    for _ in range(rounds):
        for contestant in contestants:
            for strategy in contestant.strategies:
                answer = contestant.search(questions, strategy, TOP)
                walls[strategy, contestant.name].append(statistics.median(answer["wall_ms"]))
                cpus[strategy, contestant.name].append(answer["cpu_ms"])
                if strategy == "vector":
                    recalls[f"recall@{TOP}: {contestant.name}"] = recall(answer["found"], truth)
    figures = {f"{strategy} p50, ms: {name}": statistics.median(taken) for (strategy, name), taken in walls.items()}
    figures |= {f"{strategy}, CPU ms: {name}": statistics.median(taken) for (strategy, name), taken in cpus.items()}
    return figures | recalls | search_ratios(figures)


def measure_freshness(contestants: Sequence[Contestant], passages: Passages, folder: Path, rounds: int) -> Figures:
    """Milliseconds from ten new chunks in hand until a search returns the last, on top of all the others.

    Found by terms, the cheapest search, and by the hybrid one. Where an engine leaves something undone when it has
    added (LanceDB syncs no file, Sluice publishes later), it is measured as it is and once more with that done within
    the time: only so have all the same durability.
    """
    taken: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds + 1):
        for serial, (strategy, finish) in enumerate(product(_FOUND_BY, (False, True)), start=turn * 4):
            written = write(folder, f"added-{serial}", *_newcomers(passages, serial))
            for contestant in contestants:
                if finish and not contestant.after_add:
                    continue
                way = strategy if strategy in contestant.strategies else "vector"
                answer = contestant.freshen(written, len(passages.texts) + serial * ADDED, way, finish)
                if turn:  # the first warms up
                    label = f"{contestant.name}, {contestant.after_add}" if finish else contestant.name
                    for measure, unit in _FRESHNESS.items():
                        taken[f"+{ADDED} {unit.format(_FOUND_BY[strategy])}: {label}"].append(answer[measure])
    figures = {name: statistics.median(values) for name, values in taken.items()}
    return figures | freshness_ratios(figures, [one.name for one in contestants])


def freshness_ratios(figures: Figures, names: Sequence[str] = CONTESTANTS) -> Figures:
    """Sluice's time, appended alone and published, to each peer's with the same durability."""
    ratios = {}
    for way in _FOUND_BY.values():
        measure = f"+{ADDED} found by {way}"
        for peer in [name for name in names if name != SLUICE]:
            durable = f"{measure}, ms: {peer}, {_DURABLE.get(peer, '')}".removesuffix(", ")
            for ours in (SLUICE, f"{SLUICE}, published"):
                ratios[f"{measure}, {ours} : {peer}"] = figures[f"{measure}, ms: {ours}"] / figures[durable]
    return ratios


def exact(vectors: NDArray[np.float32], queries: NDArray[np.float32], top: int) -> list[list[int]]:
    """The rows of the `top` largest inner products of each query, by comparing all."""
    nearest = []
    for query in queries:
        scores = vectors @ query
        best = np.argpartition(-scores, min(top, len(scores) - 1))[:top]
        nearest.append(best.tolist())
    return nearest


def recall(found: Sequence[Sequence[int]], truth: Sequence[Sequence[int]]) -> float:
    """The share of the true neighbours that were found, over all queries."""
    hits = sum(len(set(ours) & set(theirs)) for ours, theirs in zip(found, truth, strict=True))
    return hits / sum(map(len, truth))


def ingest_figures(taken: dict[str, list[dict[str, Any]]], chunks: int) -> Figures:
    walls = {name: statistics.median(one["wall_seconds"] for one in rounds) for name, rounds in taken.items()}
    cpus = {name: statistics.median(one["cpu_seconds"] for one in rounds) for name, rounds in taken.items()}
    figures = {f"ingest, chunks/s: {name}": chunks / seconds for name, seconds in walls.items()}
    figures |= {f"ingest, chunks per CPU s: {name}": chunks / seconds for name, seconds in cpus.items()}
    return figures | {f"ingest, sluice : {name}": walls[name] / walls[SLUICE] for name in PEERS}


def search_ratios(figures: Figures) -> Figures:
    ours = {strategy: figures[f"{strategy} p50, ms: {SLUICE}"] for strategy in ("hybrid", "vector", "bm25")}
    better = min(figures[f"hybrid p50, ms: {name}"] for name in ("txtai", "lancedb"))
    return {
        "hybrid, sluice : better of txtai and lancedb": ours["hybrid"] / better,
        "hybrid : (vector + bm25) of sluice": ours["hybrid"] / (ours["vector"] + ours["bm25"]),
    }


def _newcomers(passages: Passages, turn: int) -> tuple[list[str], NDArray[np.float32]]:
    """Ten chunks that no engine has: corpus texts, each after a word of its own, their vectors turned a little."""
    rows = slice(turn * ADDED, (turn + 1) * ADDED)
    texts = [f"newcomer{turn}x{row} {text}" for row, text in enumerate(passages.texts[rows])]
    nudge = np.random.default_rng(turn).standard_normal(passages.vectors[rows].shape, dtype=np.float32)
    vectors = passages.vectors[rows] + 0.02 * nudge
    return texts, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
