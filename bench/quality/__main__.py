"""How good retrieval is on public test collections, against a plain baseline measured in the same run.

    python -m bench.quality [DATA_DIR] [--sets a,b,c] [--questions N] [--write docs/quality.md]

Every collection in BEIR form below DATA_DIR goes into an instance of its own making, through the HTTP interface and
with every setting on its default, and is asked by the functions of `sluice eval`. Ends with 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.quality.document import document, verdicts
from bench.quality.measure import measure_quality
from sluice.evaluation.retrieval.cases import is_collection
from tests.support.repository import REPOSITORY

DATA = REPOSITORY.parent / "shared" / "data"
CACHE = REPOSITORY / ".cache" / "quality"


def main() -> int:
    """Measure, print, write; 1 when a limit is missed."""
    arguments = parsed_arguments()
    folders = collections_in(arguments.data, arguments.sets)
    if not folders:
        print(f"quality: skipped, no collection in {arguments.data}")
        return 0
    found = list(measure_quality(folders, arguments.questions, arguments.cache))
    text = document(found, command_line(arguments))
    print(text)
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    return 0 if all(is_met for _, is_met in verdicts(found)) else 1


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.quality", description="Measure retrieval on public collections.")
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="folder of collections in BEIR form")
    parser.add_argument("--sets", help="only these, by folder name, split by commas (default: every one)")
    parser.add_argument("--questions", type=int, help="ask so many of each, always the same (default: all)")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where vectors and reports are kept for the next run")
    parser.add_argument("--write", type=Path, help="write the result as Markdown to this file")
    return parser.parse_args()


def collections_in(data: Path, sets: str | None) -> list[Path]:
    """The folders that are collections; those named, in their order, must be."""
    if sets is None:
        return [folder for folder in sorted(data.glob("*")) if is_collection(folder)]
    folders = [data / name for name in sets.split(",")]
    if strangers := [folder.name for folder in folders if not is_collection(folder)]:
        raise SystemExit(f"no collection in {data}: {', '.join(strangers)}")
    return folders


def command_line(arguments: argparse.Namespace) -> str:
    """What was typed, without the folders of this machine."""
    parts = ["python -m bench.quality DATA_DIR"]
    parts += [f"--sets {arguments.sets}"] if arguments.sets else []
    parts += [f"--questions {arguments.questions}"] if arguments.questions else []
    parts += ["--write docs/quality.md"] if arguments.write else []
    return " ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
