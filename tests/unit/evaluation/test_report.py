"""Reports: what stands in them, and that they are whole or not there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.contracts.retrieval import Strategy
from sluice.evaluation.report import write_report
from sluice.evaluation.retrieval.report import Report, cache_hit_rate, list_unknown, read_retrieval_report
from sluice.evaluation.retrieval.tables import metrics_table, misses_table, write_notes
from tests.support.evaluation_samples import report


def test_means_durations_and_misses_are_of_the_answers() -> None:
    found = report([1, 2, 11, None], Strategy.BM25, Strategy.HYBRID)
    part = found.strategies[Strategy.HYBRID]
    assert list(found.strategies) == [Strategy.BM25, Strategy.HYBRID]
    assert part.means["MRR@10"].mean == pytest.approx((1 + 0.5) / 4)
    assert part.means["recall@100"].mean == pytest.approx(3 / 4)
    assert part.means["MRR@10"].low <= part.means["MRR@10"].mean <= part.means["MRR@10"].high
    assert part.values["recall@1"] == {"q0": 1.0, "q1": 0.0, "q2": 0.0, "q3": 0.0}
    assert (part.index_time.p50_ms, part.index_time.p95_ms) == (2.0, 2.0)
    assert (found.generations, found.case_count, found.relevant_count) == (("g1",), 4, 4)


def test_a_report_begins_with_the_figures_of_the_rfc_by_its_own_keys(tmp_path: Path) -> None:
    path = tmp_path / "retrieval-metrics.json"
    found = report([1, 2, 11, None], Strategy.BM25, Strategy.HYBRID)
    write_report(found, path)
    written = json.loads(path.read_text())
    assert list(written)[:9] == [
        "timestamp",
        "strategy",
        "recallAt10",
        "mrr",
        "groundedness",
        "faithfulness",
        "avgTrustScore",
        "poisonedBlocked",
        "cacheHitRate",
    ]
    assert (written["strategy"], written["recallAt10"], written["mrr"]) == ("hybrid", 0.5, 0.375)
    assert (written["avgTrustScore"], written["poisonedBlocked"], written["groundedness"]) == (None, 0, None)
    assert [line.partition(" ")[0] for line in list_unknown(found)] == [
        "groundedness",
        "faithfulness",
        "avgTrustScore",
        "cacheHitRate",
    ]


def test_a_report_of_an_earlier_version_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    old = report([1]).model_dump(mode="json")
    path.write_text(json.dumps({name: old[name] for name in list(old)[9:]}))
    assert read_retrieval_report(path).recall_at_10 is None


def test_the_hit_rate_of_the_embedding_cache_is_read_from_the_metrics() -> None:
    lines = ['sluice_embedding_cache_total{result="hit"} 3.0', 'sluice_embedding_cache_total{result="miss"} 1.0', ""]
    assert cache_hit_rate("\n".join(lines)) == 0.75
    assert cache_hit_rate("") is None


def test_a_miss_says_where_its_answer_was_and_what_came_instead() -> None:
    eleventh, lost = report([1, 11, None]).strategies[Strategy.HYBRID].misses
    assert (eleventh.id, eleventh.relevant) == ("q1", {"a1": 11})
    assert [(one.rank, one.name) for one in eleventh.instead] == [(rank + 1, f"noise{rank}") for rank in range(5)]
    assert eleventh.instead[0].text == "text of noise0-chunk"
    assert (lost.relevant, lost.instead) == ({"a2": None}, ())


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "metrics.json"
    written = report([1, 3])
    write_report(written, path)
    assert read_retrieval_report(path) == written
    assert [entry.name for entry in path.parent.iterdir()] == ["metrics.json"]


def test_a_report_that_cannot_be_put_in_place_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.json"
    write_report(report([1]), path)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_report(report([2]), path)
    assert read_retrieval_report(path) == report([1]).model_copy(
        update={"strategies": read_retrieval_report(path).strategies}
    )
    assert read_retrieval_report(path).strategies[Strategy.HYBRID].values["recall@1"] == {"q0": 1.0}
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.json"]


def test_what_is_no_report_is_refused_by_file_and_field(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text('{"format": 2}')
    with pytest.raises(InvalidInput, match="format"):
        read_retrieval_report(path)
    fields = report([1]).model_dump(mode="json")
    fields["strategies"]["hybrid"]["means"].pop("nDCG@10")
    path.write_text(json.dumps(fields))
    with pytest.raises(InvalidInput, match="same measures"):
        read_retrieval_report(path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_retrieval_report(tmp_path / "none.json")


def test_the_table_has_a_column_for_each_strategy_and_the_hit_rate_says_its_depth() -> None:
    table = metrics_table(report([1, None], Strategy.BM25, Strategy.VECTOR))
    assert table.columns == ("mean [95 %]", "bm25", "vector")
    assert {len(row) for row in table.rows} == {3}
    assert {row[0]: row[1] for row in table.rows}["hit rate@10"].startswith("0.5000 [")


def test_what_a_reader_should_know_is_said() -> None:
    found = report([1])
    assert list(write_notes(found)) == []
    changed = {"generations": ("g1", "g2"), "unjudged_count": 3, "fed": {"document_count": 2, "missing_count": 1}}
    part = {**found.model_dump(mode="json"), **changed}
    part["fed"]["missing"] = ["d0: no_text"]
    part["strategies"]["hybrid"]["truncated_count"] = 4
    told = " · ".join(write_notes(Report.model_validate(part)))
    for word in ("2 generations", "3 questions", "d0: no_text", "4 questions found fewer than 100"):
        assert word in told


def test_the_misses_are_a_row_each() -> None:
    misses = report([None, 11]).strategies[Strategy.HYBRID].misses
    rows = misses_table("hybrid", misses).rows
    assert [row[2:] for row in rows] == [("a0 beyond 100", "nothing"), ("a1 at 11", "noise0: title of noise0")]
