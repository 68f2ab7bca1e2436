"""The way of documents through the stages of an instance, as stations of the simulation.

A job is a document, or a batch of `World.batch` documents that go together; c workers then serve c / batch jobs at
once, so that capacity stays what it is while a large instance needs few jobs. A document's steps and their times are
drawn as a whole from documents that were measured, so that a long page is long at every stage.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple

from bench.simulate.simulation import Action, Clock, Ledger, Processors, Station

DRAWS = 8
"""Documents whose mean times a batch has: enough that a batch of many is not as uneven as one document."""
RETRY_BASE_SECONDS, RETRY_MOST_SECONDS = 1.0, 60.0


class Step(NamedTuple):
    """One event of a document: its stage, the seconds it waits for others, and those on a processor."""

    stage: str
    wait_seconds: float
    cpu_seconds: float
    publishes: bool = False
    """Whether it makes a generation of all that was appended, or finds that another document's event did."""


NO_STEP = Step("index", 0.0, 0.0)
Trace = tuple[Step, ...]
"""The steps of one document, in order. Those behind the last that publishes bring the answer."""


@dataclass(frozen=True)
class World:
    """What is simulated. Rates are per second."""

    traces: Sequence[Trace]
    workers: Mapping[str, int]
    afterwards: Sequence[Trace] = ()
    """What follows a document's publishing without anybody waiting for it, one of these for each: the graph."""
    dispatch_seconds: Mapping[str, float] = field(default_factory=dict)
    """From an event's settling until an idle worker of the next stage has claimed it."""
    overhead_seconds: Mapping[str, float] = field(default_factory=dict)
    """What a busy worker takes between two events."""
    covered: Step = NO_STEP
    """Publishing where a generation holds the document already."""
    background_cpu_seconds: float = 0.0
    """Processor seconds of an event in all other processes: broker, interface, reconciler."""
    cores: float = math.inf
    gain: float | None = None
    taken: float = 0.0
    taken_from: Sequence[tuple[float, float]] = ()
    """Cores that other programs use, each from a moment on."""
    ledger_per_second: float = math.inf
    dead_each: float = 0.0
    cleaned_per_second: float = math.inf
    slowed_by: float = math.inf
    beats_per_second: float = 0.0
    events_per_step: float = 1.0
    hosts: int | None = None
    turns_per_second: float = 2.0
    """Requests a second that one host gets; `hosts` None: no host makes anybody wait."""
    failures: Mapping[str, float] = field(default_factory=dict)
    """Share of the tries that fail, by stage; after `attempts` of them the document is parked."""
    attempts: int = 3
    batch: int = 1
    """Documents that go together. Each stage needs as many workers: how one worker's work piles up, batches hide."""


class Pipeline:
    """A simulated instance: `submit` documents, let `clock` run, then read `searchable`, `cited` and `stations`."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.clock, self.random = world, Clock(), random.Random(seed)
        self.processors = Processors(self.clock, world.cores, world.gain, world.taken)
        for at, taken in world.taken_from:
            self.clock.after(at, self.processors.take, taken)
        self.ledger = Ledger(
            self.clock,
            world.ledger_per_second,
            dead_each=world.dead_each,
            cleaned_per_second=world.cleaned_per_second,
            slowed_by=world.slowed_by,
            other_per_second=world.beats_per_second,
        )
        if few := [name for name, workers in world.workers.items() if workers < world.batch]:
            raise ValueError(f"batches of {world.batch} need as many workers of each stage: {', '.join(few)}")
        self.stations = {name: Station(self.clock, workers // world.batch) for name, workers in world.workers.items()}
        self._times = {
            name: world.batch * station.servers / world.workers[name] for name, station in self.stations.items()
        }
        self._free_at = [0.0] * max(1, (world.hosts or 1) // world.batch)
        self._turn_seconds = world.batch * len(self._free_at) / (world.hosts or 1) / world.turns_per_second
        self._is_appended = False
        self.submitted = self.parked = 0
        self.searchable: list[tuple[float, float]] = []
        """When each job became searchable, and how long it had taken."""
        self.cited: list[tuple[float, float]] = []

    def submit(self, trace: Trace | None = None, then: Action | None = None) -> None:
        """Let a job arrive now; `then` is called when it has ended."""
        self.submitted += 1
        self._enter(_Job(trace or self._draw(self.world.traces), self.clock.now, then))

    def submit_at_rate(self, per_second: float) -> None:
        """Let documents arrive from now on, at random (Poisson)."""

        def arrive() -> None:
            self.submit()
            self.clock.after(self.random.expovariate(per_second / self.world.batch), arrive)

        self.clock.after(self.random.expovariate(per_second / self.world.batch), arrive)

    def keep_inside(self, jobs: int) -> None:
        """Let a job arrive whenever another one ends, so that as many are always inside."""
        for _ in range(jobs):
            self.submit(then=partial(self.keep_inside, 1))

    def _draw(self, traces: Sequence[Trace]) -> Trace:
        draws = min(DRAWS, self.world.batch)
        if draws == 1:
            return self.random.choice(traces)
        drawn = self.random.choices(traces, k=draws)
        steps = zip(*map(_joined, drawn), strict=True)
        return tuple(
            Step(same[0].stage, sum(s[1] for s in same) / draws, sum(s[2] for s in same) / draws, same[0].publishes)
            for same in steps
        )

    def _enter(self, job: _Job) -> None:
        station = self.stations[job.step.stage]
        wake_up = self.world.dispatch_seconds.get(job.step.stage, 0.0) if not station.waiting else 0.0
        self.clock.after(wake_up, station.enter, partial(self._start, job))

    def _start(self, job: _Job, leave: Action) -> None:
        """A worker has claimed the job: it waits for the host's turn, for others, and works."""
        stage, wait, cpu, publishes = job.step
        times = self._times[stage]
        if publishes:
            if not self._is_appended:
                _, wait, cpu, _ = self.world.covered
            self._is_appended = False
        wait, cpu = (wait + self.world.overhead_seconds.get(stage, 0.0)) * times, cpu * times
        if stage == "crawl" and self.world.hosts is not None:
            wait += self._turn()
        self.clock.after(wait, self.processors.work, cpu, self._worked, job, leave)

    def _turn(self) -> float:
        """Seconds until a host, drawn at random, lets the next request in."""
        host = self.random.randrange(len(self._free_at))
        begins = max(self.clock.now, self._free_at[host])
        self._free_at[host] = begins + self._turn_seconds
        return begins - self.clock.now

    def _worked(self, job: _Job, leave: Action) -> None:
        events = self.world.events_per_step * self.world.batch
        if self.world.background_cpu_seconds:
            self.processors.work(self.world.background_cpu_seconds * events, _nothing)
        self.ledger.settle(events, self._settled, job, leave)

    def _settled(self, job: _Job, leave: Action) -> None:
        leave()
        if self.random.random() < self.world.failures.get(job.step.stage, 0.0):
            job.tries += 1
            if job.tries < self.world.attempts:
                most = min(RETRY_MOST_SECONDS, RETRY_BASE_SECONDS * 2 ** (job.tries - 1))
                self.clock.after(self.random.uniform(0, most), self._enter, job)
            else:
                self.parked += job.counts
                job.end()
            return
        took = self.clock.now - job.came
        if job.step.publishes:
            self.searchable.append((self.clock.now, took))
            if self.world.afterwards:
                self._enter(_Job(self._draw(self.world.afterwards), self.clock.now, None, counts=False))
        elif job.step.stage == "index":
            self._is_appended = True
        job.at, job.tries = job.at + 1, 0
        if job.at < len(job.trace):
            self._enter(job)
        else:
            if job.counts:
                self.cited.append((self.clock.now, took))
            job.end()


class _Job:
    """A document or a batch on its way."""

    __slots__ = ("at", "came", "counts", "then", "trace", "tries")

    def __init__(self, trace: Trace, came: float, then: Action | None, *, counts: bool = True) -> None:
        self.trace, self.came, self.then, self.counts = trace, came, then, counts
        self.at = self.tries = 0

    @property
    def step(self) -> Step:
        return self.trace[self.at]

    def end(self) -> None:
        """Tell whoever waits for it."""
        if self.then is not None:
            self.then()


def _joined(trace: Trace) -> Trace:
    """The trace with neighbouring steps of one stage as one: a long page is embedded by several events."""
    parts = [(of, list(steps)) for of, steps in groupby(trace, lambda step: (step.stage, step.publishes))]
    return tuple(Step(of[0], sum(s[1] for s in steps), sum(s[2] for s in steps), of[1]) for of, steps in parts)


def _nothing() -> None:
    pass


def fan_out(seconds: Sequence[float], shards: int, count: int, seed: int) -> list[float]:
    """Return, ascending, the seconds of `count` queries that ask all shards at once: the longest of `shards` draws.

    The longest of n draws is the value at the quantile U^(1/n), U uniform.
    """
    generator, ordered = random.Random(seed), sorted(seconds)
    return sorted(percentile(ordered, generator.random() ** (1 / shards)) for _ in range(count))


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which that share of an ascending list lies."""
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
