"""The evaluator over a million made-up runs: what a start, a refresh and a report cost, and what memory it holds.

`python -m bench.evaluation [RUNS]`: 1,000,000 by default, over 30 days, on SQLite in a temporary folder.
"""

from __future__ import annotations

import gc
import resource
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.evaluation.made_up_runs import fill
from sluice.evaluation.evaluator import Windowing
from sluice.ledger.ledger import Ledger
from sluice.workers.processes.watches.gate import RUNS_AT_ONCE, EvaluationFeed
from sluice.workers.service.learning.evaluation import evaluate

BEGAN_AT = 1_700_006_400.0
"""2023-11-15 00:00 UTC."""
DAYS = 30
NEW_RUNS = 1_000
"""That came since the last refresh: thirty seconds at 33 runs a second, more than one machine carries."""


def measure_evaluation(count: int = 1_000_000) -> dict[str, float]:
    """Seconds, and the memory that the process has taken since it began to fold, in MB."""
    windowing = Windowing()
    now = BEGAN_AT + DAYS * 86_400
    with tempfile.TemporaryDirectory() as folder, Ledger(f"sqlite:///{Path(folder) / 'ledger.sqlite'}") as ledger:
        fill(ledger, count, BEGAN_AT, DAYS * 86_400.0)
        feed = EvaluationFeed(ledger.outcomes, windowing, lambda: now)
        before = _resident_bytes()
        slices, held = [], []
        is_up_to_date = False
        while not is_up_to_date:
            began = time.perf_counter()
            is_up_to_date = feed.refresh()
            slices.append(time.perf_counter() - began)
            held.append(_resident_bytes() - before)
        fill(ledger, NEW_RUNS, now, 30.0, seed=1)
        now += windowing.grace_seconds + 60
        began, began_cpu = time.perf_counter(), time.process_time()
        feed.refresh()
        incremental, incremental_cpu = time.perf_counter() - began, time.process_time() - began_cpu
        began = time.perf_counter()
        evaluate(ledger, datetime.fromtimestamp(BEGAN_AT, UTC), datetime.fromtimestamp(now, UTC))
        report = time.perf_counter() - began
    return {
        "runs": count,
        f"start, slices of {RUNS_AT_ONCE:,} runs": len(slices),
        "start, seconds": sum(slices),
        "median slice, seconds": statistics.median(slices),
        f"refresh with {NEW_RUNS:,} new runs, seconds": incremental,
        f"refresh with {NEW_RUNS:,} new runs, CPU seconds": incremental_cpu,
        "report over all runs (sluice eval runs), seconds": report,
        "memory held after a fifth of the runs, MB": held[len(held) // 5] / 1e6,
        "memory held after half of them, MB": held[len(held) // 2] / 1e6,
        "memory held after all, MB": held[-1] / 1e6,
    }


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    """Measure and print."""
    for name, value in measure_evaluation(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000).items():
        print(f"{name:50} {value:12,.3f}")


if __name__ == "__main__":
    main()
