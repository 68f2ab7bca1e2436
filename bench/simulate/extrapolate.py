"""A thousand million passages and ten thousand workers: what the simulation says, and which guesses it rests on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.simulate.calibrate import SEEDS, WORKERS, service_times
from bench.simulate.pipeline import Pipeline, Step, Trace, World, fan_out, percentile

CHUNKS, TOTAL_WORKERS = 1_000_000_000, 10_000
HOUR, SHORT, FILLING = 3_600.0, 300.0, 0.3
"""Seconds that are simulated at full scale, and for most other points; and the share of them that does not count, in
which the queues fill."""
EMBED_WORKERS = (1, 3, 10, 30, 100, 300, 1_000)
BATCH = 25
MOST_BUSY = 0.8
"""How busy the index writer of one of many instances may be."""
FULL = 0.95
"""Share of the time in which a writer is busy that does no more. It does more for a long queue, as one generation then
publishes many pages; but nobody wants to wait that long."""
SHARDS = (1, 10, 100, 1_000)


@dataclass(frozen=True)
class Assumptions:
    """What is not measured here, or measured on a small instance and taken to hold for a large one."""

    chunks_per_page: float
    """Measured: passages of a page, which also bring its embedding's seconds."""
    embed_factor: float = 1.0
    """Seconds of a processor for a page's embedding, in those measured here."""
    index_factor: float = 1.0
    """Seconds of the index writer for a page, in those measured here, whatever it holds already."""
    page_seconds: float = 1.0
    """A page of the web, from request to its last byte; loopback takes none."""
    hosts: int = 100_000
    """Hosts that the pages come from, each with two requests a second (`crawl.requests_per_second_per_host`)."""
    crawl_failures: float = 0.03
    """Share of the tries of a page that fail for a while, and are tried again after a pause."""
    ledger_per_second: float = 5_000.0
    """Events settled a second by PostgreSQL, full history, nothing to clean up."""
    dead_each: float = 2.0
    """Dead rows that an event leaves: one by its claim, one by its settling."""
    cleaned_per_second: float = 8_000.0
    """Dead rows that vacuum removes a second."""
    slowed_by: float = 5_000_000.0
    """Dead rows at which the ledger is half as fast."""
    beat_seconds: float = 5.0
    """Between two signs of life of a worker, each of which is a write."""


ASSUMED = {
    "embed_factor": "processor seconds to embed a page",
    "index_factor": "index writer's seconds a page",
    "page_seconds": "seconds to fetch a page",
    "ledger_per_second": "events the ledger settles a second",
    "cleaned_per_second": "dead rows that vacuum removes a second",
    "hosts": "hosts",
    "crawl_failures": "share of fetches tried again",
    "dead_each": "dead rows an event leaves",
}
"""What is varied, in words."""


def world_at(
    times: Mapping[str, Any], covered: Step, assumed: Assumptions, embed_workers: int, *, index_is_bound: bool = True
) -> World:
    """An instance whose other pools are as large as that many embed workers need, a third more, each with a core.

    `index_is_bound`: one process writes the index, as it is; else as many as embed, to see what comes next.
    """
    traces = [_at_scale(trace, assumed) for trace in times["traces"]]
    seconds = {stage: _mean_seconds(traces, stage) for stage in WORKERS}
    pages = embed_workers / seconds["embed"]
    least = BATCH if not index_is_bound else 1
    workers = {stage: max(least, math.ceil(pages * seconds[stage] / 0.75)) for stage in WORKERS}
    workers |= {"embed": max(least, embed_workers), "index": 1 if index_is_bound else max(least, embed_workers)}
    total = sum(workers.values())
    return World(
        traces=traces,
        afterwards=[_at_scale(trace, assumed) for trace in times["afterwards"]],
        workers=workers | {"graph": max(least, workers["graph"])},
        dispatch_seconds=times["dispatch"],
        covered=_scaled(covered, assumed.index_factor),
        ledger_per_second=assumed.ledger_per_second,
        dead_each=assumed.dead_each,
        cleaned_per_second=assumed.cleaned_per_second,
        slowed_by=assumed.slowed_by,
        beats_per_second=total / assumed.beat_seconds,
        hosts=assumed.hosts,
        failures={"crawl": assumed.crawl_failures},
        batch=1 if index_is_bound else BATCH,
    )


def _at_scale(trace: Trace, assumed: Assumptions) -> Trace:
    factors = {"embed": assumed.embed_factor, "index": assumed.index_factor}
    scaled = (_scaled(step, factors.get(step.stage, 1.0)) for step in trace)
    web = assumed.page_seconds
    return tuple(
        step._replace(wait_seconds=step.wait_seconds + web) if step.stage == "crawl" else step for step in scaled
    )


def _scaled(step: Step, factor: float) -> Step:
    return step._replace(wait_seconds=step.wait_seconds * factor, cpu_seconds=step.cpu_seconds * factor)


def _mean_seconds(traces: Sequence[Trace], stage: str) -> float:
    """Mean of what a page takes of a worker of that stage."""
    return statistics.mean(
        sum(step.wait_seconds + step.cpu_seconds for step in trace if step.stage == stage) for trace in traces
    )


@dataclass(frozen=True)
class Point:
    """What one simulated instance does: pages a second by seed, and the busiest of its parts."""

    embed_workers: int
    workers: int
    pages_per_second: tuple[float, ...]
    busy: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Pages a second, over the seeds."""
        return statistics.mean(self.pages_per_second)

    @property
    def ends_first(self) -> str:
        """The part that is busy most of the time."""
        return max(self.busy, key=lambda name: self.busy[name])


def simulate(world: World, seconds: float, seeds: Sequence[int] = SEEDS) -> Point:
    """Let every worker have work for so long."""
    rates, busy = [], dict[str, float]()
    for seed in seeds:
        pipeline = Pipeline(world, seed)
        inside = 2 * (world.workers["embed"] + world.workers["crawl"]) // world.batch + 50
        pipeline.keep_inside(inside)
        pipeline.clock.run(seconds)
        counted = [at for at, _ in pipeline.searchable if at > FILLING * seconds]
        rates.append(len(counted) * world.batch / ((1 - FILLING) * seconds))
        parts = {**pipeline.stations, "ledger": pipeline.ledger.station}
        busy = {name: station.utilisation() for name, station in parts.items()}
    return Point(world.workers["embed"], sum(world.workers.values()), tuple(rates), busy)


@dataclass(frozen=True)
class Extrapolation:
    """The curves, the instances that share ten thousand workers, and how much each guess matters."""

    assumed: Assumptions
    one_instance: Sequence[Point]
    without_index: Sequence[Point]
    full: Point
    instances: int
    each: Point
    sensitivity: Mapping[str, tuple[float, float]]
    """Of each assumption halved and doubled: pages a second of all instances, over those of the assumption itself."""
    queries: Mapping[int, tuple[float, float]]
    """By shards, seconds of a query: p50 and p99."""

    @property
    def pages_per_second(self) -> float:
        """Of all instances together."""
        return self.instances * self.each.mean


def extrapolate(
    run: Mapping[str, Any], machine: Mapping[str, Any], covered: Step, chunks_per_page: float, seconds: float = HOUR
) -> Extrapolation:
    """Simulate it all from a measured run of one worker."""
    times, assumed, short = service_times(run, machine), Assumptions(chunks_per_page), min(SHORT, seconds)

    def at(embed_workers: int, *, guess: Assumptions = assumed, index_is_bound: bool = True) -> World:
        return world_at(times, covered, guess, embed_workers, index_is_bound=index_is_bound)

    most = next(count for count in range(TOTAL_WORKERS, 0, -50) if sum(at(count).workers.values()) <= TOTAL_WORKERS)
    one = [simulate(at(count), short if count < 100 else seconds / 3) for count in EMBED_WORKERS]
    free = [simulate(at(count, index_is_bound=False), short) for count in (*EMBED_WORKERS, most) if count >= BATCH]
    full = simulate(at(most), seconds)
    most_pages = next((point.mean for point in one if point.busy["index"] > FULL), full.mean)
    knee = max(1, round(MOST_BUSY * most_pages * _mean_seconds(times["traces"], "embed")))
    each = simulate(at(knee), seconds)
    instances = TOTAL_WORKERS // each.workers
    sensitivity = {}
    for name in ASSUMED:
        rates = []
        for factor in (0.5, 2.0):
            value = getattr(assumed, name)
            guess = replace(assumed, **{name: type(value)(value * factor)})
            world = replace(at(knee, guess=guess), workers=at(knee).workers)
            rates.append(simulate(world, short, SEEDS[:1]).mean / each.pages_per_second[0])
        sensitivity[name] = (rates[0], rates[1])
    queries = {}
    for shards in SHARDS:
        taken = fan_out(run["queries"], shards, 10_000, seed=1)
        queries[shards] = (percentile(taken, 0.5), percentile(taken, 0.99))
    return Extrapolation(assumed, one, free, full, instances, each, sensitivity, queries)
