"""A few seconds of fuzzing; the whole is `python -m tests.chaos.fuzz`. And the proof that it notices what goes wrong."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.chaos.fuzz import child
from tests.chaos.fuzz.targets import TARGETS, Target
from tests.chaos.fuzz.watch import fuzz

SECONDS = {"url": 3.0, "robots": 3.0, "html": 5.0, "pdf": 5.0}


@pytest.mark.parametrize("name", [pytest.param("url", marks=pytest.mark.smoke), "robots", "html", "pdf"])
def test_no_input_crashes_or_hangs_a_reader(name: str, tmp_path: Path) -> None:
    done = fuzz(name, SECONDS[name], 1, tmp_path)
    told = [path.read_text() for path in tmp_path.glob("*.txt")]
    assert done.findings == (), told
    assert done.inputs > 0


def _fails_on_brackets(text: str) -> None:
    if "[" in text:
        raise KeyError(text)


def _takes_long(text: str) -> None:
    until = time.process_time() + 0.02 * len(text)
    while time.process_time() < until:
        pass


@pytest.mark.parametrize(("run", "kind"), [(_fails_on_brackets, "KeyError"), (_takes_long, "Slow")])
def test_a_reader_that_fails_or_takes_long_is_found(
    run: child.Any, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Target(run, st.text("[ab", max_size=8), cpu_seconds=0.05, wall_seconds=10, examples=200)
    monkeypatch.setitem(TARGETS, "broken", broken)
    feeder = child.Feeder("broken", tmp_path)
    for number in range(20):  # a second is enough where the machine is not busy
        feeder.feed(time.monotonic() + 1.0, number)
        if list(tmp_path.glob("*.input")):
            break
    assert [path.name.split("-")[1] for path in tmp_path.glob("broken-*.input")] == [kind]
