"""The index beside its peers, and against its size.

    python -m bench.index [--quick] [--only peers|sweep|reloads] [--json FILE] [--data DIR]

The peers are installed in an environment of their own at first use, and the real corpus is embedded once (about twenty
minutes of one processor for 100,000 chunks, two for `--quick`); both stay below .cache. Needs a machine that is quiet:
every contestant has one processor, and wall time is what is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.index.against import measure_peers
from bench.index.real import has_sets, real_corpus
from bench.index.reloads import measure_reloads
from bench.index.sweep import measure_sweep
from bench.index.targets import table
from tests.support.repository import MODELS, REPOSITORY

CACHE = REPOSITORY / ".cache" / "bench"
DATA = REPOSITORY.parent / "shared" / "data"
MEASURES = ("peers", "sweep", "reloads")
Figures = dict[str, float]


def measure_index(measure: str, data: Path = DATA, quick: bool = False) -> Figures:
    """One of `MEASURES`. Raises `FileNotFoundError` for `peers` where the test sets are not in `data`."""
    with scratch() as folder:
        match measure:
            case "peers":
                return _measure_peers(data, folder, quick)
            case "sweep":
                sizes = (1_000, 3_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
                return measure_sweep(sizes, folder)
            case "reloads":
                return measure_reloads(*((10_000, 50) if quick else (100_000, 200)), folder)
    raise ValueError(f"{measure} is none of {', '.join(MEASURES)}")


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the repository's disk, as what is in memory syncs for nothing; removed at the end."""
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=CACHE))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure_peers(data: Path, folder: Path, quick: bool) -> Figures:
    if not has_sets(data):
        raise FileNotFoundError(f"no test sets in {data}")
    passages = real_corpus(data, 10_000 if quick else 100_000, MODELS, CACHE)
    return measure_peers(passages, folder, rounds=3 if quick else 5, ingest_rounds=1 if quick else 5)


def main() -> None:
    arguments = _arguments()
    print(
        f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; one processor and one thread for each contestant"
    )
    figures: Figures = {}
    for measure in [arguments.only] if arguments.only else MEASURES:
        found = measure_index(measure, arguments.data, arguments.quick)
        print(f"\n{measure}{', quick: the targets are those of the full run' if arguments.quick else ''}")
        print("\n".join(table(found)), flush=True)
        figures |= found
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.index", description="Measure the index against peers and size.")
    parser.add_argument("--quick", action="store_true", help="10,000 chunks, few rounds: minutes, not an hour")
    parser.add_argument("--only", choices=MEASURES, help="one of the measures")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--data", type=Path, default=DATA, help="where the test sets are")
    return parser.parse_args()


if __name__ == "__main__":
    main()
