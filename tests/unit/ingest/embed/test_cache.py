"""The cache gives back what was put in, stays bounded, and never fails an embedding."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sluice.contracts.document import sha256_text
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.port import Embedded, require_fingerprint
from tests.support.repository import REPOSITORY


class CountingEmbedder:
    """Gives each text a vector of its own, and records what it was asked for."""

    def __init__(self, fingerprint: str = "counting/4") -> None:
        self.fingerprint = fingerprint
        self.dimension = 4
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        require_fingerprint(self.fingerprint, required_fingerprint)
        self.asked.append(list(texts))
        vectors = np.array([one_vector(text) for text in texts], dtype=np.float32).reshape(-1, 4)
        return Embedded(vectors, self.fingerprint, tokens=len(texts), cost_usd=0.5 * len(texts))


def one_vector(text: str) -> np.ndarray:
    seeded = np.random.default_rng(int(sha256_text(text)[:8], 16)).normal(size=4)
    return (seeded / np.linalg.norm(seeded)).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "embeddings.sqlite"


def filled(path: Path, texts: Sequence[str], max_entries: int = 100) -> EmbeddingCache:
    cache = EmbeddingCache(path, max_entries)
    for text in texts:
        cache.put_many("model", {sha256_text(text): one_vector(text)})
    return cache


def texts_in(cache: EmbeddingCache, texts: Sequence[str], fingerprint: str = "model") -> list[str]:
    found = cache.get_many(fingerprint, [sha256_text(text) for text in texts])
    for text in texts:
        if sha256_text(text) in found:
            np.testing.assert_array_equal(found[sha256_text(text)], one_vector(text))
    return [text for text in texts if sha256_text(text) in found]


def test_a_vector_comes_back_bit_for_bit_also_after_a_restart(path: Path) -> None:
    filled(path, ["a", "b"]).close()
    cache = EmbeddingCache(path, 100)
    assert texts_in(cache, ["a", "b", "c"]) == ["a", "b"]
    assert (cache.hits, cache.misses) == (2, 1)


def test_a_vector_of_one_model_is_never_given_for_another(path: Path) -> None:
    assert texts_in(filled(path, ["a"]), ["a"], fingerprint="another model") == []


def test_the_oldest_go_when_the_bound_is_reached(path: Path) -> None:
    texts = [f"text {number}" for number in range(12)]
    assert texts_in(filled(path, texts, max_entries=5), texts) == texts[-5:]


def test_a_text_put_again_counts_as_new_and_not_twice(path: Path) -> None:
    assert texts_in(filled(path, ["a", "b", "a", "c"], max_entries=2), ["a", "b", "c"]) == ["a", "c"]


def test_more_texts_than_one_statement_can_name(path: Path) -> None:
    texts = [f"text {number}" for number in range(2_345)]
    cache = EmbeddingCache(path, 10_000)
    cache.put_many("model", {sha256_text(text): one_vector(text) for text in texts})
    assert texts_in(cache, texts) == texts


@pytest.mark.parametrize("damage", ["garbage", "truncated", "header"])
def test_a_corrupted_file_is_begun_anew_without_an_error(path: Path, damage: str) -> None:
    texts = [f"text {number}" for number in range(2_000)]
    cache = EmbeddingCache(path, 10_000)
    cache.put_many("model", {sha256_text(text): one_vector(text) for text in texts})
    cache.close()
    content = path.read_bytes()
    path.write_bytes(
        {
            "garbage": b"not a database at all" * 1_000,
            "truncated": content[: len(content) // 2],
            "header": content[:100] + bytes(4_000) + content[4_100:],
        }[damage]
    )
    reopened = EmbeddingCache(path, 10_000)
    texts_in(reopened, texts)
    reopened.put_many("model", {sha256_text("new"): one_vector("new")})
    assert texts_in(reopened, ["new"]) == ["new"]
    reopened.close()
    assert texts_in(EmbeddingCache(path, 10_000), ["new"]) == ["new"]


def test_a_vector_with_a_flipped_bit_is_absent_and_not_wrong(path: Path) -> None:
    cache = filled(path, ["a", "b"])
    cache.close()
    with sqlite3.connect(path) as connection:
        [vector] = connection.execute("SELECT vector FROM vectors WHERE position = 1").fetchone()
        connection.execute("UPDATE vectors SET vector = ? WHERE position = 1", (bytes([vector[0] ^ 1]) + vector[1:],))
    connection.close()
    assert texts_in(cache, ["a", "b"]) == ["b"]


def test_a_file_that_cannot_be_opened_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where the folder should be")
    for path in (tmp_path / "file" / "cache.sqlite", tmp_path):
        cache = EmbeddingCache(path, 10)
        cache.put_many("model", {sha256_text("a"): one_vector("a")})
        assert texts_in(cache, ["a"]) == []


def test_a_file_that_another_process_holds_is_passed_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.ingest.embed.cache.BUSY_TIMEOUT_SECONDS", 0.05)
    cache = filled(path, ["a"])
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    cache.put_many("model", {sha256_text("b"): one_vector("b")})
    assert texts_in(cache, ["a", "b"]) == ["a"], "reading goes on, only the writing is skipped"
    holder.execute("ROLLBACK")
    holder.close()


def test_processes_share_the_file(path: Path) -> None:
    script = """
import sys, numpy as np
from pathlib import Path
from sluice.ingest.embed.cache import EmbeddingCache
cache = EmbeddingCache(Path(sys.argv[1]), 10_000)
for number in range(50):
    cache.put_many(sys.argv[2], {f"{number:064x}": np.full(4, number, dtype=np.float32)})
"""
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name], cwd=REPOSITORY)
        for name in ("one", "two", "three")
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    cache = EmbeddingCache(path, 10_000)
    for name in ("one", "two", "three"):
        assert len(cache.get_many(name, [f"{number:064x}" for number in range(50)])) == 50


def test_only_new_texts_are_computed_and_equal_ones_once(path: Path) -> None:
    inner = CountingEmbedder()
    embedder = CachedEmbedder(inner, EmbeddingCache(path, 100))
    first = embedder.embed(["a", "b", "a"])
    assert inner.asked == [["a", "b"]]
    assert (first.tokens, first.cost_usd, first.cache_hits) == (2, 1.0, 1)
    second = embedder.embed(["c", "a"])
    assert inner.asked[1:] == [["c"]]
    assert (second.tokens, second.cost_usd, second.cache_hits) == (1, 0.5, 1)
    np.testing.assert_array_equal(second.vectors, [one_vector("c"), one_vector("a")])


def test_a_batch_wholly_known_asks_the_model_for_nothing(path: Path) -> None:
    inner = CountingEmbedder()
    embedder = CachedEmbedder(inner, EmbeddingCache(path, 100))
    embedder.embed(["a", "b"])
    again = embedder.embed(["b", "a", "b"])
    assert len(inner.asked) == 1
    assert (again.tokens, again.cost_usd, again.cache_hits) == (0, 0.0, 3)
    np.testing.assert_array_equal(again.vectors, [one_vector("b"), one_vector("a"), one_vector("b")])


def test_no_texts_give_an_empty_matrix_of_the_right_width(path: Path) -> None:
    assert CachedEmbedder(CountingEmbedder(), EmbeddingCache(path, 100)).embed([]).vectors.shape == (0, 4)


def test_an_embedder_without_its_cache_file_still_embeds(tmp_path: Path) -> None:
    embedder = CachedEmbedder(CountingEmbedder(), EmbeddingCache(tmp_path, 100))
    np.testing.assert_array_equal(embedder.embed(["a"]).vectors, [one_vector("a")])
