"""The shells complete commands and stages, each by the script that `sluice --install-completion` gives it, in a moment."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MOST_CPU_SECONDS = 0.5
"""Beside .2 to .3 measured on an idle machine."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which `sluice` is this repository's."""
    program = tmp_path / "bin" / "sluice"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sluice.cli "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


def run(shell: str, script: str, path: str) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    environment = {**os.environ, "PATH": path, "HOME": path.partition(":")[0]}
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def script_for(shell: str, path: str) -> str:
    environment = {**os.environ, "PATH": path, "_SLUICE_COMPLETE": f"source_{shell}"}
    return subprocess.run(["sluice"], capture_output=True, text=True, env=environment, check=True).stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [("sluice st", {"status", "stages"}), ("sluice stages cr", {"crawl"}), ("sluice dead re", {"replay", "replays"})],
)
def test_bash_completes_commands_and_stages(path: str, words: str, expected: set[str]) -> None:
    typed = words.split()
    asked = f"COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _sluice_completion sluice; echo ${{COMPREPLY[@]}}"
    assert {*run("bash", f"{script_for('bash', path)}\n{asked}", path)} == expected


@pytest.mark.parametrize(("words", "expected"), [("sluice st", {"status", "stages"}), ("sluice stages cr", {"crawl"})])
def test_fish_completes_commands_and_stages(path: str, words: str, expected: set[str]) -> None:
    found = run("fish", f"{script_for('fish', path)}\ncomplete -C '{words}' | cut -f1", path)
    assert expected <= {*found}


def test_zsh_takes_the_script_and_gets_the_names(path: str) -> None:
    asked = "_TYPER_COMPLETE_ARGS='sluice stages cr' _SLUICE_COMPLETE=complete_zsh sluice"
    stub = "compdef() { print -r -- compdef $* }"
    found = run("zsh", f"{stub}\n{script_for('zsh', path).removeprefix('#compdef sluice')}\n{asked}", path)
    assert "_sluice_completion" in found
    assert '"crawl"' in " ".join(found)


def test_completion_costs_little(path: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PATH": path, "COMP_WORDS": "sluice stages cr", "COMP_CWORD": "2"}
    told = subprocess.run(
        ["sluice"], env={**environment, "_SLUICE_COMPLETE": "complete_bash"}, capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert told.stdout.split() == ["crawl"]
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_CPU_SECONDS
