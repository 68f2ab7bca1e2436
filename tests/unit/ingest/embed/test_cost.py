"""What embedding takes is known before it is done: never less than what it then takes."""

from __future__ import annotations

import pytest

from sluice.contracts.budget import Spend
from sluice.ingest.embed.batching import embedding_at_most
from sluice.ingest.embed.minilm import MiniLM
from sluice.ingest.embed.tokens import load_tokenizer
from sluice.ingest.settings import EmbedSettings

TEXTS = ("A cat sits on the mat.", "", "Émigré naïveté: 東京 2024, x = f(y) -> {1: 'a'}  ☃", "a longer passage " * 20)


def test_the_local_models_tokens_are_counted_and_cost_no_money(minilm: MiniLM) -> None:
    cost = embedding_at_most(TEXTS, EmbedSettings(), load_tokenizer(None))
    assert cost == Spend(tokens=minilm.embed(TEXTS).tokens)


def test_an_endpoints_tokens_are_estimated_rather_too_many() -> None:
    settings = EmbedSettings(provider="openai", openai_usd_per_million_tokens=20.0)
    cost = embedding_at_most(TEXTS, settings, load_tokenizer(None))
    assert cost.tokens > embedding_at_most(TEXTS[:1], EmbedSettings(), load_tokenizer(None)).tokens
    assert cost.usd == pytest.approx(cost.tokens * 20e-6)
    assert embedding_at_most((), settings, load_tokenizer(None)) == Spend()
