"""Support: which sentences of an answer its passages hold."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sluice.evaluation.ragas.bridge import find_support, groundedness
from sluice.ingest.embed.minilm import MiniLM

PASSAGES = (
    "The lease of a claim lasts fifteen seconds. A worker renews it every five seconds while it lives.",
    "Valkey is a fork of Redis 7.2, begun in March 2024 by former contributors.",
)


def share_of(response: str, minilm: MiniLM, passages: Sequence[str] = PASSAGES) -> float | None:
    return groundedness(find_support(response, passages, lambda texts: minilm.embed(texts).vectors))


@pytest.mark.parametrize(
    "response",
    [
        "A worker renews the lease every five seconds while it is alive [1].",
        "Valkey was begun in March 2024 as a fork of Redis 7.2.",
    ],
)
def test_a_sentence_that_says_what_a_passage_says_is_supported(response: str, minilm: MiniLM) -> None:
    assert share_of(response, minilm) == 1.0


@pytest.mark.parametrize(
    "response",
    [
        "A worker renews the lease every 30 seconds while it is alive.",
        "Valkey was begun in March 2024 by Microsoft as a fork of Redis 7.2.",
        "The capital of France has more museums than any other European city.",
    ],
    ids=["another number", "a name that no passage has", "another topic"],
)
def test_a_sentence_that_no_passage_holds_is_not_supported(response: str, minilm: MiniLM) -> None:
    assert share_of(response, minilm) == 0.0


def test_the_share_is_of_the_sentences_that_say_something(minilm: MiniLM) -> None:
    said = "Here it is:\nA worker renews the lease every five seconds while it is alive. Bananas ripen faster in paper bags."
    assert share_of(said, minilm) == 0.5


def test_an_answer_without_a_statement_or_a_passage_has_no_share(minilm: MiniLM) -> None:
    assert share_of("Yes.", minilm) is None
    assert share_of("A worker renews the lease of its claim.", minilm, ()) is None


def test_a_sentence_that_turns_the_statement_round_counts_as_supported(minilm: MiniLM) -> None:
    """A limit of the measure, which the documentation states."""
    assert share_of("A worker never renews the lease every five seconds while it lives.", minilm) == 1.0
