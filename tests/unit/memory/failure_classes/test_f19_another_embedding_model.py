"""F19: with another embedding model everything is embedded anew from the journal, and vectors are never mixed."""

from __future__ import annotations

from pathlib import Path

from sluice.memory.qdrant_schema import collection_name
from tests.support.memory.facts import learning, record, state_of
from tests.support.memory.index import CountingModel, local_index, payloads

AUTH = collection_name("/p", "auth")


def test_f19_another_embedding_model_embeds_everything_anew(tmp_path: Path) -> None:
    state = state_of(record(1), learning("the port is 8080"))
    old, new = CountingModel("old/1"), CountingModel("new/2")
    for model in (old, new):
        index = local_index(tmp_path, model)
        assert len(index.lacking(state)) == 2
        assert not index.follow(state, wholly=True)
        assert len(index.search(AUTH, "port", 5).hits) == 2
        index.close()
    assert sorted(old.texts[:2]) == sorted(new.texts[:2])


def test_f19_each_payload_names_its_embedding_model(tmp_path: Path) -> None:
    state = state_of(record(1), learning("the port is 8080"))
    index = local_index(tmp_path, CountingModel("new/2"))
    index.follow(state, wholly=True)
    index.close()
    assert {one["embedding_model"] for one in payloads(tmp_path, AUTH).values()} == {"new/2"}


def test_f19_vectors_come_where_there_were_words_alone(tmp_path: Path) -> None:
    """The weights may be installed later, on a machine that remembered without them."""
    state = state_of(record(1))
    without = local_index(tmp_path, None)
    without.follow(state)
    assert without.search(AUTH, "attempt", 5).searched == "bm25"
    without.close()
    index = local_index(tmp_path, CountingModel())
    index.follow(state)
    assert index.search(AUTH, "attempt", 5).searched == "hybrid"
    index.close()
