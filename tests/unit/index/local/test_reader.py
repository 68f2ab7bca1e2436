"""The reader: right results, always from one whole generation."""

from __future__ import annotations

import os
import resource
import shutil
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from sluice.contracts.errors import Conflict, Corrupted, InvalidInput, NotFound, Unavailable
from sluice.contracts.retrieval import Filters, Query, Retrieval, RetrievedChunk, Strategy
from sluice.index.generations.publish import list_generations, rollback
from sluice.index.generations.view import View
from sluice.index.local.reader import IndexReader
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.search.fusion import RankedCandidates, Search, retrieve_candidates
from sluice.index.settings import QuerySettings
from sluice.trust.source_trust import SourceTrust

SETTINGS = WritePolicy()
QUERIES = QuerySettings(duplicate_threshold=0)


@pytest.fixture
def writer(tmp_path: Path):
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        yield writer


@pytest.fixture
def reader(tmp_path: Path):
    reader = IndexReader(tmp_path, "c", QUERIES)
    yield reader
    reader.close()


def _flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def _ids(chunks: Sequence[RetrievedChunk]) -> list[str]:
    return [chunk.document_id for chunk in chunks]


def test_an_empty_corpus_gives_no_chunks_and_no_generation(reader) -> None:
    found = reader.search(Query(query="anything"), np.ones(3, dtype=np.float32))
    assert (found.generation, found.journal_offset, found.chunks) == (None, 0, ())
    assert (reader.find_hits("anything", None, 5), reader.languages) == ((), ())


def test_every_strategy_tells_the_scores_and_ranks_of_its_arms(make, writer, reader) -> None:
    writer.append(
        *make.batch([make.document(f"d{i}", f"ferrets sleep {i}", url=f"https://x.org/{i}") for i in range(20)])
    )
    writer.publish()
    vector = make.vector("ferrets sleep 7")
    for strategy in Strategy:
        found = reader.search(Query(query="sleep 7", strategy=strategy, top_k=5), vector)
        assert [chunk.rank for chunk in found.chunks] == [1, 2, 3, 4, 5]
        best = found.chunks[0]
        assert best.document_id == "d7"
        assert best.dense_rank == (None if strategy is Strategy.BM25 else 1)
        assert best.lexical_rank == (None if strategy is Strategy.VECTOR else 1)
        assert best.dense_distance == pytest.approx(0, abs=1e-5)
        scores = [chunk.fused_score for chunk in found.chunks]
        assert scores == sorted(scores, reverse=True)
        assert found.metadata.total_candidates == 20


def test_dense_search_is_exact_over_all_segments_without_the_dead(make, writer, reader) -> None:
    documents = {}
    for start in range(0, 60, 12):
        for document in make.many(20, start=start):
            documents[document.document_id] = document
        writer.append(*make.batch(list(documents.values())[start : start + 20]))
        writer.publish()
    writer.remove(["doc-5", "doc-30"])
    writer.publish()
    chunks = [
        chunk for name, document in documents.items() if name not in ("doc-5", "doc-30") for chunk in document.chunks
    ]
    vector = make.vector("a question")
    expected = sorted(chunks, key=lambda chunk: -float(make.vector(chunk.text) @ vector))[:25]
    found = reader.search(Query(query="q", strategy=Strategy.VECTOR, top_k=25), vector)
    assert [chunk.chunk_id for chunk in found.chunks] == [chunk.chunk_id for chunk in expected]


def _comparable(found: Retrieval) -> dict[str, object]:
    return found.model_dump(exclude={"metadata": {"duration_ms"}})


def _count_retrievals(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    retrieved: list[str] = []

    def retrieve(view: View, search: Search, depth: int, settings: QuerySettings) -> RankedCandidates:
        retrieved.append(search.text)
        return retrieve_candidates(view, search, depth, settings)

    monkeypatch.setattr("sluice.index.local.reader.retrieve_candidates", retrieve)
    return retrieved


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top_k": 3, "neighbours": 1, "diversity": 0.5},
        {"top_k": 60},
        {"strategy": Strategy.VECTOR},
        {"filters": Filters(url_prefix="https://x.org/1")},
        {"trust_threshold": 0.2},
    ],
)
def test_a_search_after_an_equal_one_finds_what_it_finds_alone(make, writer, reader, tmp_path, options) -> None:
    writer.append(
        *make.batch([make.document(f"d{i}", f"ferrets sleep {i}", url=f"https://x.org/{i}") for i in range(70)])
    )
    writer.publish()
    query, vector = Query(query="sleep 7", **options), make.vector("ferrets sleep 7")
    alone = IndexReader(tmp_path, "c", QUERIES)
    expected = [_comparable(alone.search(query, vector)) for _ in range(2)]
    alone.close()
    reader.find_hits(query.query, vector, 10)
    assert [_comparable(reader.search(query, vector)) for _ in range(2)] == expected


def test_a_search_retrieves_nothing_that_an_equal_one_has_retrieved(make, writer, reader, monkeypatch) -> None:
    writer.append(*make.batch(make.many(20)))
    writer.publish()
    retrieved, vector = _count_retrievals(monkeypatch), make.vector("a question")
    reader.find_hits("a question", vector, 10)
    reader.search(Query(query="a question"), vector)
    assert retrieved == ["a question"]
    reader.search(Query(query="a question"), vector)  # what was found is given once
    assert retrieved == ["a question"] * 2


def test_what_was_found_in_another_generation_or_by_another_vector_is_retrieved_anew(
    make, writer, reader, monkeypatch
) -> None:
    writer.append(*make.batch(make.many(20)))
    writer.publish()
    retrieved, vector = _count_retrievals(monkeypatch), make.vector("a question")
    reader.find_hits("a question", vector, 10)
    reader.search(Query(query="a question"), make.vector("another"))
    assert retrieved == ["a question"] * 2
    writer.append(*make.batch([make.document("new", "a question")]))
    writer.publish()
    found = reader.search(Query(query="a question"), vector)
    assert retrieved == ["a question"] * 3
    assert "new" in _ids(found.chunks)


def test_equal_scores_are_ordered_by_chunk_id(make, writer, reader) -> None:
    writer.append(*make.batch([make.document(f"d{i}", "the same words") for i in range(9)]))
    writer.publish()
    found = reader.search(Query(query="same words"), make.vector("the same words"))
    ids = [chunk.chunk_id for chunk in found.chunks]
    assert ids == sorted(ids)


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(document_ids=("d1", "d5", "none")), {"d1", "d5"}),
        (Filters(url_prefix="https://docs.example.org/a"), {"d0", "d4", "d8"}),
        (Filters(path_prefix="src/"), {"d1", "d5", "d9"}),
        (Filters(domains=("example.org",)), {"d0", "d2", "d4", "d6", "d8"}),
        (Filters(languages=("python",)), {"d0", "d3", "d6", "d9"}),
        (Filters(sources=("crawl",)), {"d0", "d4", "d8"}),
        (Filters(metadata={"odd": True, "number": 3}), {"d3"}),
        (Filters(metadata={"odd": 1}), set()),
        (Filters(languages=("python",), domains=("example.org",)), {"d0", "d6"}),
    ],
)
def test_filters_are_exact_under_every_strategy(make, writer, reader, strategy, filters, expected) -> None:
    urls = ["https://docs.example.org/a", None, "https://example.org/b", "https://badexample.org/"]
    documents = [
        make.document(
            f"d{i}",
            f"ferrets sleep {i}",
            url=urls[i % 4],
            path="src/x.py" if i % 4 == 1 else None,
            language="Python" if i % 3 == 0 else "en",
            source="crawl" if i % 4 == 0 else "file",
            metadata={"odd": i % 2 == 1, "number": i},
        )
        for i in range(10)
    ]
    writer.append(*make.batch(documents))
    writer.publish()
    query = Query(query="ferrets sleep", strategy=strategy, filters=filters, top_k=50)
    assert set(_ids(reader.search(query, make.vector("x")).chunks)) == expected


def test_a_filter_finds_the_few_that_pass_among_many_better_matches(make, writer, reader) -> None:
    many = [make.document(f"m{i}", "ferrets ferrets ferrets") for i in range(3_000)]
    wide = [make.document(f"w{i}", f"ferrets ferrets {i}", age=timedelta(days=3)) for i in range(2_100)]
    few = [
        make.document(f"f{i}", "one of the long texts that barely speak of ferrets", source="crawl") for i in range(3)
    ]
    writer.append(*make.batch([*many, *wide, *few]))
    writer.publish()
    query = Query(query="ferrets", strategy=Strategy.BM25, filters=Filters(sources=("crawl",)), top_k=200)
    assert set(_ids(reader.search(query).chunks)) == {"f0", "f1", "f2"}
    after = Query(
        query="ferrets", strategy=Strategy.BM25, filters=Filters(fetched_after=make.now - timedelta(days=1)), top_k=200
    )
    assert len(reader.search(after).chunks) == 200


def test_the_token_budget_drops_what_does_not_fit_and_keeps_the_order(make, writer, reader) -> None:
    writer.append(
        *make.batch([make.document("long", "ferrets " * 30), make.document("short", "ferrets sleep well here")])
    )
    writer.publish()
    found = reader.search(Query(query="ferrets", strategy=Strategy.BM25, max_tokens=10))
    assert _ids(found.chunks) == ["short"]
    assert found.metadata.budget_dropped == 1


def test_the_trust_threshold_looks_deeper_until_enough_are_trusted(tmp_path, make, writer) -> None:
    strange = [
        make.document(f"s{i}", "ferrets ferrets", source="crawl", url=f"https://evil.example/{i}") for i in range(300)
    ]
    own = [make.document("own", "a longer text that speaks of ferrets too")]
    writer.append(*make.batch([*strange, *own]))
    writer.publish()
    reader = IndexReader(tmp_path, "c", QUERIES, trust=SourceTrust(("good.example",)), clock=lambda: make.now)
    found = reader.search(Query(query="ferrets", strategy=Strategy.BM25, trust_threshold=0.7))
    assert _ids(found.chunks) == ["own"]
    assert found.metadata.trust_dropped == 300


def test_a_reranker_has_the_last_word_on_the_order(tmp_path, make, writer) -> None:
    class Reversed:
        depth = 10

        def rerank(self, query: str, chunks: Sequence[RetrievedChunk]) -> Sequence[RetrievedChunk]:
            return list(reversed(chunks))

    writer.append(*make.batch(make.many(10)))
    writer.publish()
    query = Query(query="alpha common", top_k=3)
    vector = make.vector("q")
    plain = IndexReader(tmp_path, "c", QUERIES).search(query.model_copy(update={"top_k": 10}), vector)
    found = IndexReader(tmp_path, "c", QUERIES, reranker=Reversed()).search(query, vector)
    assert _ids(found.chunks) == _ids(plain.chunks)[::-1][:3]
    assert [chunk.rank for chunk in found.chunks] == [1, 2, 3]


def test_a_vector_is_needed_and_must_have_the_dimension_of_the_corpus(make, writer, reader) -> None:
    writer.append(*make.batch(make.many(1)))
    writer.publish()
    with pytest.raises(InvalidInput, match="query_vector"):
        reader.search(Query(query="alpha"))
    with pytest.raises(Conflict):
        reader.search(Query(query="alpha"), np.ones(3, dtype=np.float32))


@pytest.mark.parametrize(
    "text", ['a:b AND (c OR "d', "^~*?[]{}\\/+-", "\x00\ud800".replace("\ud800", "�"), "the of and", "東京"]
)
def test_no_question_is_a_syntax_error(make, writer, reader, text: str) -> None:
    writer.append(*make.batch(make.many(3)))
    writer.publish()
    assert reader.search(Query(query=text), make.vector(text)).chunks


def test_a_question_of_eight_thousand_characters_is_answered(make, writer, reader) -> None:
    writer.append(*make.batch([make.document("a", "ferrets sleep"), *make.many(30)]))
    writer.publish()
    text = ("lorem%d " * 700 % tuple(range(700)))[:7_980] + " ferrets"
    assert _ids(reader.search(Query(query=text, strategy=Strategy.BM25)).chunks) == ["a"]


def test_a_query_waits_for_the_generation_that_covers_its_offset(tmp_path, make, writer, reader) -> None:
    offset = writer.append(*make.batch([make.document("a", "ferrets")]))
    timer = threading.Timer(0.1, writer.publish)
    timer.start()
    query = Query(query="ferrets", strategy=Strategy.BM25, minimum_journal_offset=offset)
    assert reader.search(query).journal_offset >= offset
    timer.join()
    impatient = IndexReader(tmp_path, "c", QuerySettings(), reload_timeout_seconds=0.05)
    with pytest.raises(Unavailable):
        impatient.search(query.model_copy(update={"minimum_journal_offset": offset + 1}))


def test_a_damaged_generation_is_not_served_and_the_alarm_is_raised_once(tmp_path, make, writer) -> None:
    alarms: list[str] = []
    writer.append(*make.batch([make.document("a", "ferrets")]))
    first = writer.publish()
    reader = IndexReader(tmp_path, "c", QUERIES, on_fallback=alarms.append)
    query = Query(query="ferrets otters", strategy=Strategy.BM25)
    assert reader.search(query).generation == first.name
    writer.append(*make.batch([make.document("b", "otters")]))
    second = writer.publish()
    newest = max((tmp_path / "c/generations" / second.name / "segments").glob("*.segment"))
    _flip_a_bit(newest)
    for _ in range(3):
        assert reader.search(query).generation == first.name
    assert len(alarms) == 1
    assert second.name in alarms[0]
    assert reader.fallback_reason is not None
    fresh = IndexReader(tmp_path, "c", QUERIES, on_fallback=alarms.append)
    assert fresh.search(query).generation == first.name
    _flip_a_bit(newest)
    assert reader.reload() == second.name
    assert reader.fallback_reason is None


@pytest.mark.parametrize("victim", ["manifest.json", "terms/meta.json", "segments/*.segment", "terms/*.idx"])
def test_any_damaged_file_is_noticed_and_a_writer_starts_from_what_is_whole(tmp_path, make, victim: str) -> None:
    alarms: list[str] = []
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(*make.batch(make.many(5)))
        generation = writer.publish()
    _flip_a_bit(next((tmp_path / "c/generations" / generation.name).glob(victim)))
    query = Query(query="alpha", strategy=Strategy.BM25)
    with pytest.raises(Corrupted):
        IndexReader(tmp_path, "c", QUERIES).search(query)
    with IndexWriter(tmp_path, "c", SETTINGS, on_fallback=alarms.append) as writer:
        assert len(alarms) == 1
        writer.append(*make.batch([make.document("new", "alpha again")]))
        writer.publish()
    assert len(IndexReader(tmp_path, "c", QUERIES).search(query).chunks) == 6


def test_a_rollback_moves_the_pointer_until_there_are_new_records(tmp_path, make, writer, reader) -> None:
    writer.append(*make.batch([make.document("a", "ferrets")]))
    first = writer.publish()
    writer.append(*make.batch([make.document("b", "otters")]))
    second = writer.publish()
    assert reader.generation == second.name
    rollback(tmp_path, "c", first.name)
    assert reader.generation == first.name
    assert writer.publish() == first
    assert [(info.name, info.is_current) for info in list_generations(tmp_path, "c")] == [
        (second.name, False),
        (first.name, True),
    ]
    writer.append(*make.batch([make.document("c", "martens")]))
    assert writer.publish().document_count == 3


@pytest.mark.parametrize("replace", [lambda folder: None, lambda folder: folder.write_bytes(b"")])
def test_a_generation_that_is_lost_after_a_rollback_is_stood_in_for_by_an_older_one(
    tmp_path, make, writer, replace
) -> None:
    published = []
    for name in ("a", "b", "c"):
        writer.append(*make.batch([make.document(name, "ferrets")]))
        published.append(writer.publish())
    first, second, third = published
    rollback(tmp_path, "c", second.name)
    folder = tmp_path / "c/generations" / second.name
    shutil.rmtree(folder)
    replace(folder)
    reader = IndexReader(tmp_path, "c", QUERIES)
    assert reader.generation == first.name, "and not the later one, which was rolled back"
    with pytest.raises(NotFound):
        rollback(tmp_path, "c", second.name)
    rollback(tmp_path, "c", third.name)
    assert reader.reload() == third.name


def test_a_pinned_generation_is_never_collected(tmp_path, make) -> None:
    with IndexWriter(tmp_path, "c", WritePolicy(keep_generations=1)) as writer:
        writer.append(*make.batch([make.document("d0", "ferrets")]))
        first = writer.publish()
        reader = IndexReader(tmp_path, "c", QUERIES)
        assert reader.generation == first.name
        for number in range(1, 5):
            writer.append(*make.batch([make.document(f"d{number}", "ferrets")]))
            writer.publish()
    names = [info.name for info in list_generations(tmp_path, "c")]
    assert first.name in names
    assert len(names) <= 3
    reader.close()
    with IndexWriter(tmp_path, "c", WritePolicy(keep_generations=1)) as writer:
        writer.append(*make.batch([make.document("last", "ferrets")]))
        writer.publish()
    assert first.name not in [info.name for info in list_generations(tmp_path, "c")]


def test_fifty_reloads_under_load_fail_no_query_and_mix_no_generations(memory_path, make) -> None:
    """Every generation holds one version of all documents, so two versions in one answer would be a mix."""

    def version(number: int):
        return make.batch([make.document(f"d{i}", f"ferrets version{number}") for i in range(12)])

    failures: list[BaseException] = []
    seen: set[str] = set()
    done = threading.Event()
    with IndexWriter(memory_path, "c", WritePolicy(keep_generations=1)) as writer:
        writer.append(*version(0))
        writer.publish()
        reader = IndexReader(memory_path, "c", QUERIES)

        def ask() -> None:
            vector = make.vector("q")
            while not done.is_set():
                try:
                    found = reader.search(Query(query="ferrets", top_k=12), vector)
                    texts = {chunk.text for chunk in found.chunks}
                    assert len(found.chunks) == 12, found
                    assert len(texts) == 1, texts
                    seen.add(str(found.generation))
                except BaseException as error:
                    failures.append(error)
                    return

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(1, 51):
            writer.append(*version(number))
            writer.publish()
            reader.reload()
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert len(seen) > 5


def test_hits_have_both_scores_and_terms_their_frequency(make, writer, reader) -> None:
    writer.append(
        *make.batch([*make.many(10), make.document("a", "ferrets sleeping", url="https://x.org/", title="Mustelids")])
    )
    writer.publish()
    frequency = reader.document_frequency(["ferret", "sleeps", "alpha", "absent", "mustelid"])
    assert frequency == {"ferret": 1, "sleeps": 1, "alpha": 10, "absent": 0, "mustelid": 1}
    hits = reader.find_hits("ferrets", make.vector("ferrets sleeping"), 5)
    assert hits[0].document_id == "a"
    assert hits[0].similarity == pytest.approx(1, abs=1e-5)
    assert hits[0].lexical_score is not None
    assert all(hit.similarity is not None for hit in hits)
    assert set(reader.documents(["a", "none"])) == {"a"}


def test_a_machine_that_is_short_of_descriptors_is_no_damage(tmp_path, make, writer) -> None:
    alarms: list[str] = []
    writer.append(*make.batch([make.document("a", "ferrets")]))
    first = writer.publish()
    reader = IndexReader(tmp_path, "c", QUERIES, on_fallback=alarms.append)
    assert reader.generation == first.name
    writer.append(*make.batch([make.document("b", "otters")]))
    second = writer.publish()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, limits[1]))
    held = _take_all_descriptors()
    try:
        assert reader.generation == first.name
        assert "Too many open files" in str(reader.fallback_reason)
        with pytest.raises(Unavailable):
            IndexReader(tmp_path, "c", QUERIES).reload()
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (reader.generation, reader.fallback_reason, alarms) == (second.name, None, [])


def _take_all_descriptors() -> list[int]:
    held = []
    while True:
        try:
            held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            return held
