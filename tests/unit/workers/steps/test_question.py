"""A question as a corpus sees it: whether the confidence formula knows its language."""

from __future__ import annotations

import pytest

from workers.steps.question import find_site, may_be_english


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
    ],
)
def test_questions_in_another_language_are_recognised(question: str) -> None:
    assert not may_be_english(question)
