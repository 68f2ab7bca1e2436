"""A question as a corpus sees it: whether the confidence formula knows its language."""

from __future__ import annotations

import pytest

from sluice.contracts.retrieval import Filters, Query, RetrievalStats, Strategy
from sluice.text.words import inverse_document_frequency
from sluice.workers.steps.trusted import describe_question, find_site, may_be_english
from tests.support.retrieved import retrieval_of, retrieved

STATS = RetrievalStats(
    engine="local",
    corpus="docs",
    generation="g1",
    journal_offset=1,
    document_count=10,
    chunk_count=500,
    model_fingerprint="all-MiniLM-L6-v2/384/fp32",
)
FOUND = retrieval_of(retrieved("a"), retrieved("b"))


def test_a_question_has_its_content_words_each_as_rare_as_the_corpus_has_it() -> None:
    counts = {"lease": 3, "renewed": 40}
    asked = describe_question(Query(query="How is a lease renewed?"), FOUND, STATS, lambda words: counts)
    assert asked.words == {word: inverse_document_frequency(500, count) for word, count in counts.items()}
    assert asked.rarest == inverse_document_frequency(500, 1)
    assert (asked.chunk_count, asked.model_fingerprint, asked.is_english) == (500, STATS.model_fingerprint, True)
    assert asked.analyse("Renewed leases", None) == ("renew", "leas")


def test_of_a_filtered_search_only_its_candidates_count_as_searched() -> None:
    query = Query(query="lease", filters=Filters(languages=("en",)))
    assert describe_question(query, FOUND, STATS, lambda words: dict.fromkeys(words, 1)).chunk_count == 2


def test_a_search_by_words_alone_has_no_model_whose_cosines_count() -> None:
    metadata = FOUND.metadata.model_copy(update={"strategy": Strategy.BM25})
    found = FOUND.model_copy(update={"metadata": metadata})
    asked = describe_question(Query(query="lease"), found, STATS, lambda words: dict.fromkeys(words, 1))
    assert asked.model_fingerprint is None


def test_the_site_of_a_source_is_its_registered_domain_and_nonsense_has_none() -> None:
    assert find_site("https://docs.example.co.uk/a") == "example.co.uk"
    assert [find_site(url) for url in ("", "nonsense", "mailto:ada@example.org")] == [None] * 3


@pytest.mark.parametrize(
    "question",
    [
        "How is a lease renewed?",
        "Who was the director of Die Hard?",
        "asyncio gather",
        "Die Hard director",
        "Beyoncé albums",
        "C++ vector",
        "naïve Bayes classifier",
        "“Carbon dioxide” hurts nobody’s health",
        "x = [1, 2, 3]",
        "α-helix β-sheet",
        "Andrés Łukasz der su vos wil " + " ".join(f"name{number}" for number in range(60)),
        "42",
    ],
)
def test_english_questions_keywords_and_names_may_be_english(question: str) -> None:
    assert may_be_english(question)


@pytest.mark.parametrize(
    "question",
    [
        "Wie oft wird ein Lease von seinem Inhaber erneuert?",
        "Was ist ein Lease?",
        "Comment un bail est-il renouvelé ?",
        "¿Cómo se renueva un contrato de arrendamiento?",
        "Kto jest prezydentem Polski i ile ma lat?",
        "как обновляется аренда",
        "日本の首都は",
        "Corrie Hut 的床位多少钱？",
        "Corrie Hut の宿泊料金",
        "Przełęcz między szczytami leży wysoko, śnieg zalega tam długo, więc ścieżka bywa zamknięta",
    ],
)
def test_questions_in_another_language_are_recognised(question: str) -> None:
    assert not may_be_english(question)
