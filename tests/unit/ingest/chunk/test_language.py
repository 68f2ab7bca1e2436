"""The model that tells languages, mapped from files."""

from __future__ import annotations

import pytest
from py3langid import langid

from sluice.ingest.chunk.language import map_model, natural_language
from tests.support.repository import MODELS

TEXTS = {
    "en": "When a worker dies, what it held is handed back at once.",
    "de": "Der Bericht beschreibt die Ergebnisse der Untersuchung im Einzelnen.",
    "fr": "Les résultats de cette étude montrent la même chose.",
    "ja": "この文書は言語を判定するための十分な長さを持っているはずです。",
    "ru": "Этот отчёт описывает результаты исследования прошлого года.",
}


@pytest.fixture(autouse=True)
def mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(langid, "IDENTIFIER", None)
    map_model(MODELS)


def test_the_mapped_model_tells_languages() -> None:
    assert {natural_language(text) for text in TEXTS.values()} == set(TEXTS)


@pytest.mark.slow
def test_the_mapped_model_tells_exactly_what_the_library_tells() -> None:
    own = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)
    assert [langid.classify(text) for text in TEXTS.values()] == [own.classify(text) for text in TEXTS.values()]
