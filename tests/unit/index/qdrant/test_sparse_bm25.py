"""BM25 as sparse vectors: the sum of products is BM25, and the dimensions are the same for ever."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.index.journal.records import Removal, Upsert
from sluice.index.qdrant.payload import (
    MOST_TERMS,
    USUAL_AVERAGES,
    hash_dimension,
    list_dimensions,
    measure_averages,
    saturate,
    solve_frequency,
    weigh_chunk,
    weigh_question,
)
from sluice.text.words import K1, B


def _idf(population: int, count: int) -> float:
    return math.log(1 + (population - count + 0.5) / (count + 0.5))


def test_a_dimension_never_changes_and_differs_by_field() -> None:
    assert hash_dimension("text", "lease") == 0x6FF3FF1E
    assert len({hash_dimension(field, "lease") for field in ("text", "title", "headings", "code")}) == 4


@given(st.text(max_size=80))
def test_any_text_gives_weights_that_an_engine_can_store(text) -> None:
    weights = weigh_question(text)
    assert all(0 <= place < 2**32 and weight > 0 for place, weight in weights.items())


def test_a_weight_is_the_bm25_of_the_term_without_its_rarity(make) -> None:
    chunk = make.document("d", "lease lease heartbeat").chunks[0]
    weights = weigh_chunk(None, chunk, (6.0, 3.0))
    penalty = K1 * (1 - B + B * 3 / 6.0)
    assert weights[hash_dimension("text", "leas")] == pytest.approx(2 * (K1 + 1) / (2 + penalty))
    assert weights[hash_dimension("text", "heartbeat")] == pytest.approx((K1 + 1) / (1 + penalty))
    assert len(weights) == 2


def test_more_of_a_term_weighs_more_and_less_each_time_and_length_counts_against_it() -> None:
    once, twice, thrice = (saturate(["x"] * count + ["y"] * (9 - count), 9)["x"] for count in (1, 2, 3))
    assert once < twice < thrice < K1 + 1
    assert twice - once > thrice - twice
    assert saturate(["x", "y"], 9)["x"] > saturate(["x", *("y" * 20)], 9)["x"]


def test_title_and_headings_are_weighed_with_the_text_and_identifiers_apart(make) -> None:
    chunk = make.document("d", "call parseHttpRequest here").chunks[0].model_copy(update={"section_path": ("Leases",)})
    weights = weigh_chunk("Heartbeats", chunk)
    for field, term in (("text", "heartbeat"), ("text", "leas"), ("code", "parsehttprequest"), ("text", "call")):
        assert hash_dimension(field, term) in weights


def test_a_question_weighs_each_field_by_its_boost_and_drops_function_words() -> None:
    weights = weigh_question("how is the lease renewed")
    assert weights[hash_dimension("text", "leas")] == 1.0
    assert hash_dimension("text", "the") not in weights
    many = weigh_question(" ".join(f"word{i}" for i in range(500)))
    assert len(many) <= 4 * MOST_TERMS


@given(population=st.integers(1, 1_000_000), share=st.floats(0.0, 1.0), weight=st.floats(0.1, 2.2))
def test_the_frequency_of_a_term_follows_from_what_one_chunk_scores_for_it(population, share, weight) -> None:
    count = max(1, round(share * population))
    assert solve_frequency(weight * _idf(population, count), weight, population) == count


def test_a_term_of_several_parts_has_dimensions_for_each() -> None:
    assert len(list_dimensions("parse_http request")) == len(list_dimensions("parse http request")) == 3
    assert list_dimensions("?!") == []


def test_the_average_length_is_that_of_the_corpus_once_it_has_many_chunks(make) -> None:
    def record(*texts: str) -> Upsert:
        document = make.document("d", *texts)
        return Upsert.of(document, make.vectors([document]), "m")

    assert measure_averages([]) == USUAL_AVERAGES
    assert measure_averages([record("one two three"), Removal("e")]) == pytest.approx(USUAL_AVERAGES, rel=0.1)
    many = record(*(f"one two three number{i} camelCase six" for i in range(1_900)))
    assert measure_averages([many]) == pytest.approx((7, 3.4), abs=0.5)
