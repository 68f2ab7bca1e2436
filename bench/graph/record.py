"""Records the calls between the files of a tree while its tests run, under whatever interpreter has what they need.

`PYTHONPATH=<this repository> python -m bench.graph.record ROOT OUT [OPTION …] (-m MODULE | SCRIPT) [ARGUMENT …]` writes
the pairs as JSON, for `python -m bench.graph.calls --recorded OUT`. With `--sample 40 tests/unit` the program gets 40
test files below that folder of the tree as further arguments, always the same ones. It imports the standard library
alone. Of this repository: `python -m bench.graph.record . calls.json --sample 40 tests/unit -m pytest -q -n 0`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import runpy
import signal
import sys
from pathlib import Path

from bench.graph.recorder import Recorder

_LEFT_OUT = frozenset({".venv", ".git", ".tox", "build", "node_modules", "__pycache__"})


def sources(root: Path) -> list[str]:
    """The Python files of a tree."""
    paths = (path for path in root.rglob("*.py") if not _LEFT_OUT.intersection(path.relative_to(root).parts))
    return sorted(str(path) for path in paths)


def sampled(root: Path, folder: str, count: int) -> list[str]:
    """So many test files below a folder of the tree, chosen by chance, the same ones each time."""
    tests = [path for path in sources(root / folder) if Path(path).name.startswith("test")]
    return sorted(random.Random(1).sample(tests, min(count, len(tests))))


def _write(recorder: Recorder, root: Path, out: Path) -> None:
    out.write_text(json.dumps({"root": str(root), "pairs": sorted(recorder.pairs.copy())}), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=int, default=300, help="what was recorded until then is written")
    parser.add_argument("--sample", nargs=2, metavar=("COUNT", "FOLDER"), help="test files to run")
    parser.add_argument("-m", dest="is_module", action="store_true", help="run a module, as `python -m` does")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    root, out = options.root.resolve(), options.out.resolve()
    recorder = Recorder(frozenset(sources(root)))

    def stop(*_: object) -> None:
        sys.setprofile(None)
        _write(recorder, root, out)
        os._exit(0)

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(options.seconds)
    tests = sampled(root, options.sample[1], int(options.sample[0])) if options.sample else []
    sys.argv = [options.program, *options.arguments, *tests]
    with contextlib.suppress(SystemExit), recorder.recording():
        if options.is_module:
            runpy.run_module(options.program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(options.program).resolve().parent))
            runpy.run_path(options.program, run_name="__main__")
    signal.alarm(0)
    _write(recorder, root, out)
    os._exit(0)  # threads that the tests left behind do not hold it up


if __name__ == "__main__":
    main()
