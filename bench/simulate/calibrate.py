"""From a measured run of one worker to a simulated instance, and what that predicts of two and four workers."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.simulate.pipeline import Pipeline, Step, Trace, World, percentile

PROCESS_OF = {
    "query": "gate+query",
    "gate": "gate+query",
    "crawl": "crawl",
    "chunk": "chunk",
    "embed": "embed",
    "index": "search+index+graph",
    "graph": "search+index+graph",
}
WORKERS = {"query": 4, "gate": 4, "crawl": 4, "chunk": 2, "embed": 1, "index": 1, "graph": 1}
"""Workers of each stage by default."""
COMPUTES = frozenset({"chunk", "embed"})
"""Stages that only compute: what of their seconds was not on a processor, they waited for one that others used."""
SEEDS = (1, 2, 3)
MOST_ERROR = 0.15

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Documents a second from the first request to the last one searchable, and seconds from URL to searchable."""

    per_second: float
    p50: float
    p95: float

    def errors(self, measured: Outcome) -> tuple[float, float, float]:
        """Relative differences of this prediction from what was measured."""
        return (self.per_second / measured.per_second - 1, self.p50 / measured.p50 - 1, self.p95 / measured.p95 - 1)


def of_phase(run: Mapping[str, Any], name: str) -> list[Document]:
    """The documents whose requests came in that phase."""
    phase = run["phases"][name]
    ended = phase["begun"] + phase["seconds"]
    return [one for one in run["documents"] if phase["begun"] <= one["begun"] <= ended]


def measured_outcome(run: Mapping[str, Any]) -> Outcome:
    """What came of the pages that were asked for at once."""
    documents = of_phase(run, "burst")
    last = max(one["begun"] + one["searchable"] for one in documents)
    return _outcome([one["searchable"] for one in documents], last - documents[0]["begun"])


def _outcome(taken: Iterable[float], whole: float) -> Outcome:
    ordered = sorted(taken)
    return Outcome(len(ordered) / whole, percentile(ordered, 0.5), percentile(ordered, 0.95))


def service_times(run: Mapping[str, Any], machine: Mapping[str, Any]) -> dict[str, Any]:
    """Take from pages that came one by one: what each stage does, waits and uses; see `world_of`.

    A stage's seconds are those from claim to settling, which the ledger has. The part of them on a processor is what
    its process used, beyond what it uses at rest; a second counts for less if others worked on the other cores
    meanwhile, by what cores lose beside one another. What these processes use beyond their events (the threads of the
    index) goes with time, as all phases show, and what all others use goes with events.
    """
    documents, alone, idle = of_phase(run, "alone"), run["phases"]["alone"], run["phases"]["idle"]
    cores, gain = machine["processors"], statistics.median(machine["parallel_gain"])
    slowed = 1 + (cores / gain - 1) * min(1.0, alone["others_cores"] / (cores - 1))
    used = {
        process: max(0.0, spent - alone["seconds"] * idle["cpu"].get(process, 0.0) / idle["seconds"])
        / len(documents)
        / slowed
        for process, spent in alone["cpu"].items()
    }
    busy: dict[str, float] = defaultdict(float)
    for document in documents:
        for _, stage, _, claimed, settled in document["events"]:
            busy[PROCESS_OF[stage]] += (settled - claimed) / len(documents)
    shares = {process: min(1.0, used[process] / seconds) for process, seconds in busy.items()}
    beside = sum(used[process] - shares[process] * seconds for process, seconds in busy.items())
    events = statistics.mean(len(document["events"]) for document in documents)
    dispatch: dict[str, list[float]] = defaultdict(list)
    for document in documents:
        for _, stage, ready, claimed, _ in document["events"]:
            dispatch[stage].append(claimed - ready)
    return {
        "shares": shares,
        "used": used,
        "busy": dict(busy),
        "events": events,
        "background": sum(spent for process, spent in used.items() if process not in busy) / events,
        "dispatch": {stage: statistics.median(seconds) for stage, seconds in dispatch.items()},
        "traces": [_trace(document, shares) for document in documents],
        "afterwards": [_trace(document, shares, graph=True) for document in documents],
        "rest_cores": sum(idle["cpu"].values()) / idle["seconds"] + beside * len(documents) / alone["seconds"],
    }


def _trace(document: Document, shares: Mapping[str, float], *, graph: bool = False) -> Trace:
    steps = []
    for kind, stage, _, claimed, settled in document["events"]:
        if (stage == "graph") == graph:
            seconds, share = settled - claimed, shares[PROCESS_OF[stage]]
            wait = 0.0 if stage in COMPUTES else seconds * (1 - share)
            steps.append(Step(stage, wait, seconds * share, kind == "DocumentIndexed"))
    return tuple(steps)


def covered_step(run: Mapping[str, Any], shares: Mapping[str, float]) -> Step:
    """The step of a document that another one's generation holds already: the median of those at once."""
    seen: set[str] = set()
    seconds = []
    published = [
        (settled, settled - claimed, document["generation"])
        for document in of_phase(run, "burst")
        for kind, _, _, claimed, settled in [
            (k, s, r, document["begun"] + c, document["begun"] + e) for k, s, r, c, e in document["events"]
        ]
        if kind == "DocumentIndexed"
    ]
    for _, taken, generation in sorted(published):
        if generation in seen:
            seconds.append(taken)
        seen.add(generation)
    taken, share = statistics.median(seconds or [0.01]), shares[PROCESS_OF["index"]]
    return Step("index", taken * (1 - share), taken * share, publishes=True)


def world_of(times: Mapping[str, Any], covered: Step, machine: Mapping[str, Any], **changed: Any) -> World:
    """The instance that was measured."""
    gain = statistics.median(machine["parallel_gain"])
    return World(
        **{
            "traces": times["traces"],
            "afterwards": times["afterwards"],
            "workers": WORKERS,
            "dispatch_seconds": times["dispatch"],
            "covered": covered,
            "background_cpu_seconds": times["background"],
            "cores": float(machine["processors"]),
            "gain": gain,
            "taken": times["rest_cores"],
            **changed,
        }
    )


def predict(world: World, begun: Sequence[float], seeds: Sequence[int] = SEEDS) -> Outcome:
    """Simulate documents that come at the moments `begun`; the mean of the seeds."""
    outcomes = []
    for seed in seeds:
        pipeline = Pipeline(world, seed)
        traces = [world.traces[at % len(world.traces)] for at in range(len(begun))]
        pipeline.random.shuffle(traces)
        for at, trace in zip(begun, traces, strict=True):
            pipeline.clock.after(at - begun[0], pipeline.submit, trace)
        pipeline.clock.run()
        outcomes.append(_outcome((took for _, took in pipeline.searchable), max(at for at, _ in pipeline.searchable)))
    return Outcome(*(statistics.mean(getattr(one, name) for one in outcomes) for name in ("per_second", "p50", "p95")))


@dataclass(frozen=True)
class Comparison:
    """A measured run beside what the simulation says of it; of one worker it is the run that the times come from."""

    pool: str
    workers: int
    seed: int
    others_cores: float
    measured: Outcome
    predicted: Outcome

    @property
    def is_prediction(self) -> bool:
        """Whether the simulation knows nothing of that run."""
        return self.workers > 1

    @property
    def worst(self) -> float:
        """The largest relative error of the three figures."""
        return max(map(abs, self.predicted.errors(self.measured)))


def compare(machine: Mapping[str, Any]) -> list[Comparison]:
    """Compare every run with what the times of its round's run of one worker predict."""
    found = []
    base = {(run["case"]["pool"], run["seed"]): run for run in machine["runs"] if run["workers"] == 1}
    for run in machine["runs"]:
        pool, workers = run["case"]["pool"], run["workers"]
        one = base.get((pool, run["seed"]))
        if one is None:
            continue
        times = service_times(one, machine)
        burst, rest = run["phases"]["burst"], times["rest_cores"]
        others = burst["others_cores"]
        taken = [(at, rest + cores) for at, cores in burst.get("others", [(0.0, others)])]
        changed = {"workers": {**WORKERS, pool: workers}, "taken_from": taken}
        world = world_of(times, covered_step(one, times["shares"]), machine, **changed)
        predicted = predict(world, [document["begun"] for document in of_phase(run, "burst")])
        found.append(Comparison(pool, workers, run["seed"], others, measured_outcome(run), predicted))
    return found


def calmest(machine: Mapping[str, Any], pool: str) -> Mapping[str, Any]:
    """The run of one worker of that pool during which others used least of the processors."""
    runs = [run for run in machine["runs"] if run["case"]["pool"] == pool and run["workers"] == 1]
    return min(runs, key=lambda run: float(run["phases"]["alone"]["others_cores"]))
