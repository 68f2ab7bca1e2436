"""Records the calls between the files of a tree while its tests run, under whatever interpreter has what they need.

`PYTHONPATH=<this repository> python -m bench.graph.record ROOT OUT [--seconds N] (-m MODULE | SCRIPT) [ARGUMENT …]`
writes the pairs as JSON, for `python -m bench.graph.calls --recorded OUT`. It imports the standard library alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
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


def _write(recorder: Recorder, root: Path, out: Path) -> None:
    out.write_text(json.dumps({"root": str(root), "pairs": sorted(recorder.pairs.copy())}), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=int, default=300, help="what was recorded until then is written")
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
    sys.argv = [options.program, *options.arguments]
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
