"""Iterations and learnings as documents of one chunk."""

from __future__ import annotations

from sluice.contracts.document import sha256_text
from sluice.contracts.memory.learning import LearningState
from sluice.memory.qdrant_schema import document_of_learning, document_of_record, documents_of, is_indexed
from tests.support.memory.facts import learning, record, state_of

PROJECT = "/p"


def test_a_record_is_a_document_whose_checksum_is_the_hash_of_what_is_embedded() -> None:
    one = record(3)
    document = document_of_record(one, "mem_1", PROJECT)
    [text] = document.embedding_texts()
    assert text == one.embedding_text()
    assert document.checksum == document.chunks[0].checksum == sha256_text(text) == document.metadata["embedding_hash"]
    assert document.document_id == "mem_1"
    assert document.chunks[0].chunk_id == str(one.point_id(PROJECT))
    assert document.provenance.source == "submission"


def test_a_learning_is_a_document_by_its_own_id() -> None:
    one = learning("the token is in the header", task_id=7)
    document = document_of_learning(one, PROJECT, "model-a")
    assert document.document_id == one.id
    assert document.embedding_texts() == ["the token is in the header"]
    assert document.metadata["record_type"] == "Learning"
    assert document.metadata["task_id"] == 7
    assert document.metadata["embedding_model"] == "model-a"


def test_a_rejected_or_pruned_learning_is_not_indexed() -> None:
    one = learning("use X")
    assert is_indexed(one)
    assert not is_indexed(one.model_copy(update={"state": LearningState.REJECTED}))
    assert not is_indexed(one.model_copy(update={"state": LearningState.PRUNED}))


def test_the_documents_of_a_feature_are_its_learnings_and_iterations_the_newest_first() -> None:
    first, second = record(1), record(2)
    found = [one.metadata["iteration_number"] for one in documents_of(state_of(first, learning("a"), second), PROJECT)]
    assert found == [1, 2, 1]
