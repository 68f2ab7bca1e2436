"""The features: each in its range, each saying one thing."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.errors import InvalidInput
from sluice.contracts.gate import Message, ProbeSentence
from sluice.gate.profile import load_profiles
from sluice.gate.signals import Signals, ramp, read_signals
from tests.unit.gate.samples import NOW, URGENT, asked, hit, probed, terms

PROFILES = load_profiles()
DEFAULT = PROFILES["default"]
YEAR = timedelta(days=365)


def read(request=None, probe=None) -> Signals:
    return read_signals(request or asked(), probe or probed((hit(),)), DEFAULT)


def test_every_feature_has_exactly_one_weight() -> None:
    for profile in PROFILES.values():
        found = read_signals(asked(), probed((hit(),)), profile)
        assert {feature.name for feature in found.features} == set(profile.weights.model_dump())


def test_a_feature_that_an_older_profile_does_not_know_is_not_measured() -> None:
    weights = DEFAULT.weights.model_copy(update={"sentence_dissimilarity": None, "sentence_missing_terms": None})
    older = DEFAULT.model_copy(update={"weights": weights})
    found = read_signals(asked(), probed((hit(),)), older)
    assert not {"sentence_dissimilarity", "sentence_missing_terms"} & {feature.name for feature in found.features}
    assert b"sentence_dissimilarity" not in older.canonical_bytes()


def test_the_best_sentence_is_measured_and_the_passage_where_it_is_nearer() -> None:
    sentences = (ProbeSentence(chunk_id="c", similarity=0.6, term_coverage=0.25),)
    near, far = probed((hit(0.65),), sentences=sentences), probed((hit(0.3),), sentences=sentences)
    assert read(probe=near)["sentence_dissimilarity"] == round(1 - 0.5 / 0.6, 6)
    assert read(probe=far)["sentence_dissimilarity"] == round(1 - 0.45 / 0.6, 6)
    assert read(probe=far)["sentence_missing_terms"] == 0.75


def test_sentences_without_vectors_still_hold_words() -> None:
    probe = probed((hit(None),), sentences=(ProbeSentence(chunk_id="c", term_coverage=1.0),))
    assert (read(probe=probe)["sentence_dissimilarity"], read(probe=probe)["sentence_missing_terms"]) == (1, 0)


def test_the_best_passage_stands_for_the_sentences_of_a_probe_without_any() -> None:
    probe = probed((hit(0.45),), terms=terms(1, 1))
    assert (read(probe=probe)["sentence_dissimilarity"], read(probe=probe)["sentence_missing_terms"]) == (0.5, 0.5)


@given(
    similarities=st.lists(st.floats(-1, 1), max_size=10),
    ages=st.floats(0, 20_000),
    covered=st.integers(0, 5),
    missing=st.integers(0, 5),
    intents=st.dictionaries(st.sampled_from(sorted(DEFAULT.intents)), st.floats(-1, 1)),
    session=st.floats(-1, 1),
)
def test_every_value_is_between_0_and_1(similarities, ages, covered, missing, intents, session) -> None:
    hits = tuple(hit(value, age=timedelta(days=ages), document=str(n)) for n, value in enumerate(similarities))
    probe = probed(
        hits,
        terms=terms(covered, missing),
        intent_similarity=intents,
        session_similarity=(session,),
        session_term_coverage=1.0,
    )
    request = asked("latest bridge 2025", session=(Message(role="assistant", content="one two three four"),))
    for profile in PROFILES.values():
        for feature in read_signals(request, probe, profile).features:
            assert 0.0 <= feature.value <= 1.0, feature


def test_an_empty_corpus_is_seen() -> None:
    assert read(probe=probed())["empty_corpus"] == 1
    assert read()["empty_corpus"] == 0


def test_old_hits_are_not_stale_for_a_timeless_question() -> None:
    assert read(probe=probed((hit(age=20 * YEAR),)))["staleness"] == 0


def test_a_time_sensitive_question_finds_old_hits_stale_and_fresh_ones_not() -> None:
    question = asked("who is the current governor")
    assert read(question, probed((hit(age=3 * YEAR),), intent_similarity=URGENT))["staleness"] > 0.9
    assert read(question, probed((hit(),), intent_similarity=URGENT))["staleness"] < 0.01


def test_one_fresh_relevant_hit_is_enough() -> None:
    question = asked("who is the current governor")
    hits = (hit(0.7, age=3 * YEAR), hit(0.5, document="d2"))
    assert read(question, probed(hits, intent_similarity=URGENT))["staleness"] < 0.01


def test_a_fresh_hit_that_is_not_relevant_freshens_nothing() -> None:
    question = asked("who is the current governor")
    hits = (hit(0.7, age=3 * YEAR), hit(0.1, document="d2"))
    assert read(question, probed(hits, intent_similarity=URGENT))["staleness"] > 0.9


def test_what_was_fetched_today_is_as_old_as_its_publication() -> None:
    question = asked("who is the current governor")
    old_news = hit(published_at=NOW - 3 * YEAR)
    assert read(question, probed((old_news,), intent_similarity=URGENT))["staleness"] > 0.9


def test_a_publication_date_in_the_future_is_not_believed() -> None:
    dated = hit(age=3 * YEAR, published_at=NOW + YEAR)
    assert read(asked("who is the current governor"), probed((dated,), intent_similarity=URGENT))["staleness"] > 0.9


@pytest.mark.parametrize(
    ("query", "age", "value"),
    [
        ("winners of 2025", 2 * YEAR, 1.0),
        ("winners of 2023", 2 * YEAR, 0.0),
        ("winners", 2 * YEAR, 0.0),
        ("winners of 2028", timedelta(0), 0.0),
    ],
)
def test_a_year_later_than_the_newest_hit_is_seen(query: str, age: timedelta, value: float) -> None:
    assert read(asked(query), probed((hit(age=age),)))["newer_year"] == value


def test_small_talk_needs_no_source_and_a_question_does() -> None:
    assert read(asked("thanks a lot"), probed((), intent_similarity={"chit_chat": 0.95}))["self_contained"] == 1
    assert read()["self_contained"] == 0


def test_a_repeated_question_in_the_session_is_no_answer() -> None:
    query = "when was the suspension bridge opened"
    request = asked(query, session=(Message(role="user", content=query),))
    probe = probed((hit(),), session_similarity=(1.0,), session_term_coverage=1.0)
    assert read(request, probe)["session_sufficiency"] == 0


def test_a_lexical_hit_without_a_cosine_is_no_similarity() -> None:
    assert read(probe=probed((hit(None, lexical_score=9.0),)))["dissimilarity"] == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "field", ["hits.dense_similarity", "intent_similarity", "session_similarity", "memory_similarity"]
)
def test_numbers_that_are_not_finite_are_refused_by_name(field: str, bad: float) -> None:
    probe = {
        "hits.dense_similarity": probed((hit().model_copy(update={"dense_similarity": bad}),)),
        "intent_similarity": probed((hit(),)).model_copy(update={"intent_similarity": {"news": bad}}),
        "session_similarity": probed((hit(),)).model_copy(update={"session_similarity": (bad,)}),
        "memory_similarity": probed((hit(),)).model_copy(update={"memory_similarity": (bad,)}),
    }[field]
    with pytest.raises(InvalidInput) as refused:
        read(probe=probe)
    assert refused.value.field == field


def test_similarities_that_do_not_fit_the_session_are_refused() -> None:
    with pytest.raises(InvalidInput, match="session_similarity"):
        read(probe=probed((hit(),), session_similarity=(0.5, 0.5)))


@given(st.floats(-2, 2), st.floats(-2, 2))
def test_a_ramp_rises(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert ramp(low, 0.2, 0.6) <= ramp(high, 0.2, 0.6)
