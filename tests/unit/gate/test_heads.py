"""What needs no source is told from questions in many languages, and what changes over time, by linear heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.gate.talk import read_traps, read_utterances
from sluice.contracts.errors import Corrupted
from sluice.gate import heads
from sluice.gate.heads import read_heads, read_words, split_sentences
from sluice.gate.profile import load_profiles
from sluice.ingest.embed.minilm import MiniLM

DEFAULT = load_profiles()["default"].heads
assert DEFAULT is not None
TALK_FROM = DEFAULT.talk_from


def is_talk(text: str, minilm: MiniLM | None = None) -> bool:
    vector = minilm.embed([text]).vectors[0] if minilm else None
    return read_heads(text, vector)["talk"] >= TALK_FROM


@pytest.mark.parametrize(
    "utterance",
    [
        *(
            "thank you, bye!",
            "hiiii",
            "Merci beaucoup !",
            "ok 👍",
            "спасибо",
            "Danke schön.",
            "who are you?",
            "Was kannst du?",
        ),
        *("write a haiku about snow", "write me a poem", "convert 100 °F to °C", "how many seconds are in a day?"),
        *("what day is it today?", "Was kannst du alles?", "tell me a joke", "what is 2+2?", "wie viel ist 12 mal 7"),
        *("translate 'good morning' into French", "Übersetze ins Englische: Der Zug hat Verspätung"),
        "make this shorter: the meeting that was planned for Monday will not take place",
    ],
)
def test_what_needs_no_source_is_talk(utterance: str, minilm: MiniLM) -> None:
    assert is_talk(utterance, minilm)


@pytest.mark.parametrize(
    "question",
    [
        *("write a migration for the table orders", "how do I convert temperature in our API", "area 51", "2019-2020"),
        *(
            "how many seconds does the token live",
            "what day is the release",
            "what can you do in Lisbon",
            "who are the Beatles",
        ),
        *(
            "summarise the plot of 'Hamlet'",
            "translate API of google pricing",
            "summarise this: https://a.example/report",
        ),
        *("hi! who won the world cup in 2022?", "thanks. And what is the capital of Peru?"),
    ],
)
def test_a_question_that_sounds_like_talk_is_none(question: str, minilm: MiniLM) -> None:
    assert not is_talk(question, minilm)


@pytest.mark.parametrize("question", ["who are you?", "¿Eres un robot?", "are you human", "what can you do?"])
def test_questions_about_the_assistant_are_told_from_other_talk(question: str) -> None:
    assert read_heads(question, None)["assistant"] >= 0.5
    assert read_heads("thank you, bye!", None)["assistant"] < 0.5


def test_of_several_sentences_the_least_like_talk_counts() -> None:
    assert len(split_sentences("Hello! Who built the bridge?")) == 2
    assert read_heads("Hello!", None)["talk"] > read_heads("Hello! Who built the bridge?", None)["talk"]


def test_a_given_text_is_not_read() -> None:
    one, other = (read_heads(f"translate into German: {text}", None) for text in ("a cat", "the budget of the council"))
    assert one == other


def test_without_a_vector_nothing_is_told_of_change(minilm: MiniLM) -> None:
    question = "who is the governor of Norland"
    assert "changes" not in read_heads(question, None)
    by_vector = [
        read_heads(text, minilm.embed([text]).vectors[0])["changes"]
        for text in (question, "who wrote the book on Faust")
    ]
    assert by_vector[0] > by_vector[1]


@pytest.mark.parametrize("text", ["", " ", "?!", "🙂", "\x00", "a" * 100_000, "¤c ¤q", "``", "1" * 5_000])
def test_any_text_has_probabilities(text: str) -> None:
    assert all(0 <= value <= 1 for value in read_heads(text, None).values())


def test_the_last_bits_of_a_vector_do_not_count() -> None:
    vector = np.full(384, 0.05, dtype=np.float32)
    assert read_heads("hello", vector) == read_heads("hello", vector + np.float32(1e-8))


def test_words_are_read_alike_everywhere() -> None:
    assert read_words("Çok güzel!").tokens == ["cok", "guzel", "!"]
    assert read_words("hi").buckets == [2064, 2065, 2908, 4990, 10924, 12332, 12813, 22846, 31595]


def test_weights_that_were_changed_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "heads.npz"
    changed.write_bytes(heads.WEIGHTS_FILE.read_bytes() + b"\0")
    monkeypatch.setattr(heads, "WEIGHTS_FILE", changed)
    with pytest.raises(Corrupted, match="install"):
        heads.load_weights.__wrapped__()


def test_nearly_all_utterances_are_found_and_no_trap() -> None:
    utterances = [row["text"] for row in read_utterances()]
    assert sum(map(is_talk, utterances)) >= 0.9 * len(utterances)
    assert sum(map(is_talk, read_traps())) == 0
