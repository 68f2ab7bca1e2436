"""The waterfall of `sluice trace`: words beside bars, cuts as marks, hostile texts without effect."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from sluice.cli.operate.waterfall import BAR_CELLS, waterfall
from sluice_client.models import Timeline


def row(doing: str, begins_ms: float, took_ms: float, **fields: Any) -> dict[str, Any]:
    common = {"event_id": "evt_1", "cause_id": None, "kind": "CrawlDirected", "stage": "crawl", "depth": 0, "why": ""}
    common |= {"label": "CrawlDirected", "worker": None, "attempt": None, "is_critical": False, "is_under_way": False}
    common |= {"folded": 1, "shortest_ms": None, "longest_ms": None, "ends_ms": []}
    return common | {"doing": doing, "begins_ms": begins_ms, "took_ms": took_ms} | fields


def drawn(*rows: dict[str, Any], now_ms: float, cuts: tuple[dict[str, float], ...] = ()) -> list[str]:
    told = {"run_id": "run_1", "status": "open", "created_at": "2031-05-06T12:00:00Z", "now_ms": now_ms}
    told |= {"is_over": False, "sum_line": "", "sums": [], "rows": list(rows), "rows_in_all": 8_000, "cuts": list(cuts)}
    out = io.StringIO()
    Console(file=out, width=200).print(waterfall(Timeline.model_validate(told)))
    return out.getvalue().splitlines()


def test_each_row_says_what_it_is_and_why_and_ends_ragged_while_it_goes_on() -> None:
    _, waits, works, parts, told = drawn(
        row("waits", 0, 500, why="stage paused by ana: upgrade"),
        row("works", 500, 400, is_under_way=True, attempt=2, label="crawl, attempt 2"),
        row("works", 0, 900, folded=20, shortest_ms=10, longest_ms=200, label="CrawlDirected × 20", depth=1),
        now_ms=1_000,
    )
    assert waits.split("░")[0].split() == ["CrawlDirected", "waits", "0.0", "500.0"]
    assert (waits.count("░"), waits.rstrip().endswith("stage paused by ana: upgrade")) == (BAR_CELLS // 2, True)
    assert "works still" in works
    assert "█›" in works
    assert "10.0–200.0" in parts
    assert told.startswith("3 of 8,000 rows")


def test_hours_of_nothing_are_a_mark_and_the_rest_keeps_its_room() -> None:
    hours = 4 * 3_600_000.0
    _, waits, works, told = drawn(
        row("waits", 0, hours + 500),
        row("works", hours + 500, 500),
        now_ms=hours + 1_000,
        cuts=({"begins_ms": 250.0, "ends_ms": hours + 250.0},),
    )
    assert waits.count("⋯") == 1
    assert abs(waits.count("░") - BAR_CELLS / 2) <= 2
    assert abs(works.count("█") - BAR_CELLS / 2) <= 2
    assert told.endswith("⋯ 4 h 0 min nothing")


def test_texts_of_pages_cannot_command_the_terminal() -> None:
    lines = drawn(row("failed", 0, 10, label="CrawlDirected \x1b[2J[red]x", why="\x1b]0;title\x07"), now_ms=10)
    assert "\x1b" not in "".join(lines)
    assert "[red]x" in lines[1]
