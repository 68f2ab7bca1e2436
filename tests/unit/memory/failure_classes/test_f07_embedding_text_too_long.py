"""F7: the text that is embedded has at most 4,000 characters, however much the record holds."""

from __future__ import annotations

from sluice.contracts.memory.model import MAX_EMBEDDING_CHARACTERS
from sluice.memory.qdrant_schema import document_of_record
from tests.support.memory.facts import record


def test_f07_embedding_text_is_truncated_at_4000_characters() -> None:
    error = {"message": "x" * 2_000, "error_type": "Compile"}
    one = record(1, task_title="t" * 200, summary="s" * 2_000, errors=[error] * 5)
    text = one.embedding_text()
    assert len(text) == MAX_EMBEDDING_CHARACTERS == 4_000
    document = document_of_record(one, "mem_1", "/p")
    assert document.embedding_texts() == [text]


def test_f07_what_matters_most_stands_before_the_cut() -> None:
    one = record(1, task_title="Build login form", errors=[{"message": "x" * 2_000}] * 5)
    text = one.embedding_text()
    assert text.startswith("Build login form\nfrontend iteration 1: Failure\n")
    assert one.summary in text
