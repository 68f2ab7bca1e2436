"""Every bench: `python -m bench [DATA_DIR]`. What the data directory lacks is skipped, and said."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.ingest import measure_ingest
from bench.latency import measure_latency, print_latency

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


def main() -> None:
    """Run and print everything."""
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    print("latency of an idle instance, medians")
    print_latency(measure_latency())
    corpus = data / "scifact_train" / "corpus.jsonl"
    if not corpus.is_file():
        print(f"ingest: skipped, no {corpus}")
        return
    print("ingest through the pipeline against the embedder alone")
    for name, value in measure_ingest(corpus).items():
        print(f"{name:<24} {value:12,.2f}")


if __name__ == "__main__":
    main()
