"""The baseline and the document of `bench.quality`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from bench.quality.__main__ import collections_in, command_line
from bench.quality.baseline import fused, tantivy_search
from bench.quality.candidates import ScoredChunk
from bench.quality.document import document, verdicts
from bench.quality.formulas import WEIGHTS, Formulas, leave_one_out, reciprocal_ranks, z_scores
from bench.quality.measure import Measured
from sluice.contracts.retrieval import Strategy
from sluice.evaluation.retrieval.report import Report
from tests.support.evaluation_samples import report


def measured(name: str, bm25: float, vector: float, hybrid: float, baseline: float) -> Measured:
    """A collection with these nDCG@10."""
    found = report([1, 2], *Strategy).model_dump(mode="json")
    for strategy, mean in (("bm25", bm25), ("vector", vector), ("hybrid", hybrid)):
        found["strategies"][strategy]["means"]["nDCG@10"]["mean"] = mean
    found["unjudged_count"] = 2
    means = dict.fromkeys(found["strategies"]["hybrid"]["means"], baseline)
    formulas = Formulas(baseline, baseline, dict.fromkeys(WEIGHTS, hybrid))
    return Measured(name, 1_000, Report.model_validate(found), means, 0.01, formulas)


def test_the_baseline_stems_english_and_reads_no_operator_in_a_question() -> None:
    search = tantivy_search(["leases are renewed", "blobs are compressed", "the gate weighs"])
    assert [number for number, _ in search("renewing a lease")] == [0]
    assert [number for number, _ in search('NOT (compressed:^"[ AND -blob*')] == [1]
    assert search("!?") == []


def test_the_baseline_fuses_by_reciprocal_rank() -> None:
    dense, lexical = [(1, 0.9), (2, 0.8), (3, 0.7)], [(3, 12.0), (2, 11.0)]
    scores = {1: 1 / 61, 2: 1 / 62 + 1 / 62, 3: 1 / 63 + 1 / 61}
    assert fused(dense, lexical) == sorted(scores, key=lambda number: -scores[number])


@pytest.mark.parametrize(
    ("hybrid", "met"),
    [((0.70, 0.60), [True, True, True]), ((0.694, 0.60), [False, True, True]), ((0.70, 0.56), [True, False, False])],
)
def test_the_limits_hold_on_each_collection_and_on_average(hybrid: tuple[float, float], met: list[bool]) -> None:
    found = [measured("a", 0.70, 0.5, hybrid[0], 0.66), measured("b", 0.5, 0.56, hybrid[1], 0.58)]
    assert [is_met for _, is_met in verdicts(found)] == met


def test_a_collection_left_out_gets_the_weight_that_the_others_chose() -> None:
    here = {"a": {0.01: 0.9, 0.02: 0.1}, "b": {0.01: 0.2, 0.02: 0.5}, "c": {0.01: 0.3, 0.02: 0.4}}
    assert leave_one_out(here) == [("a", 0.02, 0.1), ("b", 0.01, 0.2), ("c", 0.01, 0.3)]


def test_other_formulas_order_the_same_chunks() -> None:
    chunks = [
        ScoredChunk("x", "x", 0.9, 1, 0.0, None),
        ScoredChunk("y", "y", 0.5, 2, 20.0, 1),
        ScoredChunk("z", "z", 0.4, 90, 10.0, 2),
    ]
    assert reciprocal_ranks(chunks) == [pytest.approx(1 / 61), pytest.approx(1 / 62 + 1 / 61), pytest.approx(1 / 62)]
    x, y, z = z_scores(chunks)
    assert x + y + z == pytest.approx(0)
    assert x > y > z


def test_the_document_has_every_figure_the_verdict_and_the_command_but_no_folder_of_this_machine() -> None:
    arguments = Namespace(data=Path("/srv/data"), sets="a,b", questions=300, write=Path("/srv/x.md"))
    found = [measured("a", 0.70, 0.5, 0.72, 0.66), measured("b", 0.5, 0.56, 0.55, 0.58)]
    text = document(found, command_line(arguments))
    assert "python -m bench.quality DATA_DIR --sets a,b --questions 300 --write docs/quality.md" in text
    assert "| a | 1,000 | 2 | 0.7000 | 0.5000 | 0.7200 | 0.7000 | +0.0200 | 0.6600 | +0.0600 | 0.0100 |" in text
    assert "| average |  |  | 0.6000 | 0.5300 | 0.6350 | 0.6300 | +0.0050 | 0.6200 | +0.0150 |  |" in text
    assert "worst -0.0100 (b): **missed**" in text
    assert "- `b`: 2 questions have no relevant document" in text
    assert "/srv" not in text
    assert "{" not in text


def test_a_named_set_that_is_no_collection_is_told(tmp_path: Path) -> None:
    assert collections_in(tmp_path, None) == []
    with pytest.raises(SystemExit, match=r"no collection in .*: nothing"):
        collections_in(tmp_path, "nothing")
