"""The settings become one embedder, and models are never mixed in an index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from sluice.contracts.errors import Conflict, InvalidInput, TimedOut, Unavailable
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.embed import (
    BreakingEmbedder,
    FallbackEmbedder,
    RoutingEmbedder,
    fingerprint_of_corpus,
    make_embedder,
)
from sluice.ingest.embed.minilm import FINGERPRINT, FINGERPRINTS
from sluice.ingest.embed.port import Embedded, require_fingerprint, unit_rows
from sluice.ingest.settings import CorpusEmbedSettings, EmbedSettings
from tests.support.repository import MODELS


class OneVector:
    """Gives every text the same vector, or raises what it is told to."""

    def __init__(self, fingerprint: str, vector: Sequence[float] = (1, 0), fails: Exception | None = None) -> None:
        self.fingerprint = fingerprint
        self.dimension = len(vector)
        self.fails = fails
        self._vector = vector

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        require_fingerprint(self.fingerprint, required_fingerprint)
        if self.fails:
            raise self.fails
        return Embedded(np.array([self._vector] * len(texts), dtype=np.float32), self.fingerprint)


def test_the_first_serves_while_it_is_well() -> None:
    both = FallbackEmbedder(OneVector("same", (1, 0)), OneVector("same", (0, 1)))
    assert both.embed(["text"]).vectors.tolist() == [[1, 0]]


@pytest.mark.parametrize("required", [None, "same"])
def test_the_second_steps_in_where_its_vectors_are_the_same(required: str | None) -> None:
    both = FallbackEmbedder(OneVector("same", fails=TimedOut("slow")), OneVector("same", (0, 1)))
    assert both.embed(["text"], required).vectors.tolist() == [[0, 1]]


def test_an_error_that_is_ours_is_not_covered_up_by_the_second() -> None:
    both = FallbackEmbedder(OneVector("same", fails=InvalidInput("texts", "too long")), OneVector("same"))
    with pytest.raises(InvalidInput, match="too long"):
        both.embed(["text"])


def test_the_fingerprint_and_dimension_of_a_pair_are_the_first_ones() -> None:
    both = FallbackEmbedder(OneVector("first", (1, 0, 0)), OneVector("second"))
    assert (both.fingerprint, both.dimension) == ("first", 3)


def test_the_default_is_the_local_model_behind_a_cache_and_nothing_is_opened(tmp_path: Path) -> None:
    embedder = make_embedder(EmbedSettings(), tmp_path / "models", tmp_path / "cache.sqlite")
    assert isinstance(embedder, CachedEmbedder)
    assert (embedder.fingerprint, embedder.dimension) == (FINGERPRINT, 384)
    assert list(tmp_path.iterdir()) == []


def test_no_cache_where_there_is_no_path(tmp_path: Path) -> None:
    assert not isinstance(make_embedder(EmbedSettings(), tmp_path, None), CachedEmbedder)


@pytest.mark.usefixtures("exact_int8")
def test_a_local_instance_embeds_for_indices_of_either_precision() -> None:
    embedder = make_embedder(EmbedSettings(), MODELS, None)
    assert embedder.embed(["otters swim"]).fingerprint == FINGERPRINTS["fp32"]
    assert embedder.embed(["otters swim"], FINGERPRINTS["int8"]).fingerprint == FINGERPRINTS["int8"]


def test_an_endpoint_stands_alone_or_before_the_local_model(tmp_path: Path) -> None:
    alone = EmbedSettings(provider="openai")
    assert isinstance(make_embedder(alone, tmp_path, None), BreakingEmbedder)
    backed = EmbedSettings(provider="openai", openai_fingerprint=FINGERPRINT, openai_dimension=384)
    embedder = make_embedder(backed, tmp_path, None)
    assert isinstance(embedder, FallbackEmbedder)
    assert embedder.fingerprint == FINGERPRINT


def test_a_fallback_with_other_vectors_never_stands_in_and_serves_its_own_index() -> None:
    settings = EmbedSettings(provider="openai", fallback="local", openai_base_url="http://127.0.0.1:9/v1")
    embedder = make_embedder(settings, MODELS, None, for_questions=True)
    assert embedder.fingerprint == "text-embedding-3-small/1536/127.0.0.1:9/v1/l2"
    assert embedder.embed(["otters swim"], FINGERPRINT).vectors.shape == (1, 384)
    with pytest.raises(Unavailable, match="cannot be reached"):
        embedder.embed(["otters swim"])


def test_rows_are_brought_to_length_one() -> None:
    rows = unit_rows(np.array([[3, 4], [0, -2]], dtype=np.float32))
    np.testing.assert_allclose(rows, np.array([[0.6, 0.8], [0, -1]], dtype=np.float32))
    assert unit_rows(np.empty((0, 3), dtype=np.float32)).shape == (0, 3)


@pytest.mark.parametrize("row", [[0, 0], [np.nan, 1], [np.inf, 1]])
def test_a_row_without_a_direction_is_refused(row: list[float]) -> None:
    with pytest.raises(Unavailable, match="without a direction"):
        unit_rows(np.array([[1, 0], row], dtype=np.float32))


def test_the_fingerprint_of_an_index_chooses_its_model_and_the_first_begins_a_new_one() -> None:
    models = RoutingEmbedder([OneVector("prose", (1, 0)), OneVector("code", (0, 1))])
    assert models.embed(["text"], "code").vectors.tolist() == [[0, 1]]
    assert models.embed(["text"], "code").fingerprint == "code"
    assert models.embed(["text"], "prose").vectors.tolist() == models.embed(["text"]).vectors.tolist() == [[1, 0]]
    assert (models.fingerprint, models.dimension) == ("prose", 2)


def test_the_model_behind_caches_and_choices_is_found_by_its_fingerprint(tmp_path: Path) -> None:
    prose, code = OneVector("prose"), OneVector("code")
    models = CachedEmbedder(RoutingEmbedder([prose, code]), EmbeddingCache(tmp_path / "cache", 10))
    assert [models.model_of(name) for name in ("prose", "code", "third")] == [prose, code, None]
    assert CachedEmbedder(prose, EmbeddingCache(tmp_path / "cache", 10)).model_of("code") is None


def test_an_index_of_a_model_that_is_not_configured_is_a_conflict_and_never_served_by_another() -> None:
    with pytest.raises(Conflict, match="built with the embedding model third; the configured ones are prose, code"):
        RoutingEmbedder([OneVector("prose"), OneVector("code")]).embed(["text"], "third")


def test_one_model_that_fails_is_not_replaced_by_the_other() -> None:
    models = RoutingEmbedder([OneVector("prose"), OneVector("code", fails=Unavailable("down"))])
    with pytest.raises(Unavailable, match="down"):
        models.embed(["text"], "code")


CORPORA = EmbedSettings(
    corpora={
        "code-*": CorpusEmbedSettings(precision="int8"),
        "*-large": CorpusEmbedSettings(provider="openai", openai_dimension=8),
    }
)


def test_the_first_pattern_that_a_corpus_name_matches_decides_its_model() -> None:
    assert fingerprint_of_corpus(CORPORA, "docs") == FINGERPRINTS["fp32"]
    assert fingerprint_of_corpus(CORPORA, "code-python") == FINGERPRINTS["int8"]
    assert fingerprint_of_corpus(CORPORA, "code-large") == FINGERPRINTS["int8"]
    assert fingerprint_of_corpus(CORPORA, "docs-large") == "text-embedding-3-small/8/api.openai.com/v1/l2"


@pytest.mark.usefixtures("exact_int8")
def test_every_model_that_a_corpus_may_get_is_within_reach_of_the_embedder(tmp_path: Path) -> None:
    settings = EmbedSettings(corpora={"code-*": CorpusEmbedSettings(precision="int8")}, threads=1)
    embedder = make_embedder(settings, tmp_path / "models", tmp_path / "cache.sqlite")
    assert (embedder.fingerprint, list(tmp_path.iterdir())) == (FINGERPRINT, [])
    vectors = []
    for corpus in ("docs", "code-python"):
        embedded = embedder.embed(["def main(): pass"], fingerprint_of_corpus(settings, corpus))
        assert embedded.fingerprint == fingerprint_of_corpus(settings, corpus)
        assert embedded.cache_hits == 0, "the cache keeps the models apart"
        vectors.append(embedded.vectors[0])
    assert 0.95 < float(vectors[0] @ vectors[1]) < 0.9999


def test_int8_alone_is_the_model_of_every_corpus(tmp_path: Path) -> None:
    settings = EmbedSettings(precision="int8")
    assert fingerprint_of_corpus(settings, "any") == FINGERPRINTS["int8"]
    assert make_embedder(settings, tmp_path, None).fingerprint == FINGERPRINTS["int8"]


def test_a_misspelt_setting_of_a_corpus_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"corpora.code.precison"):
        EmbedSettings.model_validate({"corpora": {"code": {"precison": "int8"}}})
