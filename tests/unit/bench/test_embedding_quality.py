"""What the bench calls nDCG@10 is that, and cutting a collection loses no answer."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from bench.embedding.quality import Collection, ndcg, read_collection

FIVE = Collection(tuple("abcde"), ("first", "second"), ({4: 1}, {0: 2, 3: 1}))


def test_documents_found_in_their_ideal_order_give_one_and_later_ones_less() -> None:
    documents = np.eye(5, dtype=np.float32)
    best = np.array([[0, 0, 0, 0, 1], [1, 0, 0, 0.5, 0]], dtype=np.float32)
    assert ndcg(FIVE, documents, best) == pytest.approx(1)
    turned = np.array([[1, 0, 0, 0, 0.9], [0.5, 0, 0, 1, 0]], dtype=np.float32)
    second = (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))
    assert ndcg(FIVE, documents, turned) == pytest.approx((1 / math.log2(3) + second) / 2)


def test_a_cut_collection_keeps_every_answer_under_its_new_place() -> None:
    cut = FIVE.cut_to(4)
    assert (cut.documents, cut.judged) == (("a", "b", "d", "e"), ({3: 1}, {0: 2, 2: 1}))
    assert FIVE.cut_to(1).documents == ("a", "d", "e")


def test_a_folder_is_read_with_titles_and_only_the_queries_that_have_answers(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "title": "T", "text": "x"}\n{"_id": "2", "text": "y"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "a", "text": "q"}\n{"_id": "b", "text": "r"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\na\t2\t1\na\t1\t0\nb\t9\t1\n")
    assert read_collection(tmp_path) == Collection(("T\nx", "y"), ("q",), ({1: 1},))
