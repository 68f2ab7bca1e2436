"""Nothing is extrapolated before the simulation meets what was measured, and the page names metrics that exist."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench.simulate import __main__ as program
from bench.simulate.calibrate import Comparison, Outcome, compare
from bench.simulate.measure import MEASURED
from sluice.otel.metrics import table
from tests.support.repository import REPOSITORY

MACHINE = json.loads(MEASURED.read_text())
PAGE = (REPOSITORY / "docs" / "capacity.md").read_text()


def test_what_was_measured_with_two_and_four_workers_is_predicted_within_15_percent() -> None:
    compared = compare(MACHINE)
    predictions = [one for one in compared if one.is_prediction]
    assert {one.workers for one in predictions} == {2, 4}
    assert program.may_extrapolate(compared), program.comparison(compared)


def test_without_a_prediction_that_holds_nothing_is_extrapolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Outcome(1.0, 10.0, 20.0)
    good = Comparison("embed", 2, 1, 0.0, measured, Outcome(1.1, 9.0, 21.0))
    assert program.may_extrapolate([good])
    assert not program.may_extrapolate([replace(good, workers=1)]), "the run that the times come from proves nothing"
    late = replace(good, predicted=Outcome(1.1, 9.0, 23.5))
    assert not program.may_extrapolate([good, late])
    monkeypatch.setattr(program, "compare", lambda _: [good, late])
    figure = tmp_path / "capacity.svg"
    monkeypatch.setattr("sys.argv", ["simulate", "--figure", str(figure)])
    assert program.main() == 1
    assert "nothing is extrapolated" in capsys.readouterr().out
    assert not figure.exists()


def test_the_page_names_metrics_that_exist() -> None:
    there = {name.removesuffix("_seconds") for name in re.findall(r'"(sluice_\w+)', Path(table.__file__).read_text())}
    named = set(re.findall(r"`(sluice_\w+)", PAGE))
    assert named
    assert {name.removesuffix("_seconds") for name in named} <= there
