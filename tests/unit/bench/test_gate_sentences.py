"""The sentences of the top hits: how they are split, what they hold, which are compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.gate.sentences import LONGEST_SENTENCE, choose_sentences, split_sentences
from sluice.contracts.gate import QueryTerm
from sluice.gate.probe import TermFinder
from sluice.index.terms.analysis import analyse
from tests.unit.gate.samples import passage

TERMS = tuple(QueryTerm(term=term, idf=idf, covered=True) for term, idf in (("bridge", 2.0), ("opened", 1.0)))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It rained. The bridge held.", ["It rained.", "The bridge held."]),
        ('He said "Stop!" Then he left.', ['He said "Stop!', "Then he left."]),
        ("Version 3.11 is out, e.g. for Linux", ["Version 3.11 is out, e.g. for Linux"]),
        ("one line\nanother line\n\n", ["one line", "another line"]),
        ("橋は一八九四年に開通した。鉄でできている。", ["橋は一八九四年に開通した。", "鉄でできている。"]),
        ("", []),
    ],
)
def test_a_sentence_ends_at_a_stop_before_a_blank_or_at_a_line(text: str, sentences: list[str]) -> None:
    assert split_sentences(text)[-1:] == sentences[-1:]
    assert len(split_sentences(text)) == len(sentences)


@given(st.text("ab .!?\n", max_size=2_000))
def test_no_word_is_lost_and_no_sentence_is_too_long(text: str) -> None:
    found = split_sentences(text)
    assert all(0 < len(sentence) <= LONGEST_SENTENCE for sentence in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_the_sentence_that_holds_most_comes_first_with_the_one_before_it_and_its_headings() -> None:
    crossing = passage("The bridge is of steel. It was opened in 1894. Trams cross it.", "Crossings", name="c1")
    other = passage("A shop opened.", name="c2")
    found = choose_sentences(TERMS, [other, crossing], 3)
    assert found[0][:2] == ("c1", "It was opened in 1894.")
    assert found[0].term_coverage == 1.0
    titled = choose_sentences(TERMS, [passage("It was opened in 1894.", "The bridge")], 1)
    assert titled[0].term_coverage == 1.0


def test_a_sentence_that_stands_in_two_passages_is_compared_once() -> None:
    found = choose_sentences(TERMS, [passage("The bridge opened."), passage("The bridge opened.", name="c2")], 3)
    assert [one.chunk_id for one in found] == ["c1"]


def test_a_long_question_need_not_be_repeated_word_for_word() -> None:
    many = tuple(QueryTerm(term=f"word{n}", idf=2.0, covered=True) for n in range(30))
    half = passage(" ".join(term.term for term in many[:10]))
    assert choose_sentences(many, [half], 1)[0].term_coverage == round(10 / 30, 6)
    assert choose_sentences(many, [half], 1, enough=20.0)[0].term_coverage == 1.0


def test_a_sentence_that_asks_is_no_answer_but_says_what_the_next_one_is_about() -> None:
    found = choose_sentences(TERMS, [passage("When was the bridge opened?\nIn 1894.")], 3)
    assert [(one.text, one.term_coverage) for one in found] == [("In 1894.", 1.0)]


def test_every_sentence_holds_a_question_without_words() -> None:
    assert choose_sentences((), [passage("Anything. More.")], 1)[0].term_coverage == 1.0


def test_words_are_found_by_the_stems_of_the_passages_language() -> None:
    german = passage("Die Brücken wurden eröffnet.", language="de")
    assert TermFinder(["brücke"], german.analyse).find(german.text) == {"brücke"}
    assert not TermFinder(["brücke"], analyse).find("Die Brückenpfeiler wurden eröffnet.")


def test_identifiers_are_found_as_they_stand() -> None:
    finder = TermFinder(["asyncio.gather", "c++"], analyse)
    assert finder.find("asyncio.gather of C") == {"asyncio.gather"}
