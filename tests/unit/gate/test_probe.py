"""Probing: content words, their coverage, and similarities, as pure measures."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.errors import InvalidInput
from sluice.contracts.gate import Message, QueryTerm
from sluice.gate.probe import (
    compute_coverage,
    content_terms,
    intent_similarity,
    is_informative,
    question_terms,
    session_measures,
    term_coverage,
)
from sluice.text.words import stem
from tests.unit.gate.samples import passage


def test_content_words_are_kept_in_order_and_once() -> None:
    assert content_terms("Where is the Eiffel Tower, and who built the tower?") == ["eiffel", "tower", "built"]


def test_code_identifiers_stay_whole() -> None:
    found = content_terms("what does asyncio.gather return in C++, __init__ and foo::bar of Python 3.11?")
    assert found == ["asyncio.gather", "return", "c++", "__init__", "foo::bar", "python", "3.11"]


def test_function_words_of_the_questions_language_are_no_terms_unless_it_has_no_others() -> None:
    question = "Wann wurde die Brücke eröffnet?"
    assert question_terms(question, {"wann", "wurde", "die"}) == ["brücke", "eröffnet"]
    assert question_terms("wann wurde die", {"wann", "wurde", "die"}) == ["wann", "wurde", "die"]


def test_scripts_without_spaces_are_read_by_pairs_of_characters() -> None:
    assert question_terms("富士山 asyncio") == ["富士", "士山", "asyncio"]


def test_apostrophes_leave_the_word() -> None:
    assert content_terms("What's Norway's capital?") == ["norway", "capital"]


@pytest.mark.parametrize("query", ["", "???", "what is it", "a b c"])
def test_a_query_without_content_has_no_terms(query: str) -> None:
    assert content_terms(query) == []


def test_a_page_long_query_keeps_its_first_terms() -> None:
    assert len(content_terms(" ".join(f"word{number}" for number in range(1_000)))) == 64


@given(st.text(max_size=300))
def test_any_text_has_terms_or_none(text: str) -> None:
    assert all(term and term == term.casefold() for term in content_terms(text))


@pytest.mark.parametrize(
    "words", [("run", "runs", "running"), ("city", "cities"), ("complete", "completed", "completes")]
)
def test_inflections_meet_in_one_stem(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


def test_idf_is_bm25s_and_never_negative() -> None:
    (term,) = term_coverage(["heap"], {"heap": 3}, 10, [])
    assert term.idf == round(math.log(1 + 7.5 / 3.5), 6)
    (everywhere,) = term_coverage(["heap"], {"heap": 12}, 10, [])
    assert everywhere.idf > 0


def test_an_unknown_term_weighs_most() -> None:
    known, unknown = term_coverage(["heap", "zymurgy"], {"heap": 5}, 10, [passage("a heap")])
    assert unknown.idf > known.idf
    assert (known.covered, unknown.covered) == (True, False)


def test_the_one_best_text_covers_and_not_all_together() -> None:
    passages = [passage("the capital of France"), passage("the coast of Peru")]
    found = term_coverage(["capital", "peru", "coast"], lambda _: 1, 10, passages)
    assert [term.term for term in found if term.covered] == ["peru", "coast"]


def test_words_are_covered_by_inflection_and_identifiers_as_they_stand() -> None:
    texts = [passage("Heaps were sorted with asyncio.gather.")]
    found = {
        term.term: term.covered
        for term in term_coverage(["heap", "sorting", "asyncio.gather", "asyncio.wait"], {}, 5, texts)
    }
    assert found == {"heap": True, "sorting": True, "asyncio.gather": True, "asyncio.wait": False}


def test_scripts_without_spaces_are_found_inside_a_text() -> None:
    found = term_coverage(question_terms("富士山"), {}, 5, [passage("富士山は日本一高い山")])
    assert all(term.covered for term in found)


@given(st.lists(st.text("abcde ", max_size=30), max_size=4), st.text("abcde ", max_size=30))
def test_one_more_text_never_lowers_the_covered_share(texts: list[str], more: str) -> None:
    names = ["abc", "bcd", "cde", "abcde"]
    passages = [passage(text) for text in texts]
    before = compute_coverage(term_coverage(names, {"abc": 3}, 10, passages))
    assert compute_coverage(term_coverage(names, {"abc": 3}, 10, [*passages, passage(more)])) >= before


def test_negative_counts_are_refused() -> None:
    with pytest.raises(InvalidInput):
        term_coverage(["heap"], {"heap": -1}, 10, [])


def test_the_nearest_prototype_speaks_for_its_intent() -> None:
    query = np.array([1.0, 0.0], dtype=np.float32)
    prototypes = {"near": np.array([[0.0, 1.0], [2.0, 0.0]], np.float32), "far": np.array([[-1.0, 0.0]], np.float32)}
    assert intent_similarity(query, prototypes) == {"far": -1.0, "near": 1.0}


def test_similarities_survive_json_bit_for_bit() -> None:
    random = np.random.default_rng(1)
    found = intent_similarity(
        random.normal(size=384).astype(np.float32), {"a": random.normal(size=(5, 384)).astype(np.float32)}
    )
    assert json.loads(json.dumps(found)) == found
    assert found["a"] == round(found["a"], 6)


@pytest.mark.parametrize("bad", [np.array([np.nan, 1.0]), np.array([1.0, 0.0, 0.0])])
def test_a_vector_that_does_not_fit_is_refused(bad: np.ndarray) -> None:
    with pytest.raises(InvalidInput, match=r"prototypes\.a"):
        intent_similarity(bad.astype(np.float32), {"a": np.array([[1.0, 0.0]], np.float32)})


TERMS = (QueryTerm(term="bridge", idf=2.0, covered=False), QueryTerm(term="opened", idf=1.0, covered=False))


def test_a_message_with_news_informs_and_a_question_does_not() -> None:
    assert is_informative(Message(role="assistant", content="The bridge opened in May 1937."), ["bridge", "opened"])
    assert not is_informative(
        Message(role="user", content="When was the Golden Gate bridge opened?"), ["bridge", "opened"]
    )
    assert not is_informative(Message(role="assistant", content="bridge opened"), ["bridge", "opened"])


def test_the_session_covers_terms_only_where_it_informs() -> None:
    query = np.array([1.0, 0.0], np.float32)
    session = [
        Message(role="user", content="When was the bridge opened?"),
        Message(role="assistant", content="That bridge has a span of 1280 metres."),
    ]
    similarity, share = session_measures(query, np.array([[1.0, 0.0], [0.0, 1.0]], np.float32), TERMS, session)
    assert similarity == (1.0, 0.0)
    assert share == round(2 / 3, 6)


def test_no_session_measures_nothing() -> None:
    assert session_measures(np.array([1.0, 0.0], np.float32), np.empty((0, 2), np.float32), TERMS, []) == ((), 0.0)
