"""A corpus gets the vectors of another model while it is searched and written to, and is whole whatever happens."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from sluice.contracts.document import ChunkBatch
from sluice.contracts.errors import Conflict, InvalidInput, NotFound, SluiceError, TimedOut, Unavailable
from sluice.contracts.retrieval import Query, Strategy
from sluice.disk.durable import swap
from sluice.index.folder import CorpusLayout, is_handover_requested, list_corpora, take_over
from sluice.index.generations.publish import list_generation_names, read_current_name, verify
from sluice.index.journal.files import read_pinned_model
from sluice.index.local.reader import IndexReader
from sluice.index.local.reindex import Plan, reindex
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from tests.integration.index.killed_reindex import NEW, OLD, contents, embed_with, model_of
from tests.support.index_corpus import DIMENSION, Maker
from tests.support.repository import REPOSITORY

SETTINGS = WritePolicy(background_merge_chunks=0)
PLAN = Plan(SETTINGS, patience_seconds=5)
CURRENT_MODEL = (NEW, DIMENSION)


class Embedding:
    """The new model; counts the texts, and lets a test do something in between."""

    def __init__(self, between: Callable[[int], None] = lambda calls: None) -> None:
        self.texts: list[str] = []
        self.calls = 0
        self._between = between

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.calls += 1
        self._between(self.calls)
        self.texts += texts
        return embed_with(NEW, texts)


def written(root: Path, make: Maker, count: int = 5) -> None:
    """A corpus `c` of the old model, published, with a removal and a replacement in its past."""
    with IndexWriter(root, "c", SETTINGS) as writer:
        append(writer, make.many(count + 1))
        writer.remove([f"doc-{count}"])
        append(writer, [make.document("doc-0", "gamma replaced", url="https://a.example/x", title="A title")])
        writer.publish()


def append(writer: IndexWriter, documents: Sequence) -> int:
    """Append with the old model's vectors."""
    texts = [text for document in documents for text in document.embedding_texts()]
    return writer.append(ChunkBatch(documents=tuple(documents)), embed_with(OLD, texts), OLD)


def test_documents_ids_texts_and_facts_stay_and_the_vectors_are_the_new_models(tmp_path: Path, make: Maker) -> None:
    written(tmp_path, make)
    before, embedding = contents(tmp_path), Embedding()
    last_before = IndexReader(tmp_path, "c", QuerySettings()).journal_offset
    done = reindex(tmp_path, "c", CURRENT_MODEL, embedding, PLAN)
    assert contents(tmp_path) == before
    assert done.is_changed
    assert (done.model_before, done.model, done.embedded) == (OLD, NEW, 9)
    assert "alpha common number5" not in embedding.texts  # removed
    reader = IndexReader(tmp_path, "c", QuerySettings())
    assert reader.model_fingerprint == NEW
    assert reader.journal_offset > last_before
    for text in ("alpha common number1", "A title\ngamma replaced"):
        found = reader.search(Query(query=text, strategy=Strategy.VECTOR, top_k=1), embed_with(NEW, [text])[0])
        assert found.chunks[0].dense_distance == pytest.approx(0, abs=1e-3)
    reader.close()
    assert not CorpusLayout(tmp_path, "c").beside.exists()
    assert list_corpora(tmp_path) == ("c",)
    assert done.generation is not None
    verify(tmp_path, "c", done.generation.name)
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        assert writer.rebuild().is_proven


def test_it_is_done_again_and_again_with_offsets_and_generations_that_never_go_back(
    tmp_path: Path, make: Maker
) -> None:
    written(tmp_path, make)
    before, seen = contents(tmp_path), []
    for fingerprint in (NEW, OLD, NEW):
        done = reindex(
            tmp_path, "c", (fingerprint, DIMENSION), lambda texts, by=fingerprint: embed_with(by, texts), PLAN
        )
        assert done.generation is not None
        seen.append((done.generation.journal_offset, done.generation.name))
        assert contents(tmp_path) == before
    assert seen == sorted(seen)


def test_a_corpus_that_has_the_model_stays_as_it_is(tmp_path: Path, make: Maker) -> None:
    written(tmp_path, make)
    name, embedding = read_current_name(CorpusLayout(tmp_path, "c")), Embedding()
    done = reindex(tmp_path, "c", (OLD, DIMENSION), embedding, PLAN)
    assert not done.is_changed
    assert done.generation is None
    assert not embedding.texts
    assert read_current_name(CorpusLayout(tmp_path, "c")) == name


def test_a_corpus_without_documents_is_bound_to_the_new_model_too(tmp_path: Path, make: Maker) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        append(writer, make.many(2))
        offset = writer.remove(["doc-0", "doc-1"])
        writer.publish()
    done = reindex(tmp_path, "c", CURRENT_MODEL, Embedding(), PLAN)
    assert done.generation is not None
    assert done.generation.journal_offset > offset
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        assert writer.model == CURRENT_MODEL
        with pytest.raises(Conflict):
            append(writer, make.many(1))


def test_a_corpus_that_never_was_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        reindex(tmp_path, "c", CURRENT_MODEL, Embedding(), PLAN)
    assert list_corpora(tmp_path) == ()


def test_what_is_appended_replaced_and_removed_meanwhile_is_so_afterwards(tmp_path: Path, make: Maker) -> None:
    written(tmp_path, make, 150)
    layout, writer = CorpusLayout(tmp_path, "c"), IndexWriter(tmp_path, "c", SETTINGS)
    expected: list[object] = []

    def meddle(calls: int) -> None:
        if calls <= 3:
            append(writer, [make.document(f"late-{calls}", "late words", f"of call {calls}")])
            append(writer, [make.document("doc-1", f"replaced by call {calls}")])
            writer.remove([f"doc-{calls + 10}"])
            writer.publish()

    def let_go_when_asked() -> None:
        while not is_handover_requested(layout):
            time.sleep(0.001)
        append(writer, [make.document("last", "the very last words")])
        writer.remove(["doc-20"])
        # Removed and recorded again with an older date: which version counts is the journal's to say.
        writer.remove(["doc-30"])
        append(writer, [make.document("doc-30", "older than before", age=timedelta(days=9))])
        writer.publish()
        expected.append(contents(tmp_path))
        writer.close()

    holder = threading.Thread(target=let_go_when_asked)
    holder.start()
    done = reindex(tmp_path, "c", CURRENT_MODEL, Embedding(meddle), PLAN)
    holder.join()
    assert done.is_changed
    assert contents(tmp_path) == expected[0]
    assert {"late-1", "late-3", "last", "doc-30"} <= contents(tmp_path).keys()
    assert not contents(tmp_path).keys() & {"doc-11", "doc-13", "doc-20"}


def test_a_removal_that_was_compacted_away_is_found_by_comparing(tmp_path: Path, make: Maker) -> None:
    settings = WritePolicy(journal_segment_bytes=1_000, keep_generations=1)
    written(tmp_path, make, 150)
    writer = IndexWriter(tmp_path, "c", settings)
    expected: list[object] = []

    def meddle(calls: int) -> None:
        if calls == 2:
            writer.remove([f"doc-{number}" for number in range(140)])
            for number in range(4):  # new segments, and generations that cover the old ones
                append(writer, [make.document(f"late-{number}", "late words " * 40)])
                writer.publish()
                writer.wait_for_collector()
            assert list(CorpusLayout(tmp_path, "c").journal.glob("*.kept"))
            expected.append(contents(tmp_path))
            writer.close()

    reindex(tmp_path, "c", CURRENT_MODEL, Embedding(meddle), PLAN)
    assert contents(tmp_path) == expected[0]
    assert len(contents(tmp_path)) == 14


def test_a_writer_that_does_not_let_go_keeps_the_corpus_and_the_next_call_embeds_nothing_again(
    tmp_path: Path, make: Maker
) -> None:
    written(tmp_path, make)
    with IndexWriter(tmp_path, "c", SETTINGS), pytest.raises(TimedOut, match="has not closed"):
        reindex(tmp_path, "c", CURRENT_MODEL, Embedding(), Plan(SETTINGS, patience_seconds=0.05))
    assert not CorpusLayout(tmp_path, "c").handover.exists()
    assert read_pinned_model(CorpusLayout(tmp_path, "c").journal) == (OLD, DIMENSION)
    before, again = contents(tmp_path), Embedding()
    assert reindex(tmp_path, "c", CURRENT_MODEL, again, PLAN).embedded == 0
    assert not again.texts
    assert contents(tmp_path) == before


def test_going_on_embeds_only_what_is_new_and_another_model_begins_anew(tmp_path: Path, make: Maker) -> None:
    written(tmp_path, make, 150)

    def stop(calls: int) -> None:
        if calls == 2:
            raise Unavailable("the endpoint is away")

    with pytest.raises(Unavailable, match="endpoint"):
        reindex(tmp_path, "c", CURRENT_MODEL, Embedding(stop), PLAN)
    other: list[str] = []

    def embed_other(texts: Sequence[str]) -> np.ndarray:
        other.extend(texts)
        if len(other) > 128:
            raise Unavailable("this one is away too")
        return embed_with("other@1", texts)

    with pytest.raises(Unavailable, match="too"):
        reindex(tmp_path, "c", ("other@1", DIMENSION), embed_other, PLAN)
    assert len(other) > 128
    with pytest.raises(Unavailable):
        reindex(tmp_path, "c", CURRENT_MODEL, Embedding(stop), PLAN)
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        append(writer, [make.document("doc-3", "words that came between")])
        writer.remove(["doc-4"])
        writer.publish()
    before, again = contents(tmp_path), Embedding()
    done = reindex(tmp_path, "c", CURRENT_MODEL, again, PLAN)
    assert contents(tmp_path) == before
    assert "words that came between" in again.texts
    assert done.embedded == len(again.texts) < 200


def test_the_old_corpus_is_kept_when_asked_and_is_no_corpus_of_its_own(tmp_path: Path, make: Maker) -> None:
    written(tmp_path, make)
    done = reindex(tmp_path, "c", CURRENT_MODEL, Embedding(), Plan(SETTINGS, keeps_old=True))
    assert done.kept is not None
    assert read_pinned_model(done.kept / "journal") == (OLD, DIMENSION)
    assert not (done.kept / "handover").exists()
    assert list_corpora(tmp_path) == ("c",)
    again = reindex(tmp_path, "c", (OLD, DIMENSION), lambda texts: embed_with(OLD, texts), Plan(SETTINGS))
    assert again.kept is None
    assert done.kept.is_dir()


def test_a_corpus_that_was_exchanged_and_not_yet_removed_is_never_taken_for_a_shadow(
    tmp_path: Path, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, make)
    before = contents(tmp_path)

    def killed(first: Path, second: Path) -> None:
        swap(first, second)
        raise KeyboardInterrupt

    for keeps_old in (False, True):
        monkeypatch.setattr("sluice.index.local.reindex.swap", killed)
        new, old = ((NEW, OLD), (OLD, NEW))[keeps_old]
        plan = Plan(SETTINGS, keeps_old=keeps_old)
        with pytest.raises(KeyboardInterrupt):
            reindex(tmp_path, "c", (new, DIMENSION), lambda texts, by=new: embed_with(by, texts), plan)
        monkeypatch.undo()
        assert contents(tmp_path) == before
        assert model_of(tmp_path) == new
        assert read_pinned_model(tmp_path / ".reindex-c" / "c" / "journal") == (old, DIMENSION)
    # Back to the model that lies there: it must be built, not fetched from among what is old.
    embedding = Embedding()
    assert reindex(tmp_path, "c", CURRENT_MODEL, embedding, PLAN).embedded == len(embedding.texts) == 9
    assert contents(tmp_path) == before
    assert len(list(tmp_path.glob(".kept-c-*"))) == 1


def test_only_one_process_builds_a_corpus_anew(tmp_path: Path, make: Maker) -> None:
    written(tmp_path, make)

    def second(calls: int) -> None:
        with pytest.raises(Conflict, match="another process"):
            reindex(tmp_path, "c", CURRENT_MODEL, Embedding(), PLAN)

    assert reindex(tmp_path, "c", CURRENT_MODEL, Embedding(second), PLAN).is_changed


def test_a_hand_over_is_asked_for_only_while_somebody_lives_who_asks(tmp_path: Path, make: Maker) -> None:
    written(tmp_path, make)
    layout = CorpusLayout(tmp_path, "c")
    assert not is_handover_requested(layout)
    layout.handover.touch()  # left behind by one who died
    assert not is_handover_requested(layout)
    with take_over(layout, 0):
        assert is_handover_requested(layout)
        with pytest.raises(Unavailable):
            IndexWriter(tmp_path, "c", SETTINGS)
    assert not layout.handover.exists()
    with layout.handover.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert is_handover_requested(layout)
    IndexWriter(tmp_path, "c", SETTINGS).close()


def test_a_file_system_that_cannot_exchange_is_told_before_anything_is_embedded(
    tmp_path: Path, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, make)

    class Libc:
        def __init__(self, *arguments: object, **options: object) -> None: ...

    monkeypatch.setattr("sluice.disk.durable.ctypes.CDLL", Libc)
    embedding = Embedding()
    with pytest.raises(InvalidInput, match="cannot swap two folders"):
        reindex(tmp_path, "c", CURRENT_MODEL, embedding, PLAN)
    assert not embedding.texts
    assert not CorpusLayout(tmp_path, "c").beside.exists()


def test_a_folder_that_is_missing_is_not_exchanged(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with pytest.raises(FileNotFoundError):
        swap(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "one").is_dir()


def test_a_reader_that_searches_all_the_time_fails_no_query_and_never_mixes_models(
    memory_path: Path, make: Maker
) -> None:
    written(memory_path, make, 40)
    fallbacks: list[str] = []
    reader = IndexReader(memory_path, "c", QuerySettings(duplicate_threshold=0), on_fallback=fallbacks.append)
    ending, failures, models = threading.Event(), [], []

    def search_on() -> None:
        while not ending.is_set():
            try:
                models.append(searched_once(reader))
            except (SluiceError, AssertionError, OSError) as error:
                failures.append(repr(error))

    searching = [threading.Thread(target=search_on) for _ in range(2)]
    for thread in searching:
        thread.start()
    for turn in range(6):
        fingerprint = (NEW, OLD)[turn % 2]
        reindex(memory_path, "c", (fingerprint, DIMENSION), lambda texts, by=fingerprint: embed_with(by, texts), PLAN)
        with IndexWriter(memory_path, "c", SETTINGS) as writer:  # what comes after the swap is followed too
            documents = [make.document(f"after-{turn}", f"after turn {turn}")]
            offset = writer.append(
                ChunkBatch(documents=tuple(documents)), embed_with(fingerprint, [f"after turn {turn}"]), fingerprint
            )
        query = Query(query=f"after turn {turn}", strategy=Strategy.BM25, minimum_journal_offset=offset)
        assert reader.search(query).chunks[0].document_id == f"after-{turn}"
    ending.set()
    for thread in searching:
        thread.join()
    reader.close()
    assert not failures, failures[:3]
    assert not fallbacks, fallbacks[:3]
    assert {OLD, NEW} <= set(models)


def searched_once(reader: IndexReader) -> str:
    """One question, with the vector of the model that is served before and after; returns that model."""
    text = "alpha common number7"
    while True:
        fingerprint = reader.model_fingerprint
        assert fingerprint is not None
        found = reader.search(Query(query=text, strategy=Strategy.VECTOR, top_k=1), embed_with(fingerprint, [text])[0])
        if reader.model_fingerprint == fingerprint:
            assert found.chunks[0].text == text
            assert found.chunks[0].dense_distance == pytest.approx(0, abs=1e-3)
            return fingerprint


def test_killed_at_random_points_the_corpus_is_whole_and_a_later_call_finishes(memory_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.integration.index.killed_reindex", str(memory_path), "21"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[-1] == "21"
    assert list_generation_names(CorpusLayout(memory_path, "c"))
