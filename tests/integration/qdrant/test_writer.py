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

from sluice.contracts.errors import Conflict, Corrupted, InvalidInput, NotFound, Unavailable
from sluice.contracts.retrieval import Query, Strategy
from sluice.index.journal.files import list_files
from sluice.index.journal.records import Upsert
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.qdrant.payload import STATE_ID, CollectionState, make_points
from sluice.index.qdrant.reader import QdrantReader
from sluice.index.qdrant.server import Clause, make_point
from sluice.index.qdrant.server import ServerCollection as Collection
from sluice.index.qdrant.writer import QdrantWriter, list_builds, roll_back
from sluice.index.settings import QuerySettings
from tests.support.loopback_qdrant import KINDS, collection_of

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")

EVERYTHING = (Clause("any", "kind", ("chunk", "document")),)


@pytest.fixture(params=KINDS)
def collection(request: pytest.FixtureRequest) -> Iterator[Collection]:
    with collection_of(request.param) as collection:
        yield collection


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


def _serving(collection: Collection) -> str:
    """The name of the collection that the alias names."""
    (state,) = [payload for payload in [collection.payload(STATE_ID)] if payload]
    return CollectionState.model_validate_json(state["state"]).collection


def _texts(documents: Sequence[Any]) -> set[tuple[str, str]]:
    return {(document.document_id, chunk.text) for document in documents for chunk in document.chunks}


class _Failing:
    """A collection that fails at its `fails_at`-th writing call, as an engine does that goes away; so do all others of
    its server, of which `whole` counts the calls."""

    def __init__(self, inner: Collection, fails_at: int, whole: _Failing | None = None) -> None:
        self._inner, self._whole = inner, whole or self
        self.fail_at(fails_at)
        self.writes = 0

    def fail_at(self, call: int) -> None:
        """Fail at that writing call from now; 0: never."""
        self.left = call

    def at(self, name: str) -> _Failing:
        return _Failing(self._inner.at(name), 0, self._whole)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in ("create", "upsert", "mark", "unmark", "delete", "drop", "serve"):
            return method

        def counted(*arguments: Any) -> Any:
            self._whole.writes += 1
            self._whole.left -= 1
            if self._whole.left == 0:
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
    collection.at(_serving(collection)).create(make.dimension)
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
    with _writer(root, collection) as writer:
        writer.append(*make.batch(make.many(1)))
        writer.publish()
    documents = make.many(12)
    with IndexWriter(root, "c") as local:
        local.append(*make.batch(documents[1:]))
    with pytest.raises(Unavailable):
        _writer(root, _Failing(collection, 8))
    part = _found(collection)
    assert _texts(documents[:1]) < part < _texts(documents)
    with _writer(root, collection) as writer:
        assert writer.published_offset == 12
        assert writer.rebuild().is_proven
    assert _found(collection) == _texts(documents)


def test_a_fill_that_fails_at_any_call_goes_on_where_it_ended_and_is_seen_only_when_it_is_whole(
    make, root, collection, monkeypatch
) -> None:
    """Every writing call of a rebuild is made to fail in turn, as if the process were killed there."""
    monkeypatch.setattr("sluice.index.qdrant.writer.MOST_RECORDS", 4)
    documents = make.many(11)
    with _writer(root, collection) as writer:
        writer.append(*make.batch(documents))
        writer.publish()
        serving = _serving(collection)
    whole = _Failing(collection, 0)
    with _writer(root, whole) as writer:
        assert writer.rebuild().is_proven
    sent = whole.writes
    for turn in range(1, sent + 1):
        before = _serving(collection)
        with _writer(root, _Failing(collection, turn)) as writer, pytest.raises(Unavailable, match="engine is gone"):
            writer.rebuild()
        assert _found(collection) == _texts(documents)
        rest = _Failing(collection, 0)
        with _writer(root, rest) as writer:
            assert writer.rebuild().is_proven
        assert _serving(collection) > before > serving
        assert _found(collection) == _texts(documents)
        assert len(collection.builds()) == 2, "the one that serves, and the one before it"
        if 7 <= turn < sent - 1:  # the first part is not sent again
            assert rest.writes < sent, turn


def test_a_fill_that_lost_points_is_not_searched(make, root, collection) -> None:
    documents = make.many(5)

    class Losing(_Failing):
        def at(self, name: str) -> Losing:
            return Losing(self._inner.at(name), 0, self._whole)

        def upsert(self, points: Sequence[Any]) -> None:
            self._inner.upsert([one for one in points if "doc-3" not in str(one.payload)])

    with _writer(root, collection) as writer:
        writer.append(*make.batch(documents))
        writer.publish()
    before = _serving(collection)
    with _writer(root, Losing(collection, 0)) as writer, pytest.raises(Unavailable, match="holds 8 chunks of 4"):
        writer.rebuild()
    assert (_serving(collection), collection.builds()) == (before, [before])
    assert _found(collection) == _texts(documents)


def test_the_collection_before_a_rebuild_can_be_rolled_back_to_and_goes_after_a_day(make, root, collection) -> None:
    now = 0.0
    documents = make.many(5)
    with _writer(root, collection, monotonic=lambda: now) as writer:
        writer.append(*make.batch(documents))
        first = writer.publish()
        writer.rebuild()
        writer.append(*make.batch([make.document("new", "alpha new")]))
        writer.publish()
        names = [(one.name, one.is_current, one.problem) for one in list_builds(collection, "c")]
        assert [name[1:] for name in names] == [(True, ""), (False, "")]
        assert names[1][0] == first.name
        with pytest.raises(NotFound):
            roll_back(collection, "c", "q00000099-0000000000000000")
        assert roll_back(collection, "c", first.name) == first
        assert _found(collection) == _texts(documents)
        writer.append(*make.batch([make.document("newer", "alpha newer")]))
        writer.publish()
        assert _found(collection) == _texts(documents) | {("new", "alpha new"), ("newer", "alpha newer")}
        assert len(collection.builds()) == 2
        now = 90_000.0
        writer.append(*make.batch([make.document("newest", "alpha newest")]))
        writer.publish()
        assert collection.builds() == [_serving(collection)]
    with _writer(root, collection) as writer:
        writer.rebuild()
        writer.erase()
        assert collection.builds() == [_serving(collection)], "erased documents are in no other collection"


def test_a_search_goes_on_in_the_collection_that_it_began_in(make, root, collection) -> None:
    with _writer(root, collection) as writer:
        writer.append(*make.batch([make.document("d", "ferrets old")]))
        writer.publish()
        view = QdrantReader(collection, "c", QuerySettings()).current_view()
        assert view is not None
        writer.rebuild()
        writer.append(*make.batch([make.document("d", "ferrets new", age=timedelta(seconds=-1))]))
        writer.publish()
        ranked, source = view.find("ferrets", None, Strategy.BM25, None, 5)
        assert [source.read(one.number)[1].text for one in ranked] == ["ferrets old"]


def test_a_collection_that_an_older_sluice_made_is_searched_until_an_alias_replaces_it(make, root, collection) -> None:
    """It had the name of the alias itself, and points with fewer fields."""
    documents = make.many(3)
    with IndexWriter(root, "c") as local:
        local.append(*make.batch(documents))
    collection.create(make.dimension)
    for offset, document in enumerate(documents, start=1):
        collection.upsert(
            list(make_points(1, offset, Upsert.of(document, make.vectors([document]), "m"), (120.0, 40.0)))
        )
    old = CollectionState(
        corpus="c", number=1, journal_offset=3, document_count=3, chunk_count=6, id_set_hash="0" * 64,
        model_fingerprint="m", dimension=make.dimension, published_at=make.now,
    )  # fmt: skip
    collection.upsert([old.point()])
    assert _found(collection) == _texts(documents)
    with _writer(root, collection) as writer:
        assert writer.publish().document_count == 3
    assert _serving(collection) == f"{collection.name}~00000001"
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
