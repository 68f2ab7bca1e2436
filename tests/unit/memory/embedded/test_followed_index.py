"""The index of an embedded memory follows the journal, and is filled when something is asked."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from sluice.contracts.memory.learning import LearningState
from sluice.index.local.writer import IndexWriter
from sluice.index.search.reader import RawHit
from sluice.ingest.embed.port import Embedded
from sluice.memory.embedded.followed_index import FEW_DOCUMENTS, FollowedIndex, relevance
from sluice.memory.embedded.outside import folder_of_model
from sluice.memory.embedded.vectors import WORDS_ALONE
from sluice.memory.qdrant_schema import collection_name
from sluice.memory.upkeep import Upkeep
from tests.support.memory.facts import learning, record, state_of
from tests.support.memory.index import CountingModel, local_index

AUTH = collection_name("/p", "auth")


def found(index: FollowedIndex, query: str, collection: str = AUTH) -> list[str]:
    return [hit.document_id for hit in index.search(collection, query, 50).hits]


@pytest.mark.parametrize("model", [CountingModel(), None], ids=["hybrid", "words alone"])
def test_what_is_recorded_is_found_by_its_words(tmp_path: Path, model: CountingModel | None) -> None:
    wanted = learning("the session cookie is rotated by the proxy")
    state = state_of(record(1), record(2), wanted)
    index = local_index(tmp_path, model)
    assert len(index.lacking(state)) == 3
    assert not index.follow(state, wholly=True)
    assert not index.lacking(state)
    hits = index.search(AUTH, "cookie proxy", 5)
    assert hits.hits[0].document_id == wanted.id
    assert all(0 <= hit.relevance <= 1 for hit in hits.hits)
    assert hits.searched == ("hybrid" if model else "bm25")
    index.close()


def test_a_question_waits_for_a_few_documents_and_many_are_taken_in_behind_it(tmp_path: Path) -> None:
    upkeep = Upkeep()
    model = CountingModel()
    index = local_index(tmp_path, model, upkeep=upkeep)
    records = [record(number) for number in range(1, FEW_DOCUMENTS + 3)]
    assert not index.follow(state_of(*records[:FEW_DOCUMENTS]))
    late = [record(number) for number in range(100, 100 + 2 * FEW_DOCUMENTS)]
    state = state_of(*records, *late)
    assert len(index.follow(state)) == 2 * FEW_DOCUMENTS + 2
    upkeep.wait()
    assert not index.lacking(state)
    assert model.texts[FEW_DOCUMENTS] == late[-1].embedding_text(), "the newest come first"
    index.close()


def test_while_much_is_taken_in_a_question_searches_what_is_there(tmp_path: Path) -> None:
    embedding, may_go_on = threading.Event(), threading.Event()

    class SlowModel(CountingModel):
        def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
            if len(self.texts) >= FEW_DOCUMENTS and any("Attempt" in text for text in texts):
                embedding.set()
                may_go_on.wait(20)
            return super().embed(texts, required_fingerprint)

    upkeep = Upkeep()
    index = local_index(tmp_path, SlowModel(), upkeep=upkeep)
    first = [record(number) for number in range(FEW_DOCUMENTS) if number] + [record(99)]
    index.follow(state_of(*first))
    state = state_of(*first, *(record(number) for number in range(200, 220)))
    index.follow(state)
    assert embedding.wait(20)
    assert len(found(index, "middleware")) == len(first)
    assert len(index.follow(state)) == 20
    may_go_on.set()
    upkeep.wait()
    assert not index.follow(state)
    index.close()


def test_a_learning_that_was_edited_is_found_by_its_new_words_alone(tmp_path: Path) -> None:
    index = local_index(tmp_path, None)
    one = learning("the port is 8080")
    index.follow(state_of(one))
    index.follow(state_of(one.model_copy(update={"text": "the gateway listens elsewhere"})))
    assert found(index, "gateway") == [one.id]
    assert found(index, "8080") == []
    index.close()


def test_a_learning_that_is_rejected_is_removed_and_one_taken_back_returns(tmp_path: Path) -> None:
    index = local_index(tmp_path, None)
    one, other = learning("the port is 8080"), learning("the port is open")
    index.follow(state_of(one, other))
    rejected = one.model_copy(update={"state": LearningState.REJECTED})
    index.follow(state_of(rejected, other))
    assert found(index, "port") == [other.id]
    index.follow(state_of(one, other))
    assert set(found(index, "port")) == {one.id, other.id}
    index.close()


def test_what_another_program_added_meanwhile_is_left_alone(tmp_path: Path) -> None:
    """A state that was read before is no reason to remove what it does not know."""
    early, late = state_of(record(1)), state_of(record(1), record(2))
    one, other = local_index(tmp_path, None), local_index(tmp_path, None)
    one.follow(late)
    other.follow(early)
    assert len(found(other, "attempt")) == 2
    one.close()
    other.close()


def test_while_another_program_writes_what_is_there_is_searched(tmp_path: Path) -> None:
    index = local_index(tmp_path, None)
    index.follow(state_of(record(1)))
    with IndexWriter(folder_of_model(tmp_path, WORDS_ALONE), AUTH):
        state = state_of(record(1), record(2))
        assert list(index.follow(state)) == [[*state.iterations][1]]
        assert len(found(index, "attempt")) == 1
    assert not index.follow(state)
    assert len(found(index, "attempt")) == 2
    index.close()


def test_an_index_that_is_damaged_is_made_again_from_the_journal(tmp_path: Path) -> None:
    index = local_index(tmp_path, None)
    state = state_of(record(1), record(2))
    index.follow(state)
    index.close()
    for path in tmp_path.rglob("*.log"):
        path.write_bytes(b"\x00" * 200 + path.read_bytes()[200:])
    for path in tmp_path.rglob("generations/*/*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    again = local_index(tmp_path, None)
    assert not again.follow(state, wholly=True)
    assert len(found(again, "attempt")) == 2
    again.close()


def test_a_removed_index_is_made_again_from_the_journal(tmp_path: Path) -> None:
    index = local_index(tmp_path, None)
    state = state_of(record(1))
    index.follow(state)
    index.close()
    shutil.rmtree(tmp_path)
    again = local_index(tmp_path, None)
    again.follow(state)
    assert len(found(again, "attempt")) == 1
    again.close()


def test_another_features_documents_are_in_another_collection(tmp_path: Path) -> None:
    index = local_index(tmp_path, None)
    index.follow(state_of(record(1)))
    index.follow(state_of(record(1, feature="payments"), feature="payments"))
    assert set(found(index, "attempt")).isdisjoint(found(index, "attempt", collection_name("/p", "payments")))
    index.close()


def test_the_relevance_of_words_alone_grows_with_their_score() -> None:
    hit = RawHit("d", None, 10.0)
    assert relevance(hit, has_vectors=False) == 0.5
    assert relevance(hit._replace(lexical_score=30.0), has_vectors=False) == 0.75
    assert relevance(RawHit("d", -0.5, None), has_vectors=True) == 0
