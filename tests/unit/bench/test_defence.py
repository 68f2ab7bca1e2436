"""In a simulated quarter the gate steps back soon after the world got worse, and comes forward once it got better."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.defence.__main__ import SEED
from bench.defence.plot import Line, Panel, draw_plot
from bench.defence.quarter import BEFORE, WORLD, Told, play


@pytest.fixture(scope="module")
def quarter() -> Told:
    return play(SEED)


@pytest.mark.slow
def test_it_steps_back_within_two_windows_of_the_change_and_comes_forward_again(quarter: Told) -> None:
    (tripped, name, _, windows), (healed, *_) = quarter.changes
    assert [change for _, _, change, _ in quarter.changes] == ["trip", "heal"]
    assert name == "satisfaction"
    assert WORLD[1].from_day < tripped < WORLD[1].from_day + 3
    assert windows <= 2
    assert healed > WORLD[2].from_day


def test_while_it_steps_back_the_configuration_before_decides_but_for_the_trickle(quarter: Told) -> None:
    steered = [run for run in quarter.runs if run.is_stepped_back]
    trickle = [run for run in quarter.runs if run.is_trickle]
    assert {run.config_hash for run in steered} == {BEFORE}
    assert 0.04 < len(trickle) / (len(trickle) + len(steered)) < 0.06


def test_the_plot_is_an_image_with_a_line_for_each_series() -> None:
    panel = Panel("satisfaction", 0.0, 1.0, (0.5,), [Line("with", "#000000", [(0, 0.5), (90, 2.0)])], floor=0.7)
    image = ElementTree.fromstring(draw_plot([panel, panel], 90, [30], [(31, 60)]))
    lines = [one for one in image if one.tag.endswith("polyline")]
    assert (lines[0].get("points") or "").endswith(",30.0"), "what is too high ends at the top"
    assert len(lines) == 2
