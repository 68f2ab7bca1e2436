"""How often opposites are merged and paraphrases recognised: on the pairs of this repository, and on CondaQA's."""

import numpy as np
import pytest

from bench.memory import prose
from bench.memory.duplicates import jaccard_verdict, own_sets, rates, verdict
from bench.memory.pairs.pair import condaqa
from sluice.memory.learning.polarity.compare import compare
from tests.support.repository import DATA

CONDAQA = DATA / "pairs" / "condaqa_dev.jsonl"


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("advice", 0.9), ("findings", 0.9), ("practices", 0.9), ("operations", 0.6), ("platform", 0.6),
        ("natural", 0.7), ("written", 0.65), ("ground", 0.45), ("fresh", 0.45), ("last", 0.8), ("end", 0.75),
    ],
)  # fmt: skip
def test_opposites_are_not_merged_and_paraphrases_are_recognised(name: str, least: float):
    pairs = own_sets()[name]
    measured = rates(pairs, verdict)
    assert measured.merged <= 0.01
    assert measured.recognised >= least
    assert measured.conflicts >= 0.5


def test_the_sets_are_large_enough_to_show_it():
    sets = own_sets()
    assert all(len(sets[name]) >= 300 for name in ("advice", "findings", "practices"))
    assert all(len(sets[name]) >= 60 for name in ("natural", "written"))


def test_the_rule_of_word_overlap_alone_merges_opposites_and_fails_these_limits():
    for pairs in own_sets().values():
        measured = rates(pairs, jaccard_verdict)
        assert measured.merged > 0.1
        assert measured.recognised < 0.5


needs_condaqa = pytest.mark.skipif(not CONDAQA.exists(), reason=f"CondaQA's pairs are not at {CONDAQA}")


@needs_condaqa
def test_edited_paragraphs_of_condaqa_are_told_apart_by_weights_that_saw_none_of_the_passage():
    pairs = condaqa(CONDAQA)
    x = np.array([prose.features(pair.one, pair.other) for pair in pairs])
    y = np.array([pair.label == "paraphrase" for pair in pairs])
    vetoed = np.array([prose.is_vetoed(pair) for pair in pairs])
    same = np.array([compare(pair.one, pair.other).same for pair in pairs])
    merged, recognised = prose.row(np.where(same, 1.0, prose.left_out(pairs, x, y, 1)), y, vetoed, prose.THRESHOLD)
    assert merged <= 0.01
    assert recognised >= 0.2


@needs_condaqa
def test_the_check_for_duplicates_merges_hardly_any_edit_of_condaqa_that_changes_what_is_said():
    measured = rates(condaqa(CONDAQA), verdict)
    assert measured.merged <= 0.01
    assert measured.recognised >= 0.2
