"""The local span store."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.otel.spans import SpanStore
from tests.support.repository import REPOSITORY
from tests.unit.otel.samples import SPAN


def test_a_span_comes_back_as_it_was_written(tmp_path: Path) -> None:
    store = SpanStore.in_dir(tmp_path / "not" / "yet")
    store.write([SPAN])
    assert store.of_run("run_1") == [SPAN]
    assert store.run_of("a" * 32) == "run_1"
    assert store.run_of("b" * 32) is None


def test_a_store_that_was_never_written_is_empty_and_reading_makes_no_file(tmp_path: Path) -> None:
    assert SpanStore.in_dir(tmp_path).of_run("run_1") == []
    assert list(tmp_path.iterdir()) == []


def test_the_parts_of_the_work_on_an_event_are_the_children_of_its_consumer_span(tmp_path: Path) -> None:
    store = SpanStore.in_dir(tmp_path)
    hop = replace(SPAN, attributes={"sluice.event_id": "evt_1", "sluice.epoch": 2})
    embed = replace(SPAN, span_id="2" * 16, parent_id=hop.span_id, kind="internal", name="embed", started_ns=1_200)
    inner = replace(embed, span_id="3" * 16, parent_id=embed.span_id, name="inside the embedding")
    other = replace(embed, span_id="4" * 16, run_id="run_2")
    elsewhere = replace(embed, trace_id="b" * 32, span_id="5" * 16)
    store.write([hop, embed, inner, other, elsewhere])
    assert store.parts_of("run_1") == [("evt_1", 2, "embed", 1_200, 2_000, "")]


def test_a_span_delivered_twice_is_kept_once(tmp_path: Path) -> None:
    store = SpanStore.in_dir(tmp_path)
    store.write([SPAN])
    store.write([SPAN])
    assert len(store.of_run("run_1")) == 1


def test_pruning_forgets_old_spans(tmp_path: Path) -> None:
    store = SpanStore.in_dir(tmp_path)
    young = replace(SPAN, span_id="9" * 16, ended_ns=9_000, links=())
    store.write([SPAN, young])
    assert store.prune(before_ns=5_000) == 1
    assert store.of_run("run_1") == [young]


def test_a_damaged_file_is_thrown_away_and_the_next_write_succeeds(tmp_path: Path) -> None:
    store = SpanStore.in_dir(tmp_path)
    store.path.write_bytes(b"this is no database" * 1_000)
    with pytest.raises(Exception, match="not a database"):
        store.write([SPAN])
    store.write([SPAN])
    assert store.of_run("run_1") == [SPAN]


_WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from sluice.otel.spans import SpanStore
from tests.unit.otel.samples import SPAN
store = SpanStore(Path(sys.argv[1]))
for number in range(40):
    store.write([replace(SPAN, span_id=f"{sys.argv[2]}{number:015x}")])
"""


def test_many_processes_write_at_the_same_time_and_no_span_is_lost(tmp_path: Path) -> None:
    store = SpanStore.in_dir(tmp_path)
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(store.path), str(number)], cwd=REPOSITORY)
        for number in range(4)
    ]
    assert [writer.wait(90) for writer in writers] == [0] * 4
    assert len(store.of_run("run_1")) == 160
