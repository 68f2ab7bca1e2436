"""Collections of features, and what their points carry."""

from __future__ import annotations

import hashlib

from sluice.contracts.base import CORPUS_NAME
from sluice.memory.qdrant_schema import (
    CollectionConfig,
    MemoryPayload,
    RecordType,
    collection_name,
    expected_collections,
    orphan_collections,
)
from tests.support.memory.facts import learning, record

PROJECT = "/home/user/myproject"


def test_a_collection_is_named_by_the_hashes_of_project_and_feature() -> None:
    project, feature = (hashlib.sha256(name.encode()).hexdigest()[:8] for name in (PROJECT, "auth"))
    assert collection_name(PROJECT, "auth") == f"{project}-{feature}"


def test_the_name_of_a_collection_is_a_corpus_name_of_an_instance() -> None:
    assert CORPUS_NAME.fullmatch(collection_name("/ünï/ code", "a.b_c-d"))


def test_a_payload_holds_all_that_a_record_may_be_filtered_by() -> None:
    payload = MemoryPayload.of_record(record(3, task_id=42, outcome="Failure"), PROJECT, "model-a")
    assert payload.record_type is RecordType.ITERATION
    told = payload.as_metadata()
    assert told["project_path"] == PROJECT
    assert told["iteration_number"] == 3
    assert told["task_id"] == 42
    assert told["outcome"] == "Failure"
    assert told["error_types"] == "Runtime"
    assert told["files"] == "src/auth.py,tests/test_auth.py"
    assert told["embedding_model"] == "model-a"
    assert all(isinstance(value, str | int | float | bool) for value in told.values())


def test_what_happens_to_a_learning_in_iterations_changes_no_payload() -> None:
    """Counters change with every iteration: in the payload, each would make another version of the document."""
    one = learning("use X")
    more = one.model_copy(update={"hit_count": 7, "shown": 5, "used": 3, "helped": 2})
    assert MemoryPayload.of_learning(one, PROJECT) == MemoryPayload.of_learning(more, PROJECT)


def test_orphans_are_collections_of_this_project_alone() -> None:
    expected = expected_collections(PROJECT, ["auth", "payments"])
    gone, foreign = collection_name(PROJECT, "gone"), collection_name("/other", "auth")
    assert len(expected) == 2
    existing = [*expected, gone, foreign, "something-else", "sluice_default"]
    assert orphan_collections(existing, PROJECT, ["auth", "payments"]) == (gone,)


def test_the_size_of_vectors_is_that_of_the_local_model() -> None:
    from sluice.ingest.embed.minilm import DIMENSION

    assert CollectionConfig().size == DIMENSION
