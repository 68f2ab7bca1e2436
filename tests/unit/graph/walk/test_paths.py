"""A path that is told leads on: what leads back to where it had been is left out."""

from __future__ import annotations

import pytest

from sluice.contracts.graph.model import EdgeType, GraphPath, NodeLabel, Origin, PathStep
from sluice.graph.walk.paths import without_loops


def path(start: str, *names: str) -> GraphPath:
    steps = [
        PathStep(edge=EdgeType.DEFINED_IN, origin=Origin.SCOPE, label=label(name), name=name, line=line)
        for line, name in enumerate(names, 1)
    ]
    return GraphPath(start=start, start_label=label(start), steps=tuple(steps))


def label(name: str) -> NodeLabel:
    return NodeLabel.DOCUMENT if name.endswith(".py") else NodeLabel.SYMBOL


@pytest.mark.parametrize(
    ("walked", "told"),
    [
        (path("a.py", "A", "b.py"), ["A", "b.py"]),
        (path("test", "t.py", "t.py", "A", "b.py"), ["t.py", "A", "b.py"]),
        (path("a.py", "A", "a.py", "B", "b.py"), ["B", "b.py"]),
        (path("a.py", "A", "b.py", "B", "c.py", "C", "b.py"), ["A", "b.py"]),
        (path("a.py", "A", "a.py"), ["A", "a.py"]),
    ],
)
def test_a_way_back_is_left_out_unless_it_is_all_there_is(walked: GraphPath, told: list[str]) -> None:
    straight = without_loops(walked)
    assert [step.name for step in straight.steps] == told
    assert straight.steps[-1].line == walked.steps[-1].line
