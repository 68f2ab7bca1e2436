"""The evaluator over a million made-up runs: what a start, a refresh and a report cost, and what memory it holds.

`python -m bench.evaluation [RUNS]`: 1,000,000 by default, over 30 days, on SQLite in a temporary folder.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

from bench.evaluation.made_up_runs import fill
from evaluation.evaluator import Evaluator, Windowing
from ledger.ledger import Ledger
from workers.runtime.evaluation_feed import RUNS_AT_ONCE, EvaluationFeed
from workers.service.evaluation import evaluate

BEGAN_AT = 1_700_006_400.0
"""2023-11-15 00:00 UTC."""
DAYS = 30
NEW_RUNS = 1_000
"""That came since the last refresh: thirty seconds at 33 runs a second, more than one machine carries."""


def measure_evaluation(count: int = 1_000_000) -> dict[str, float]:
    """Seconds of wall time, and bytes that the evaluator holds after a tenth of the runs and after all."""
    windowing = Windowing()
    now = BEGAN_AT + DAYS * 86_400
    with tempfile.TemporaryDirectory() as folder, Ledger(f"sqlite:///{Path(folder) / 'ledger.sqlite'}") as ledger:
        fill(ledger, count, BEGAN_AT, DAYS * 86_400.0)
        feed = EvaluationFeed(ledger.outcomes, windowing, lambda: now)
        slices = []
        is_up_to_date = False
        while not is_up_to_date:
            began = time.perf_counter()
            is_up_to_date = feed.refresh()
            slices.append(time.perf_counter() - began)
        fill(ledger, NEW_RUNS, now, 30.0, seed=1)
        now += windowing.grace_seconds + 60
        began = time.perf_counter()
        feed.refresh()
        incremental = time.perf_counter() - began
        began = time.perf_counter()
        evaluate(ledger.outcomes, datetime.fromtimestamp(BEGAN_AT, UTC), datetime.fromtimestamp(now, UTC))
        report = time.perf_counter() - began
        tenth, whole = (_held(ledger, windowing, BEGAN_AT + DAYS * 86_400 * share) for share in (0.1, 1.0))
    return {
        "runs": count,
        f"start, slices of {RUNS_AT_ONCE:,} runs": len(slices),
        "start, seconds": sum(slices),
        "longest slice, seconds": max(slices),
        f"refresh with {NEW_RUNS:,} new runs, seconds": incremental,
        "report over all runs (sluice evaluate), seconds": report,
        "memory after a tenth of the runs, MB": tenth / 1e6,
        "memory after all, MB": whole / 1e6,
    }


def _held(ledger: Ledger, windowing: Windowing, before: float) -> int:
    """Bytes that an evaluator holds which has folded the runs before a moment."""
    gc.collect()
    tracemalloc.start()
    evaluator = Evaluator(windowing)
    evaluator.fold(ledger.outcomes.decided_between(BEGAN_AT, before))
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held


def main() -> None:
    """Measure and print."""
    for name, value in measure_evaluation(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000).items():
        print(f"{name:50} {value:12,.3f}")


if __name__ == "__main__":
    main()
