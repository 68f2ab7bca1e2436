"""Every bench: `python -m bench [DATA_DIR]`. What the data directory lacks is skipped, and said."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from bench.ingest import measure_ingest
from bench.latency import measure_latency, print_latency
from bench.ledger import measure_ledger
from bench.queues.__main__ import measure_queues

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


def main() -> None:
    """Run and print everything."""
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    print("latency of an idle instance, medians")
    print_latency(measure_latency())
    print("the ledger on SQLite")
    _print(measure_ledger())
    print("CPU per chunk through the queues")
    _print(measure_queues())
    corpus = data / "scifact_train" / "corpus.jsonl"
    if not corpus.is_file():
        print(f"ingest: skipped, no {corpus}")
        return
    print("ingest through the pipeline against the embedder alone")
    _print(measure_ingest(corpus))


def _print(figures: Mapping[str, float]) -> None:
    for name, value in figures.items():
        print(f"{name:<40} {value:12,.2f}")


if __name__ == "__main__":
    main()
