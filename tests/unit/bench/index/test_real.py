"""What the real corpus of the index's bench promises: short windows of real texts, none twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.index.real import SETS, SHARD_CHUNKS, embed_once, has_sets, real_corpus, real_queries, windows
from sluice.ingest.embed.minilm import MiniLM


def test_a_window_is_a_run_of_one_to_three_sentences() -> None:
    text = (
        "The first sentence stands here. The second one follows at once.\n\nA third ends it all quietly! A fourth too."
    )
    assert list(windows(text)) == [
        "The first sentence stands here.",
        "The first sentence stands here. The second one follows at once.",
        "The first sentence stands here. The second one follows at once. A third ends it all quietly!",
        "The second one follows at once.",
        "The second one follows at once. A third ends it all quietly!",
        "The second one follows at once. A third ends it all quietly! A fourth too.",
        "A third ends it all quietly! A fourth too.",
    ]


def test_what_is_shorter_than_a_sentence_is_left_out() -> None:
    assert list(windows("Yes. No.")) == []


def test_too_few_texts_are_refused(tmp_path: Path) -> None:
    _write_sets(tmp_path, ["One long sentence that is a window of its own."])
    with pytest.raises(ValueError, match="10000 are wanted"):
        real_corpus(tmp_path, SHARD_CHUNKS, tmp_path, tmp_path)


def test_a_folder_without_the_sets_is_known_for_that(tmp_path: Path) -> None:
    assert not has_sets(tmp_path)


def test_vectors_are_computed_once_and_belong_to_their_texts(tmp_path: Path, minilm: MiniLM) -> None:
    """Vectors of a second call come from the file that the first one left."""
    texts = ["A lease is renewed by its holder.", "The sea was calm that morning."]
    first = embed_once(minilm, texts, tmp_path)
    (kept,) = tmp_path.glob("vectors-*.npy")
    np.save(kept, first + 1)
    assert np.array_equal(embed_once(minilm, texts, tmp_path), first + 1)
    assert np.allclose(embed_once(minilm, texts[::-1], tmp_path), first[::-1], atol=1e-5)


def test_questions_come_evenly_from_every_set(tmp_path: Path) -> None:
    _write_sets(tmp_path, ["unused"], [f"question {number}" for number in range(250)])
    assert len(real_queries(tmp_path)) == 300
    assert real_queries(tmp_path)[:3] == ["question 0", "question 2", "question 5"]


def _write_sets(folder: Path, documents: list[str], queries: Sequence[str] = ()) -> None:
    for name in SETS:
        (folder / name).mkdir()
        for file, texts in (("corpus", documents), ("queries", queries)):
            lines = (json.dumps({"_id": str(number), "text": text}) for number, text in enumerate(texts))
            (folder / name / f"{file}.jsonl").write_text("\n".join(lines), encoding="utf-8")
