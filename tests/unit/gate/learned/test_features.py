"""What a model reads of a probe: the same numbers from the same events, whatever is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.gate import CoverageProbed, ProbeSentence
from sluice.gate.learned.model import FEATURES, FEATURES_OF, read_features
from tests.unit.gate.samples import hit, probed, terms


def test_the_nearer_of_hit_and_compared_sentence_counts() -> None:
    sentence = ProbeSentence(chunk_id="c", term_coverage=0.4, similarity=0.8)
    assert read_features(probed((hit(0.6),), sentences=(sentence,)))["best_cosine"] == 0.8
    assert read_features(probed((hit(0.6),)))["best_cosine"] == 0.6


def test_a_former_model_reads_a_probe_without_sentences_by_its_best_passage() -> None:
    assert read_features(probed((hit(0.6),), terms=terms(1, 3)), FEATURES_OF[1])["sentence_terms"] == 0.25


def test_a_probe_that_found_nothing_has_a_number_for_every_feature() -> None:
    nothing = probed(answerable=0.0)
    assert list(read_features(nothing)) == list(FEATURES)
    assert read_features(nothing)["best_cosine"] == 0.0


def test_a_probe_of_an_earlier_release_has_no_probability_of_an_answer() -> None:
    assert "answerable" not in read_features(probed((hit(0.6),)))
    assert read_features(probed((hit(0.6),), answerable=0.7))["answerable"] == 0.7


@pytest.mark.parametrize(
    ("scores", "agreement"), [((3.0, 2.0, 1.0), 1.0), ((1.0, 2.0, 3.0), -1.0), ((2.0, 2.0, 2.0), 0)]
)
def test_retrievers_that_mean_the_same_hits_agree(scores: tuple[float, ...], agreement: float) -> None:
    hits = tuple(hit(cosine, lexical_score=score) for cosine, score in zip((0.7, 0.6, 0.5), scores, strict=True))
    assert read_features(probed(hits))["agreement"] == pytest.approx(agreement)


def test_two_hits_agree_on_nothing() -> None:
    assert read_features(probed((hit(0.7, lexical_score=3.0), hit(0.6, lexical_score=1.0))))["agreement"] == 0.0


def test_the_lead_of_the_words_is_over_the_mean_of_the_others() -> None:
    hits = (hit(0.7, lexical_score=1.0), hit(0.6, lexical_score=7.0), hit(0.5))
    assert read_features(probed(hits))["lexical_lead"] == 6.5


@given(st.lists(st.tuples(st.floats(-1, 1), st.none() | st.floats(0, 60)), max_size=10))
def test_numbers_survive_json(measured: list[tuple[float, float | None]]) -> None:
    probe = probed(tuple(hit(near, lexical_score=words, document=f"d{n}") for n, (near, words) in enumerate(measured)))
    again = CoverageProbed.model_validate_json(probe.model_dump_json())
    assert read_features(again) == read_features(probe)
    assert all(-1e6 < value < 1e6 for value in read_features(probe).values())
