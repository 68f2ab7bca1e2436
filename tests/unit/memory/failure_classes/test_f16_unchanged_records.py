"""F16: what is unchanged is not embedded again, in the next question, after a review, nor when the index is made anew."""

from __future__ import annotations

from pathlib import Path

from sluice.memory.qdrant_schema import collection_name
from tests.support.memory.facts import learning, record, state_of
from tests.support.memory.index import CountingModel, local_index, payloads


def test_f16_unchanged_records_are_embedded_once(tmp_path: Path) -> None:
    model = CountingModel()
    first, second = record(1), record(2)
    index = local_index(tmp_path, model)
    index.follow(state_of(first), wholly=True)
    index.follow(state_of(first), wholly=True)
    index.follow(state_of(first, second), wholly=True)
    index.close()
    assert model.texts == [first.embedding_text(), second.embedding_text()]

    again = local_index(tmp_path, model)
    again.follow(state_of(first, second), wholly=True)
    again.close()
    assert len(model.texts) == 2


def test_f16_a_review_and_how_a_learning_fared_embed_nothing(tmp_path: Path) -> None:
    model = CountingModel()
    one = learning("the port is 8080")
    index = local_index(tmp_path, model)
    index.follow(state_of(one))
    index.follow(state_of(one.model_copy(update={"hit_count": 3, "shown": 4, "used": 2})))
    index.follow(state_of(one.model_copy(update={"reviewed": True})))
    index.close()
    assert model.texts == [one.text]


def test_f16_a_review_is_in_the_payload_nevertheless(tmp_path: Path) -> None:
    one = learning("the port is 8080")
    index = local_index(tmp_path, CountingModel())
    index.follow(state_of(one))
    index.follow(state_of(one.model_copy(update={"reviewed": True})))
    assert payloads(tmp_path, collection_name("/p", "auth"))[one.id]["reviewed"] is True
    index.close()


def test_f16_a_collection_that_was_dropped_is_filled_without_embedding(tmp_path: Path) -> None:
    model = CountingModel()
    state = state_of(record(1), learning("the port is 8080"))
    index = local_index(tmp_path, model)
    index.follow(state, wholly=True)
    assert index.drop_orphans(()) == (collection_name("/p", "auth"),)
    index.close()
    again = local_index(tmp_path, model)
    assert len(again.lacking(state)) == 2
    assert not again.follow(state, wholly=True)
    again.close()
    assert len(model.texts) == 2
