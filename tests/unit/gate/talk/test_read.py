"""What needs no source is told from questions, in many languages, by lists of words and rules."""

from __future__ import annotations

import pytest

from bench.gate.talk import read_traps, read_utterances
from sluice.contracts.errors import InvalidSetting
from sluice.gate.talk.lexicon import read_lexicon
from sluice.gate.talk.read import TalkKind, read_talk

LEXICON = read_lexicon("talk.v1")


def kind(utterance: str, *, in_session: bool = False) -> TalkKind | None:
    return read_talk(utterance, LEXICON, in_session)


@pytest.mark.parametrize(
    "utterance", ["thank you, bye!", "hiiii", "Merci beaucoup !", "ok 👍", "спасибо", "🙂", "Danke schön."]
)
def test_greetings_thanks_and_farewells_are_small_talk(utterance: str) -> None:
    assert kind(utterance) == "small_talk"


@pytest.mark.parametrize("utterance", ["who are you?", "Was kannst du?", "¿Eres un robot?", "are you human"])
def test_questions_about_the_assistant_are_talk(utterance: str) -> None:
    assert kind(utterance) == "assistant"


@pytest.mark.parametrize(
    "utterance", ["what is 2+2?", "17 % of 240", "sqrt(16) * 3", "wie viel ist 12 mal 7", "12 × (3 - 1)"]
)
def test_sums_are_arithmetic(utterance: str) -> None:
    assert kind(utterance) == "arithmetic"


@pytest.mark.parametrize(
    "utterance", ["9/11", "24/7", "2019-2020", "what is 911", "1-800-273-8255", "area 51", "2 liters in cups"]
)
def test_numbers_that_are_names_dates_or_measures_are_no_sums(utterance: str) -> None:
    assert kind(utterance) is None


@pytest.mark.parametrize(
    "utterance",
    [
        "translate 'good morning' into French",
        "make this shorter: the meeting that was planned for Monday will not take place",
        "Übersetze ins Englische: Der Zug hat Verspätung",
    ],
)
def test_work_on_a_text_that_is_given_is_talk(utterance: str) -> None:
    assert kind(utterance) == "given_text"


@pytest.mark.parametrize(
    "question",
    [
        "summarise the plot of 'Hamlet'",
        "translate API of google pricing",
        "summarise this: https://a.example/report",
        "hi! who won the world cup in 2022?",
        "thanks. And what is the capital of Peru?",
    ],
)
def test_a_question_that_begins_as_talk_does_is_none(question: str) -> None:
    assert kind(question) is None


def test_a_reference_to_the_conversation_needs_one() -> None:
    assert kind("what about the second one?", in_session=True) == "conversation"
    assert kind("what about the second one?") is None


def test_a_lexicon_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidSetting, match=r"talk\.v99"):
        read_lexicon("talk.v99")


def test_nearly_all_talk_is_found_that_no_list_was_written_from() -> None:
    languages = {language.code for language in LEXICON}
    rows = [row for row in read_utterances() if row["half"] == "unseen" and row["language"] in languages]
    unseen = [row["text"] for row in rows]
    assert sum(kind(text) is not None for text in unseen) >= 0.95 * len(unseen)


def test_nothing_that_is_written_to_look_like_talk_is_taken_for_it() -> None:
    assert [trap for trap in read_traps() if kind(trap)] == []
