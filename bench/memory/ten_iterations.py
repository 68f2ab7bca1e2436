"""Ten iterations on a small project with real tools, and the ten prompt blocks that memory makes of them.

    python -m bench.memory.ten_iterations           runs pytest, ruff and mypy; prints each block

Each iteration edits files of a project in a temporary folder, runs the tools, and is recorded as the stream that Claude
Code would have printed, closed by `success` whatever the tests say. Read the blocks as the next agent would.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluice.contracts.memory.api import IterationContext
from sluice.memory.embedded.open import sanitise_with_trust
from sluice.memory.memory import Memory
from tests.support.memory.claude_stream import ClaudeStream

FEATURE = "orders"
ITERATIONS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["iteration"]


def main() -> None:
    plain, name = argparse.RawDescriptionHelpFormatter, "python -m bench.memory.ten_iterations"
    argparse.ArgumentParser(name, description=__doc__, formatter_class=plain).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        project.mkdir()
        memory = Memory(Path(folder) / "memory", str(project), sanitise=sanitise_with_trust)
        titles = list(dict.fromkeys(one["title"] for one in ITERATIONS))
        for number, iteration in enumerate(ITERATIONS, start=1):
            task = 1 + titles.index(iteration["title"])
            context = IterationContext(iteration_number=number, task_id=task, task_title=iteration["title"])
            record = memory.record(FEATURE, play(project, number, iteration), context=context).record
            told = f"{record.outcome}, {len(record.errors)} errors stand, {len(record.solved)} solved"
            print(f"\n=== after iteration {number}: {told}")
            print(memory.prompt(FEATURE, iteration_number=number + 1, session_id=f"s{number + 1}", task_id=task).text)


def play(project: Path, number: int, iteration: Mapping[str, Any]) -> str:
    """Do what the agent does, and return the stream that it would have printed."""
    stream = ClaudeStream(f"s{number}", str(project))
    for step in iteration["steps"]:
        match step:
            case {"say": text}:
                stream.say(text)
            case {"edit": name, "old": old, "new": new}:
                path = project / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(path.read_text("utf-8").replace(old, new, 1) if old else new, encoding="utf-8")
                stream.edit(name, old, new)
            case {"run": command}:
                stream.run(command, *run(project, command))
    return stream.say(iteration["end"]).end(iteration["end"])


def run(project: Path, command: str) -> tuple[str, int]:
    """Run a command in the project with this environment's tools; return its output and exit code."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {"PATH": path, "PYTHONPATH": str(project), "HOME": str(project), "COLUMNS": "100"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=project, text=True, capture_output=True, check=False, env=environment
    )
    return (done.stdout + done.stderr).strip(), done.returncode


if __name__ == "__main__":
    main()
