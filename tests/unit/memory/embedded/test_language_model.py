"""A language model for an embedded memory: asked within its budget, and never with a secret that a text holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.contracts.errors import BudgetExhausted, PolicyRefused, Unavailable
from sluice.memory import open_memory
from sluice.memory.config import EmbedderConfig, ModelConfig, RagConfig
from sluice.memory.embedded.language_model import LanguageModel
from tests.support.chat_server import chat_server
from tests.support.memory.facts import record


def test_the_model_is_asked_with_its_key_and_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MEMORY_KEY", "sk-test")
    token = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    with chat_server(lambda asked: "an answer") as server:
        config = ModelConfig(url=server.base_url, model="m", key_variable="SLUICE_MEMORY_KEY")
        assert LanguageModel(config).ask("system", f"text with {token}", 50) == "an answer"
    assert server.keys == ["Bearer sk-test"]
    assert token not in str(server.requests)


@pytest.mark.parametrize(
    ("said", "polarity"),
    [("opposite", "opposite"), (" Same.", "same"), ("'different'", "different"), ("perhaps", None)],
)
def test_the_model_judges_pairs_in_one_word(said: str, polarity: str | None) -> None:
    with chat_server(lambda asked: said) as server:
        assert LanguageModel(ModelConfig(url=server.base_url, model="m")).judge("use X", "avoid X") == polarity


def test_what_it_may_ask_and_spend_is_bounded() -> None:
    with chat_server(lambda asked: "same") as server:
        model = LanguageModel(ModelConfig(url=server.base_url, model="m", max_questions=2))
        assert [model.judge("a", "b") for _ in range(2)] == ["same", "same"]
        with pytest.raises(BudgetExhausted, match="max_questions"):
            model.judge("a", "b")
        # The answer says that it took 1,000 tokens.
        dear = LanguageModel(ModelConfig(url=server.base_url, model="m", usd_per_million_tokens=600, max_usd=1.0))
        dear.ask("s", "q", 10)
        assert dear.usd == pytest.approx(0.6)
        with pytest.raises(BudgetExhausted, match="max_usd"):
            dear.ask("s", "q" * 3_000, 10)
        assert len(server.requests) == 3


def test_a_question_that_failed_costs_nothing() -> None:
    with chat_server(lambda asked: 503) as server:
        model = LanguageModel(ModelConfig(url=server.base_url, model="m", usd_per_million_tokens=600))
        with pytest.raises(Unavailable):
            model.ask("s", "q", 10)
        assert (model.usd, model.asked) == (0.0, 1)


def test_an_address_that_the_environment_does_not_allow_is_never_asked() -> None:
    with pytest.raises(PolicyRefused, match="SLUICE_MEMORY_ALLOW"):
        LanguageModel(ModelConfig(url="https://collector.example/v1", model="m")).ask("s", "q", 10)


def test_memory_goes_on_by_rule_where_the_model_refuses(tmp_path: Path) -> None:
    with chat_server(lambda asked: 500) as server:
        model = ModelConfig(url=server.base_url, model="m")
        config = RagConfig(embedder=EmbedderConfig(provider="none"), model=model)
        with open_memory(tmp_path, config=config) as memory:
            memory.record("auth", record(1).model_dump_json())
            assert "TypeError" in memory.prompt("auth").text
        assert server.requests
