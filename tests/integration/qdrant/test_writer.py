"""The journal is the truth: whatever happens to the engine, a publish brings it to the journal's end, all at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from sluice.contracts.errors import Conflict, Corrupted, InvalidInput, Unavailable
from sluice.contracts.retrieval import Query, Strategy
from sluice.index.journal.files import list_files
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.qdrant.payload import STATE_ID, CollectionState
from sluice.index.qdrant.reader import QdrantReader
from sluice.index.qdrant.server import Clause, make_point
from sluice.index.qdrant.server import ServerCollection as Collection
from sluice.index.qdrant.writer import QdrantWriter
from sluice.index.settings import QuerySettings
from tests.support.loopback_qdrant import collection_in_memory

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")

EVERYTHING = (Clause("any", "kind", ("chunk", "document")),)


@pytest.fixture
def collection() -> Iterator[Collection]:
    collection = collection_in_memory()
    yield collection
    collection.close()


@pytest.fixture
def root(memory_path: Path) -> Path:
    return memory_path


def _writer(root: Path, collection: Collection, **more: Any) -> QdrantWriter:
    patient = {"keep_replaced_seconds": 3_600.0, "batch_documents": 3}
    return QdrantWriter(root, "c", collection, **{**patient, **more})


def _found(collection: Collection) -> set[tuple[str, str]]:
    reader = QdrantReader(collection, "c", QuerySettings(duplicate_threshold=0.0))
    chunks = reader.retrieve(Query(query="alpha beta ferrets", corpus="c", strategy=Strategy.BM25, top_k=200)).chunks
    return {(chunk.document_id, chunk.text) for chunk in chunks}


def _texts(documents: Sequence[Any]) -> set[tuple[str, str]]:
    return {(document.document_id, chunk.text) for document in documents for chunk in document.chunks}


class _Failing:
    """A collection that fails at its `at`-th writing call, as an engine does that goes away."""

    def __init__(self, inner: Collection, at: int) -> None:
        self._inner = inner
        self.fail_at(at)
        self.writes = 0

    def fail_at(self, call: int) -> None:
        """Fail at that writing call from now; 0: never."""
        self._left = call

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in ("create", "upsert", "mark", "unmark", "delete"):
            return method

        def counted(*arguments: Any) -> Any:
            self.writes += 1
            self._left -= 1
            if self._left == 0:
                raise Unavailable("the engine is gone")
            return method(*arguments)

        return counted


def test_what_is_appended_is_durable_and_searched_only_after_publish(make, root, collection) -> None:
    documents = make.many(4)
    with _writer(root, collection) as writer:
        offset = writer.append(*make.batch(documents))
        assert (offset, writer.journal_offset, writer.published_offset) == (4, 4, 0)
        assert writer.has_document("doc-1")
        assert _found(collection) == set()
        generation = writer.publish()
        assert (generation.journal_offset, generation.document_count, generation.chunk_count) == (4, 4, 8)
        assert writer.publish() == generation
    assert _found(collection) == _texts(documents)


def test_what_was_appended_and_never_published_is_caught_up_at_the_next_open(make, root, collection) -> None:
    documents = make.many(4)
    with _writer(root, collection) as writer:
        writer.append(*make.batch(documents))
    with _writer(root, collection) as writer:
        assert writer.published_offset == 4
    assert _found(collection) == _texts(documents)


def test_a_journal_of_the_local_engine_fills_a_new_collection(make, root, collection) -> None:
    documents = make.many(5)
    with IndexWriter(root, "c") as local:
        local.append(*make.batch(documents))
        local.remove(["doc-2"])
        id_set_hash = local.rebuild().hash_after
    with _writer(root, collection) as writer:
        assert writer.publish().document_count == 4
        assert writer.rebuild().hash_after == id_set_hash
    assert _found(collection) == _texts([one for one in documents if one.document_id != "doc-2"])


def test_a_publish_that_fails_at_any_call_is_not_seen_and_the_next_one_completes_it(make, root, collection) -> None:
    """Every writing call of a publish with new, changed and removed documents is made to fail in turn."""
    first = make.many(6)
    with _writer(root, collection) as writer:
        writer.append(*make.batch(first))
        writer.publish()
    before = _texts(first)
    failures, turn = 0, 0
    while True:
        turn += 1
        changed = make.document("doc-1", f"alpha changed{turn}", age=timedelta(seconds=-turn))
        new = [make.document(f"new-{turn}-{i}", f"beta new{turn} {i}") for i in range(4)]
        failing = _Failing(collection, turn)
        writer = _writer(root, failing)
        writer.append(*make.batch([changed, *new]))
        writer.remove([f"new-{turn - 1}-0"])
        after = {entry for entry in before if entry[0] not in ("doc-1", f"new-{turn - 1}-0")} | _texts([changed, *new])
        try:
            writer.publish()
        except Unavailable:
            failures += 1
            is_state_written = _found(collection) == after
            assert is_state_written or _found(collection) == before
            writer.publish()
        writer.close()
        assert _found(collection) == after
        before = after
        if failing.writes < turn:
            break
    assert failures >= 9
    with _writer(root, collection) as writer:
        assert writer.rebuild().is_proven


def test_a_half_sent_publish_is_taken_back_by_another_writer(make, root, collection) -> None:
    first = make.many(3)
    with _writer(root, collection) as writer:
        writer.append(*make.batch(first))
        writer.publish()
    writer = _writer(root, _Failing(collection, 6))
    writer.append(
        *make.batch([make.document("doc-0", "alpha replaced", age=timedelta(seconds=-9)), *make.many(4, start=20)])
    )
    with pytest.raises(Unavailable, match="engine is gone"):
        writer.publish()
    writer.close()
    assert _found(collection) == _texts(first)
    with _writer(root, collection) as writer:
        writer.remove(["doc-0"])
        writer.publish()
        assert writer.rebuild().is_proven
    assert _found(collection) == _texts([*first[1:], *make.many(4, start=20)])


def test_an_equal_or_older_version_is_not_recorded_again(make, root, collection) -> None:
    document = make.document("d", "alpha")
    with _writer(root, collection) as writer:
        assert writer.append(*make.batch([document])) == 1
        assert writer.append(*make.batch([document])) == 1
        writer.publish()
    with _writer(root, collection) as writer:
        assert writer.append(*make.batch([document])) == 1
        assert writer.append(*make.batch([make.document("d", "alpha older", age=timedelta(days=1))])) == 1
        assert writer.remove(["never there"]) == 1
        assert writer.append(*make.batch([make.document("d", "alpha newer", age=timedelta(seconds=-1))])) == 2
        writer.publish()
    assert _found(collection) == {("d", "alpha newer")}


def test_vectors_of_another_model_or_shape_are_refused_and_the_next_writer_knows_the_model(
    make, root, collection
) -> None:
    batch, vectors, model = make.batch(make.many(1))
    with _writer(root, collection) as writer:
        writer.append(batch, vectors, model)
        with pytest.raises(InvalidInput, match="vectors"):
            writer.append(batch, vectors[:1], model)
    with _writer(root, collection) as writer:
        assert writer.model == (model, make.dimension)
        with pytest.raises(Conflict, match="bound to the model"):
            writer.append(batch, vectors, "other-model")
        with pytest.raises(Conflict, match="bound to the model"):
            writer.append(batch, np.ones((2, 3), dtype=np.float32), model)


def test_replaced_chunks_stay_for_searches_under_way_and_go_when_none_can_be(make, root, collection) -> None:
    now = 0.0
    with _writer(root, collection, keep_replaced_seconds=10, batch_documents=64, monotonic=lambda: now) as writer:
        writer.append(*make.batch([make.document("d", "alpha one")]))
        writer.publish()
        writer.append(*make.batch([make.document("d", "alpha two", age=timedelta(seconds=-1))]))
        writer.publish()
        assert collection.count(EVERYTHING) == 4
        now = 11.0
        third = [make.document("d", "alpha three", age=timedelta(seconds=-2)), make.document("e", "alpha four")]
        writer.append(*make.batch(third))
        writer.publish()
        stored = collection.points(EVERYTHING, ("chunk", "chunk_id"))
        texts = {json.loads(hit.payload["chunk"])["text"] for hit in stored if "chunk" in hit.payload}
        assert texts == {"alpha two", "alpha three", "alpha four"}
        now = 22.0
        writer.append(*make.batch([make.document("f", "alpha five")]))
        writer.publish()
        assert collection.count(EVERYTHING) == 6
    assert _found(collection) == {("d", "alpha three"), ("e", "alpha four"), ("f", "alpha five")}


def test_rebuild_replaces_what_was_lost_and_says_so(make, root, collection) -> None:
    documents = make.many(5)
    with _writer(root, collection) as writer:
        writer.append(*make.batch(documents))
        writer.publish()
        assert writer.rebuild().is_proven
        collection.delete((Clause("any", "kind", ("chunk",)),))
        assert _found(collection) == set()
        assert writer.rebuild().is_proven
    assert _found(collection) == _texts(documents)


def test_a_collection_that_was_dropped_is_filled_again(make, root, collection) -> None:
    documents = make.many(3)
    with _writer(root, collection) as writer:
        writer.append(*make.batch(documents))
        writer.publish()
    collection.create(make.dimension)
    with _writer(root, collection) as writer:
        assert writer.publish().document_count == 3
    assert _found(collection) == _texts(documents)


def test_a_collection_that_covers_more_than_the_journal_is_refused(make, root, collection) -> None:
    with _writer(root, collection) as writer:
        writer.append(*make.batch(make.many(3)))
        writer.publish()
    with pytest.raises(Corrupted, match="restore the journal"):
        _writer(root / "elsewhere", collection)
    stray = CollectionState(
        corpus="other", number=1, journal_offset=0, document_count=0, chunk_count=0, id_set_hash="0" * 64,
        model_fingerprint=None, dimension=None, published_at=make.now,
    )  # fmt: skip
    collection.upsert([stray.point()])
    with pytest.raises(Corrupted, match="filled for corpus other"):
        _writer(root, collection)
    collection.upsert([make_point(STATE_ID, {"kind": "state", "state": "{}"})])
    with pytest.raises(Corrupted, match="rebuild it"):
        _found(collection)


def test_a_long_journal_is_taken_in_by_parts_that_each_count(make, root, collection, monkeypatch) -> None:
    monkeypatch.setattr("sluice.index.qdrant.writer.MOST_RECORDS", 4)
    documents = make.many(11)
    with IndexWriter(root, "c") as local:
        local.append(*make.batch(documents))
    with pytest.raises(Unavailable):
        _writer(root, _Failing(collection, 14))
    part = _found(collection)
    assert part
    assert part < _texts(documents)
    with _writer(root, collection) as writer:
        assert writer.published_offset == 11
        assert writer.rebuild().is_proven
    assert _found(collection) == _texts(documents)


def test_one_writer_at_a_time(make, root, collection) -> None:
    with _writer(root, collection), pytest.raises(Unavailable, match="another writer"):
        _writer(root, collection)


@pytest.mark.parametrize("seed", range(12))
def test_random_stories_agree_with_a_dictionary(make, root, collection, seed) -> None:
    """Upserts, removals, publishes that fail at a random call, restarts and rebuilds, compared after each publish."""
    random = Random(seed)
    expected: dict[str, set[tuple[str, str]]] = {}
    published: set[tuple[str, str]] = set()
    failing = _Failing(collection, 0)
    writer = _writer(root, failing)
    for step in range(14):
        match random.choice(["upsert", "upsert", "remove", "publish", "publish", "fail", "reopen", "rebuild"]):
            case "upsert":
                names = random.sample(range(8), k=random.randint(1, 4))
                texts = [
                    [f"alpha {seed} {step} {name} {part}" for part in range(random.randint(0, 3))] for name in names
                ]
                age = timedelta(seconds=-step)
                batch = [make.document(f"d{name}", *those, age=age) for name, those in zip(names, texts, strict=True)]
                writer.append(*make.batch(batch))
                expected |= {document.document_id: _texts([document]) for document in batch}
            case "remove":
                gone = [f"d{name}" for name in random.sample(range(8), k=2)]
                writer.remove(gone)
                expected = {name: those for name, those in expected.items() if name not in gone}
            case "fail":
                failing.fail_at(random.randint(1, 12))
                try:
                    writer.publish()
                except Unavailable:
                    assert _found(collection) in (published, set().union(*expected.values()))
                failing.fail_at(0)
                published = _found(collection)
            case "reopen":
                writer.close()
                writer = _writer(root, failing)
                published = set().union(*expected.values())
            case story:
                done = writer.publish() if story == "publish" else writer.rebuild().generation
                published = set().union(*expected.values())
                assert (done.document_count, done.chunk_count) == (len(expected), len(published))
        assert _found(collection) == published, (seed, step)
    assert writer.rebuild().is_proven
    writer.close()
    assert _found(collection) == set().union(*expected.values())


def test_a_journal_that_was_compacted_meanwhile_fills_the_collection_anew(make, root, collection) -> None:
    """The local engine has had the corpus for a while: of a removal the compacted journal tells nothing any more."""
    first = make.many(6)
    with _writer(root, collection) as writer:
        writer.append(*make.batch(first))
        writer.publish()
    with IndexWriter(root, "c", WritePolicy(journal_segment_bytes=1_000, keep_generations=1)) as local:
        local.remove(["doc-0", "doc-1"])
        for turn in range(12):
            changed = make.document("doc-2", f"alpha turn{turn} " + "filler " * 200, age=timedelta(seconds=-turn - 1))
            local.append(*make.batch([changed]))
            local.publish()
        final = _texts([*first[3:], changed])
    kept = [piece for piece in list_files(root / "c/journal") if piece.is_compacted]
    assert kept, "the journal was not compacted, so this test proved nothing"
    assert kept[0].last_offset > 6
    with _writer(root, collection) as writer:
        assert writer.publish().document_count == 4
        assert writer.rebuild().is_proven
    assert _found(collection) == final
