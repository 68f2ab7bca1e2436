"""What pages draw as SVG: the geometry, as numbers, whose words and figures stand in a table beside it; and the page of
figures, with what each stage did over an hour, a day or a month, as the dashboards have it, from the ledger."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

from fastapi import Query, Response

from sluice.api.console.drawing import by_time, line
from sluice.api.console.frame import OperatingAll, Visit, pages
from sluice.api.console.hub import streamed, whole_number
from sluice.contracts.graph.api import Neighbours
from sluice.contracts.operations.overview import StageFigures, StageMinute
from sluice.workers.service.operate.overview import stage_figures

figures = pages()
SPANS = {1: "an hour", 24: "a day", 720: "a month"}
MEASURES: tuple[tuple[str, str, Callable[[StageMinute, int], float]], ...] = (
    ("Handled", "events a minute", lambda one, width: one.handled / width),
    ("Mean wait", "milliseconds from ready to claimed", lambda one, _: one.mean_wait_ms),
    ("Mean work", "milliseconds from claimed to settled", lambda one, _: one.mean_work_ms),
    ("Failed or parked", "tries a minute", lambda one, width: (one.failed + one.parked) / width),
)
"""What is drawn: its name, its unit, and its amount in so many minutes."""


@figures.get("/figures")
def show(visit: OperatingAll, hours: Annotated[int, Query(ge=1, le=720)] = 1) -> Response:
    """Show the figures of the last hours."""
    return visit.show("figures.html", spans=SPANS, hours=hours, **read(visit, {"hours": str(hours)}))


@streamed("figures", "figures_figures.html", needs=lambda visit, _: visit.caller.may_operate_instance(), seconds=5)
def read(visit: Visit, parameters: Mapping[str, str]) -> Mapping[str, Any]:
    """Read and draw them."""
    hours = whole_number(parameters, "hours", 720)
    stages = stage_figures(visit.instance.context, hours)
    charts = [(name, unit, *_drawn(stages, hours, amount)) for name, unit, amount in MEASURES]
    totals = [(one.stage, _total(one)) for one in stages]
    since = datetime.now(UTC) - timedelta(hours=hours)
    return {"charts": charts, "totals": totals, "since": since, "is_empty": not any(one.figures for one in stages)}


def _drawn(
    stages: list[StageFigures], hours: int, amount: Callable[[StageMinute, int], float]
) -> tuple[list[tuple[str, str]], float]:
    """Return a line for each stage, and the highest amount."""
    minutes, now = stages[0].minutes_each, datetime.now(UTC)
    width = timedelta(minutes=minutes)
    count = timedelta(hours=hours) // width
    rows = {one.stage: by_time(one.figures, now, width, count, lambda each: amount(each, minutes)) for one in stages}
    highest = max(max(row) for row in rows.values())
    return [(stage, line(row, highest, WIDTH, HEIGHT, 2.0)) for stage, row in rows.items()], highest


def _total(stage: StageFigures) -> StageMinute:
    """Return all figures of a stage as one; the means are weighted."""
    ended = sum(one.handled + one.failed + one.parked for one in stage.figures)

    def mean(name: str) -> float:
        sums = (getattr(one, name) * (one.handled + one.failed + one.parked) for one in stage.figures)
        return sum(sums) / ended if ended else 0.0

    counts = {
        name: sum(getattr(one, name) for one in stage.figures) for name in ("entered", "handled", "failed", "parked")
    }
    return StageMinute(
        at=datetime.now(UTC),
        **counts,
        mean_wait_ms=mean("mean_wait_ms"),
        mean_work_ms=mean("mean_work_ms"),
        longest_wait_ms=max((one.longest_wait_ms for one in stage.figures), default=0.0),
    )


WIDTH, HEIGHT = 720.0, 160.0
"""The inner units of a chart; it is drawn as wide as its place."""


class Bar(NamedTuple):
    """A part of a column: its place, its length, and what it is of."""

    x: float
    y: float
    width: float
    height: float
    of: str
    tip: str


def stacked(columns: Sequence[tuple[str, Mapping[str, float]]], kinds: Sequence[str]) -> list[Bar]:
    """Return the bars of columns, each of a label and its amounts by kind, stacked in the order of the kinds. The
    highest column fills the chart."""
    highest = max((sum(amounts.values()) for _, amounts in columns), default=0.0) or 1.0
    step, bars = WIDTH / max(1, len(columns)), []
    for place, (label, amounts) in enumerate(columns):
        top = HEIGHT
        for kind in kinds:
            if amount := amounts.get(kind, 0.0):
                height = max(1.0, amount / highest * HEIGHT)
                top -= height
                tip = f"{label}: {amount:,.4g} {kind}"
                bars.append(
                    Bar(round(place * step, 2), round(top, 2), round(step * 0.82, 2), round(height, 2), kind, tip)
                )
    return bars


GRAPH_WIDTH, GRAPH_HEIGHT = 960, 640
RING = 20
"""Nodes of one ring."""
LETTERS = 26
"""Letters of a label; the list beside the drawing has all."""


class Node(NamedTuple):
    """A drawn node, its label with the place of that, and its edge to the middle."""

    x: float
    y: float
    label: str
    anchor: str
    edge: str
    arrives: bool


def rings(found: Neighbours) -> list[Node]:
    """Return where a node's neighbours are drawn around it: the surest on the inner of up to three rings, those of one
    kind of edge side by side. The same neighbours are always drawn alike."""
    nodes: list[Node] = []
    count = -(-len(found.neighbours) // RING)
    for ring, begin in enumerate(range(0, len(found.neighbours), RING)):
        across_most, along_most = (340 - 100 * (count - 1 - ring), 265 - 80 * (count - 1 - ring))
        group = sorted(found.neighbours[begin : begin + RING], key=lambda one: (one.edge, one.direction, one.node.id))
        for place, one in enumerate(group):
            angle = 2 * math.pi * (place + ring / 3) / len(group) - math.pi / 2
            across, along = math.cos(angle), math.sin(angle)
            x = GRAPH_WIDTH / 2 + across * across_most
            y = GRAPH_HEIGHT / 2 + along * along_most
            anchor = "middle" if abs(across) < 0.3 else "start" if across > 0 else "end"
            nodes.append(Node(round(x, 1), round(y, 1), short(one.node.name), anchor, one.edge, one.direction == "in"))
    return nodes


def short(name: str) -> str:
    """Return a name as a label: its end, where it is long, as that tells names apart."""
    return name if len(name) <= LETTERS else "…" + name[1 - LETTERS :]


ROUTERS = (figures,)
