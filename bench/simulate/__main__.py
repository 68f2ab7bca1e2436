"""What an instance carries: measured, predicted, extrapolated.

    python -m bench.simulate                   # predictions beside measured runs; then the extrapolation and its figure
    python -m bench.simulate --table           # what one worker of each pool does and costs (docs/capacity.md)
    python -m bench.simulate.measure           # measures this machine anew

Nothing is extrapolated, and the exit code is 1, where a prediction misses a measured run by more than 15 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.simulate.calibrate import (
    MOST_ERROR,
    PROCESS_OF,
    Comparison,
    calmest,
    compare,
    covered_step,
    of_phase,
    service_times,
)
from bench.simulate.extrapolate import ASSUMED, HOUR, Extrapolation, Point, extrapolate
from bench.simulate.measure import MEASURED
from bench.simulate.plot import draw, largest
from tests.support.repository import REPOSITORY

FIGURE = REPOSITORY / "docs" / "figures" / "capacity.svg"


def main() -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, default=MEASURED)
    parser.add_argument("--table", action="store_true", help="only what one worker of each pool does and costs")
    parser.add_argument("--figure", type=Path, default=FIGURE)
    parser.add_argument("--seconds", type=float, default=HOUR, help="simulated at full scale")
    chosen = parser.parse_args()
    machine = json.loads(chosen.measured.read_text())
    if chosen.table:
        print("\n".join(table(machine)))
        return 0
    compared = compare(machine)
    print("\n".join(comparison(compared)))
    if not may_extrapolate(compared):
        print(f"nothing is extrapolated: a prediction is off by more than {MOST_ERROR:.0%}, or none was measured")
        return 1
    run = calmest(machine, "embed")
    chunks = statistics.mean(document["chunks"] for document in run["documents"])
    covered = covered_step(run, service_times(run, machine)["shares"])
    found = extrapolate(run, machine, covered, chunks, chosen.seconds)
    print("\n".join(extrapolated(found)))
    chosen.figure.write_text(draw(found, compared))
    return 0


def may_extrapolate(compared: Sequence[Comparison]) -> bool:
    """Whether there are predictions, and each is within 15 % of what was measured."""
    predictions = [one for one in compared if one.is_prediction]
    return bool(predictions) and all(one.worst <= MOST_ERROR for one in predictions)


def comparison(compared: Sequence[Comparison]) -> list[str]:
    """A line for each measured run."""
    lines = [
        "pool and workers, round: pages/s, p50 and p95 of URL to searchable, measured | simulated; largest error; "
        "cores that others used"
    ]
    for one in compared:
        shown = " | ".join(f"{run.per_second:.2f} {run.p50:.1f} {run.p95:.1f}" for run in (one.measured, one.predicted))
        source = "" if one.is_prediction else " (its times are this run's)"
        lines.append(f"{one.pool} {one.workers}, {one.seed}: {shown}; {one.worst:.0%}{source}; {one.others_cores:.2f}")
    return lines


def extrapolated(found: Extrapolation) -> list[str]:
    """The extrapolation as text."""
    each = found.each
    lines = ["one instance: embed workers, all workers: pages/s by seed; the busiest parts"]
    lines += [_point(one) for one in (*found.one_instance, found.full)]
    lines += ["the same if the index writer were no bound", *map(_point, found.without_index)]
    lines.append(f"{found.instances} instances of {each.workers} workers: {found.pages_per_second:,.0f} pages/s")
    lines.append(_point(each))
    lines.append("pages/s of these where a guess is half | double, over those of the guess")
    lines += [
        f"    {ASSUMED[name]}: {half:.2f} | {double:.2f}" for name, (half, double) in largest(found, len(ASSUMED))
    ]
    lines.append("a query that asks n shards: p50, p99 in ms")
    lines += [f"    {shards:,}: {1e3 * p50:.0f}, {1e3 * p99:.0f}" for shards, (p50, p99) in found.queries.items()]
    return lines


def _point(one: Point) -> str:
    rates = ", ".join(f"{rate:,.1f}" for rate in one.pages_per_second)
    busiest = sorted(one.busy.items(), key=lambda part: -part[1])[:3]
    return f"    {one.embed_workers:,}, {one.workers:,}: {rates}; " + ", ".join(f"{n} {u:.0%}" for n, u in busiest)


def table(machine: Mapping[str, Any]) -> list[str]:
    """What one worker of each pool does a second, and what it costs; from the calmest run of one worker."""
    run = calmest(machine, "embed")
    times, documents = service_times(run, machine), run["documents"]
    chunks = statistics.mean(document["chunks"] for document in documents)
    covered = covered_step(run, times["shares"])
    lines = [f"a page here has {chunks:.1f} chunks; others used {run['phases']['alone']['others_cores']:.2f} cores"]
    lines.append(
        "stage: pages/s of one worker with its own core; seconds of a core a page; seconds from claim to settling"
    )
    for stage in PROCESS_OF:
        traces = times["afterwards"] if stage == "graph" else times["traces"]
        steps = [step for trace in traces for step in trace if step.stage == stage]
        cpu = sum(step.cpu_seconds for step in steps) / len(traces)
        took = cpu + sum(step.wait_seconds for step in steps) / len(traces)
        held = [end - begin for one in of_phase(run, "alone") for _, at, _, begin, end in one["events"] if at == stage]
        lines.append(f"    {stage}: {1 / took:,.1f}; {cpu:.3f}; {sum(held) / len(traces):.3f}")
    appended = statistics.mean(
        step.wait_seconds + step.cpu_seconds
        for trace in times["traces"]
        for step in trace
        if step.stage == "index" and not step.publishes
    )
    lines.append(f"index, where one generation publishes many: {1 / (appended + sum(covered[1:3])):,.1f} pages/s")
    queries = run["phases"]["queries"]
    lines.append(
        f"query, direct: p50 {1e3 * statistics.median(run['queries']):.1f} ms, processor seconds of all "
        f"processes {sum(queries['cpu'].values()) / len(run['queries']):.4f}"
    )
    lines.append("processor seconds a page by process: " + _amounts(times["used"], "{:.3f}"))
    lines.append(
        "at rest, cores by process: "
        + _amounts(
            {name: spent / run["phases"]["idle"]["seconds"] for name, spent in run["phases"]["idle"]["cpu"].items()},
            "{:.3f}",
        )
    )
    lines.append("MB by process: " + _amounts(run["memory_mb"], "{:.0f}"))
    lines.append(f"events settled a second by SQLite: {max(machine['settled_per_second']):,.0f}")
    gain = statistics.median(machine["parallel_gain"])
    lines.append(f"{machine['processors']} cores embed {gain:.2f} times what one does")
    return lines


def _amounts(amounts: Mapping[str, float], shown: str) -> str:
    return ", ".join(f"{name} {shown.format(value)}" for name, value in amounts.items())


if __name__ == "__main__":
    sys.exit(main())
