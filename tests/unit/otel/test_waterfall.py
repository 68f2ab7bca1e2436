"""The waterfall of a run."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sluice.otel.spans import SpanLink, StoredSpan
from sluice.otel.waterfall import Bar, render_waterfall, waterfall, waterfall_json
from tests.unit.otel.samples import SPAN

MS = 1_000_000


def _span(name: str, number: int, parent: int | None, start_ms: int, end_ms: int) -> StoredSpan:
    return replace(
        SPAN,
        name=name,
        span_id=f"{number:016x}",
        parent_id=None if parent is None else f"{parent:016x}",
        started_ns=10 * MS + start_ms * MS,
        ended_ns=10 * MS + end_ms * MS,
        links=(),
        events=(),
    )


RUN = [
    _span("crawl", 3, 2, 30, 80),
    _span("api", 1, None, 0, 100),
    _span("gate", 2, 1, 10, 20),
    replace(
        _span("lost", 4, 99, 50, 60), status="error", status_message="site down", links=(SpanLink("c" * 32, "d" * 16),)
    ),
]


def test_spans_form_a_tree_with_offsets_and_durations_in_milliseconds() -> None:
    drawn = waterfall(RUN)
    assert (drawn.started_ns, drawn.duration_ms) == (10 * MS, 100.0)
    api, lost = drawn.roots
    [gate] = api.children
    [crawl] = gate.children
    assert (crawl.span.name, crawl.offset_ms, crawl.duration_ms) == ("crawl", 30.0, 50.0)
    assert (api.orphan, gate.orphan, lost.orphan) == (False, False, True)


def test_no_spans_make_an_empty_waterfall() -> None:
    assert waterfall([]).roots == ()
    assert waterfall_json([])["spans"] == []


def test_a_loop_of_parents_is_cut_and_every_span_is_still_shown() -> None:
    names = _names(waterfall([_span("a", 1, 2, 0, 1), _span("b", 2, 1, 0, 1), _span("c", 3, 3, 0, 1)]).roots)
    assert sorted(names) == ["a", "b", "c"]


@given(st.lists(st.tuples(st.integers(0, 8), st.none() | st.integers(0, 8)), unique_by=lambda pair: pair[0]))
def test_whatever_the_parents_each_span_appears_exactly_once(pairs: list[tuple[int, int | None]]) -> None:
    spans = [_span(str(number), number, parent, number, number + 5) for number, parent in pairs]
    assert sorted(_names(waterfall(spans).roots)) == sorted(span.name for span in spans)


def _names(bars: tuple[Bar, ...]) -> list[str]:
    return [name for bar in bars for name in [bar.span.name, *_names(bar.children)]]


def test_the_drawing_shows_every_span_its_failure_its_links_and_the_orphans() -> None:
    out = io.StringIO()
    Console(file=out, width=160).print(render_waterfall(RUN))
    drawn = out.getvalue()
    assert "└─ gate" in drawn
    assert "   └─ crawl" in drawn
    assert "lost  orphan  links to dddddddd  site down" in drawn
    assert "4 spans · 1 traces · 100.0 ms · 1 failed · 1 orphans" in drawn
    [api] = [line for line in drawn.splitlines() if line.startswith("api")]
    assert api.count("█") == 40


def test_the_json_form_is_plain_and_nested() -> None:
    shown = json.loads(json.dumps(waterfall_json(RUN)))
    assert shown["spans"][0]["children"][0]["children"][0]["name"] == "crawl"
    assert (
        shown["spans"][1] | {"orphan": True, "offset_ms": 50.0, "links": [{"trace_id": "c" * 32, "span_id": "d" * 16}]}
        == shown["spans"][1]
    )
