"""How often opposites are merged, and near ones that differ shown side by side: on the pairs of this repository."""

import pytest

from bench.memory.duplicates import jaccard_verdict, own_sets, rates, verdict
from bench.memory.pairs.pair import condaqa
from tests.support.repository import DATA

CONDAQA = DATA / "pairs" / "condaqa_dev.jsonl"


@pytest.mark.parametrize("name", own_sets())
def test_no_opposite_is_merged_and_most_are_shown_side_by_side(name: str) -> None:
    measured = rates(own_sets()[name], verdict)
    assert measured.merged == 0
    assert measured.beside >= 0.6
    assert measured.same_beside <= 0.35


def test_the_sets_are_large_enough_to_show_it() -> None:
    sets = own_sets()
    assert all(len(sets[name]) >= 300 for name in ("advice", "findings", "practices"))
    assert all(len(sets[name]) >= 60 for name in ("natural", "written"))


def test_the_rule_of_word_overlap_alone_merges_opposites() -> None:
    assert all(rates(pairs, jaccard_verdict).merged > 0.1 for pairs in own_sets().values())


@pytest.mark.skipif(not CONDAQA.exists(), reason=f"CondaQA's pairs are not at {CONDAQA}")
def test_no_edited_paragraph_of_condaqa_is_merged() -> None:
    assert rates(condaqa(CONDAQA), verdict).merged == 0
