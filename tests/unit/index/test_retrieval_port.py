"""RetrievalPort version 1: one suite for every engine. What holds here holds wherever a corpus is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluice.contracts.errors import Conflict, InvalidInput, Unavailable
from sluice.contracts.retrieval import Filters, Query, RetrievalPort, RetrievedChunk, Strategy
from sluice.contracts.trust import Inspection, Verdict
from sluice.index.local.reader import IndexReader
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.qdrant.reader import QdrantReader
from sluice.index.qdrant.server import ServerCollection as Collection
from sluice.index.qdrant.writer import QdrantWriter
from sluice.index.search.fusion import break_ties
from sluice.index.settings import QuerySettings
from sluice.trust.source_trust import SourceTrust

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")

CORPUS = "c"
SETTINGS = WritePolicy()
QUERIES = QuerySettings()
RELOAD_TIMEOUT_SECONDS = 0.2
NOW = datetime(2026, 2, 1, tzinfo=UTC)
"""The readers' clock stands still: trust depends on it, and results are compared."""


@dataclass
class Engine:
    """A corpus with its one writer, and the port that searches it."""

    name: str
    writer: Any
    port: RetrievalPort
    reader: Any

    def publish(self, make: Any, documents: Sequence[Any]) -> int:
        offset = self.writer.append(*make.batch(documents))
        self.writer.publish()
        return offset

    def ask(self, text: str, strategy: Strategy, vector: Any = None, **wanted: Any) -> tuple[RetrievedChunk, ...]:
        query = Query(query=text, corpus=CORPUS, strategy=strategy, **wanted)
        return self.port.retrieve(query, vector).chunks


def _local(root: Path) -> Iterator[Engine]:
    reader = IndexReader(
        root, CORPUS, QUERIES, trust=SourceTrust(), clock=lambda: NOW, reload_timeout_seconds=RELOAD_TIMEOUT_SECONDS
    )
    with IndexWriter(root, CORPUS, SETTINGS) as writer:
        yield Engine("local", writer, reader, reader)
    reader.close()


def _over(root: Path, collection: Collection) -> Iterator[Engine]:
    reader = QdrantReader(
        collection,
        CORPUS,
        QUERIES,
        trust=SourceTrust(),
        clock=lambda: NOW,
        reload_timeout_seconds=RELOAD_TIMEOUT_SECONDS,
    )
    with QdrantWriter(root, CORPUS, collection) as writer:
        yield Engine("qdrant", writer, reader, reader)


def _qdrant(root: Path, kind: str) -> Iterator[Engine]:
    from tests.support.loopback_qdrant import collection_of  # the client library takes long to import

    with collection_of(kind) as collection:
        yield from _over(root, collection)


ENGINES: dict[str, Callable[[Path], Iterator[Engine]]] = {
    "local": _local,
    "memory": partial(_qdrant, kind="memory"),
    "edge": partial(_qdrant, kind="edge"),
    "server": partial(_qdrant, kind="server"),
}


@pytest.fixture(
    params=["local", *(pytest.param(name, marks=pytest.mark.slow) for name in ("memory", "edge", "server"))]
)
def engine(request: pytest.FixtureRequest, memory_path: Path) -> Iterator[Engine]:
    yield from ENGINES[request.param](memory_path)


@pytest.fixture(params=list(Strategy))
def strategy(request: pytest.FixtureRequest) -> Strategy:
    return request.param


def _documents(chunks: Sequence[RetrievedChunk]) -> list[str]:
    return [chunk.document_id for chunk in chunks]


def test_the_port_says_its_version(engine) -> None:
    assert engine.port.version == 1


def test_an_empty_corpus_gives_no_chunks_and_no_generation(make, engine, strategy) -> None:
    found = engine.port.retrieve(Query(query="anything", corpus=CORPUS, strategy=strategy), make.vector("x"))
    assert (found.generation, found.journal_offset, found.chunks) == (None, 0, ())
    assert found.metadata.duration_ms > 0
    stats = engine.port.stats()
    assert (stats.engine, stats.corpus) == (engine.name, CORPUS)
    assert (stats.generation, stats.document_count, stats.chunk_count, stats.model_fingerprint) == (None, 0, 0, None)
    assert engine.port.batch_retrieve([]) == ()


def test_a_query_weighs_words_against_meaning_itself(make, engine) -> None:
    engine.publish(make, [make.document("words", "ferrets ferrets"), make.document("meaning", "otters swim")])
    near = make.vector("otters swim")
    by_weight = {
        weight: _documents(engine.ask("ferrets", Strategy.HYBRID, near, lexical_weight=weight)) for weight in (0, 10)
    }
    assert by_weight == {0: ["meaning", "words"], 10: ["words", "meaning"]}
    configured = _documents(engine.ask("ferrets", Strategy.HYBRID, near))
    assert configured == by_weight[0], "what another query set is not kept"


def test_a_query_says_how_many_candidates_each_retriever_finds(make, engine) -> None:
    engine.publish(make, [make.document(f"d{number}", f"ferrets {number}") for number in range(9)])
    query = Query(query="ferrets", corpus=CORPUS, strategy=Strategy.BM25, top_k=2, candidates=4)
    found = engine.port.retrieve(query)
    assert (len(found.chunks), found.metadata.total_candidates) == (2, 4)


def test_the_vectors_of_a_document_come_in_the_order_of_its_chunks(make, engine) -> None:
    assert engine.reader.vectors("d1") is None
    engine.publish(make, [make.document("d1", "ferrets sleep", "ferrets run"), make.document("d2", "otters")])
    found = engine.reader.vectors("d1")
    wanted = [make.vector(text) for text in ("ferrets sleep", "ferrets run")]
    assert found == pytest.approx(np.array(wanted), abs=1e-6)
    assert engine.reader.vectors("never") is None


def test_results_are_ranked_from_one_and_tell_every_score(make, engine, strategy) -> None:
    engine.publish(
        make, [make.document(f"d{i}", f"ferrets sleep number{i}", url=f"https://x.org/{i}") for i in range(20)]
    )
    vector = make.vector("ferrets sleep number7")
    query = Query(query="sleep number7", corpus=CORPUS, strategy=strategy, top_k=5)
    found = engine.port.retrieve(query, vector)
    assert [chunk.rank for chunk in found.chunks] == [1, 2, 3, 4, 5]
    best = found.chunks[0]
    assert (best.document_id, best.text) == ("d7", "ferrets sleep number7")
    assert best.dense_rank == (None if strategy is Strategy.BM25 else 1)
    assert best.lexical_rank == (None if strategy is Strategy.VECTOR else 1)
    assert best.dense_distance == pytest.approx(0, abs=1e-5)
    for chunk in found.chunks:
        cosine = float(make.vector(chunk.text) @ vector)
        assert chunk.dense_distance == pytest.approx(1 - cosine, abs=1e-5)
        assert chunk.lexical_rank is None or chunk.lexical_score is not None
        assert chunk.lexical_score is None or chunk.lexical_score > 0
        assert 0 <= chunk.trust <= 1
    fused = [chunk.fused_score for chunk in found.chunks]
    assert fused == sorted(fused, reverse=True)
    assert found.metadata.strategy is strategy
    assert found.metadata.total_candidates == 20
    assert found.metadata.duration_ms > 0


def test_a_result_is_the_chunk_and_the_facts_that_were_given(make, engine, strategy) -> None:
    document = make.document(
        "d", "ferrets sleep", url="https://x.org/a", path="a/b.md", title="Ferrets", language="en",
        source="crawl", author="Ann", metadata={"odd": True, "size": 3, "share": 0.5, "kind": "note"},
    )  # fmt: skip
    engine.publish(make, [document])
    (found,) = engine.ask("ferrets", strategy, make.vector("ferrets sleep"))
    chunk = document.chunks[0]
    for name in ("chunk_id", "document_id", "text", "start_line", "end_line", "token_estimate", "checksum", "language"):
        assert getattr(found, name) == getattr(chunk, name)
    for name in ("url", "file_path", "title", "metadata", "provenance"):
        assert getattr(found, name) == getattr(document, name)


def test_dense_search_finds_the_nearest_in_their_order(make, engine) -> None:
    documents = make.many(100)
    engine.publish(make, documents)
    chunks = [chunk for document in documents for chunk in document.chunks]
    vector = make.vector("a question")
    expected = {}
    for chunk in chunks:
        expected.setdefault(chunk.text, []).append(chunk.chunk_id)
    nearest = sorted(expected, key=lambda text: -float(make.vector(text) @ vector))[:20]
    found = engine.ask("q", Strategy.VECTOR, vector, top_k=20)
    assert [chunk.text for chunk in found] == nearest


def test_bm25_prefers_the_rarer_word_and_the_shorter_text(make, engine) -> None:
    documents = [make.document(f"d{i}", "the common word and some others beside it") for i in range(8)]
    documents += [make.document("rare", "the common badger"), make.document("long", "badger " + "filler text " * 30)]
    engine.publish(make, documents)
    found = engine.ask("common badger", Strategy.BM25, top_k=10)
    assert _documents(found)[:2] == ["rare", "long"]


def test_every_field_of_a_chunk_is_searched(make, engine) -> None:
    engine.publish(
        make,
        [
            make.document("title", "plain words here", title="Quokka"),
            make.document("code", "def parseHttpRequest(raw): return raw"),
            make.document("other", "nothing of the kind"),
        ],
    )
    assert _documents(engine.ask("quokkas", Strategy.BM25)) == ["title"]
    assert _documents(engine.ask("parse_http_request", Strategy.BM25)) == ["code"]
    assert engine.ask("the of and", Strategy.BM25, filters=Filters(document_ids=("code",))) == ()
    assert engine.ask("?!", Strategy.BM25) == ()


@pytest.mark.parametrize("top_k", [1, 3, 200])
def test_top_k_is_the_most_that_comes(make, engine, strategy, top_k) -> None:
    engine.publish(make, [make.document(f"d{i}", f"alpha number{i}") for i in range(70)])
    assert len(engine.ask("alpha", strategy, make.vector("x"), top_k=top_k)) == min(top_k, 70)


URLS = ["https://docs.example.org/a", None, "https://example.org/b", "https://badexample.org/"]


FILTERS = [
    (Filters(document_ids=("d1", "d5", "none")), {1, 5}),
    (Filters(url_prefix="https://docs.example.org/a"), {0, 4, 8}),
    (Filters(path_prefix="src/"), {1, 5, 9}),
    (Filters(domains=("example.org",)), {0, 2, 4, 6, 8}),
    (Filters(domains=("Docs.Example.org.", "badexample.org")), {0, 3, 4, 7, 8}),
    (Filters(languages=("PYTHON",)), {0, 3, 6, 9}),
    (Filters(sources=("crawl",)), {0, 4, 8}),
    (Filters(sources=("crawl", "file")), set(range(10))),
    (Filters(metadata={"odd": True, "number": 3}), {3}),
    (Filters(metadata={"number": 3.0}), {3}),
    (Filters(metadata={"odd": 1}), set()),
    (Filters(metadata={"number": "3"}), set()),
    (Filters(metadata={"half": 2.5}), {5}),
    (Filters(metadata={"name": "näme=s:4"}), {4}),
    (Filters(metadata={"absent": False}), set()),
    (Filters(languages=("python",), domains=("example.org",)), {0, 6}),
    (Filters(document_ids=("none",)), set()),
]


def test_filters_are_exact(make, engine, strategy) -> None:
    documents = [
        make.document(
            f"d{i}",
            f"ferrets sleep number{i}",
            url=URLS[i % 4],
            path="src/x.py" if i % 4 == 1 else None,
            language="Python" if i % 3 == 0 else "en",
            source="crawl" if i % 4 == 0 else "file",
            metadata={"odd": i % 2 == 1, "number": i, "half": i / 2, "name": f"näme=s:{i}"},
        )
        for i in range(10)
    ]
    engine.publish(make, documents)
    for filters, expected in FILTERS:
        found = engine.ask("ferrets sleep", strategy, make.vector("x"), filters=filters, top_k=50)
        assert set(_documents(found)) == {f"d{i}" for i in expected}, filters


CONDITIONS = [
    ("id in ('d1', 'd5', 'none')", {1, 5}),
    ("id != 'd1'", set(range(10)) - {1}),
    ("language = 'PYTHON' or source = 'crawl'", {0, 3, 4, 6, 8, 9}),
    ("not (language = 'python' or source = 'crawl')", {1, 2, 5, 7}),
    ("domain = 'example.org' and not url prefix 'https://docs.'", {2, 6}),
    ("not domain = 'example.org'", {1, 3, 5, 7, 9}),
    ("path = 'src/x.py' and metadata.number != 5", {1, 9}),
    ("metadata.number in (2, 3.0, '4')", {2, 3}),
    ("fetched_at >= 2000-01-01 and fetched_at < 2200-01-01", set(range(10))),
    ("fetched_at > 2200-01-01", set()),
    ("metadata.number >= 3 and metadata.half < 3", {3, 4, 5}),
    ("metadata.number > 'a' or metadata.odd exists and not metadata.number exists", set()),
    ("url exists", {0, 2, 3, 4, 6, 7, 8}),
    ("title contains 'FERR'", set(range(10))),
    ("trust >= 0.9", {1, 2, 3, 5, 6, 7, 9}),
    ("trust < 0.9 and language = 'en'", {4, 8}),
    ("language exists and language prefix 'py'", {0, 3, 6, 9}),
    ("id prefix 'd' and not id contains '1'", set(range(10)) - {1}),
]


def test_conditions_of_the_filter_language_are_exact(make, engine, strategy) -> None:
    documents = [
        make.document(
            f"d{i}",
            f"ferrets sleep number{i}",
            url=URLS[i % 4],
            path="src/x.py" if i % 4 == 1 else None,
            title="Of ferrets",
            language="Python" if i % 3 == 0 else "en",
            source="crawl" if i % 4 == 0 else "file",
            metadata={"odd": i % 2 == 1, "number": i, "half": i / 2},
        )
        for i in range(10)
    ]
    engine.publish(make, documents)
    for where, expected in CONDITIONS:
        found = engine.ask("ferrets sleep", strategy, make.vector("x"), where=where, top_k=50)
        assert set(_documents(found)) == {f"d{i}" for i in expected}, where


def test_a_rare_chunk_is_found_by_a_condition_that_only_its_document_tells(make, engine, strategy) -> None:
    """More chunks are looked at than the candidates that were asked for."""
    documents = [make.document(f"d{i}", f"ferrets sleep {i}", metadata={"number": i}) for i in range(300)]
    engine.publish(make, documents)
    vector = make.vector("ferrets sleep 1")
    found = engine.ask("ferrets sleep", strategy, vector, where="metadata.number >= 297", candidates=5, top_k=5)
    assert set(_documents(found)) == {"d297", "d298", "d299"}


def test_fetched_after_is_exact_to_the_microsecond(make, engine, strategy) -> None:
    tick = timedelta(microseconds=1)
    engine.publish(make, [make.document(f"d{i}", f"ferrets {i}", age=i * tick) for i in range(4)])
    after = Filters(fetched_after=make.now - 2 * tick)
    assert set(_documents(engine.ask("ferrets", strategy, make.vector("x"), filters=after))) == {"d0", "d1"}


def test_a_filter_finds_the_few_that_pass_among_many_better_matches(make, engine, strategy) -> None:
    many = [make.document(f"m{i}", f"ferrets ferrets ferrets {i}") for i in range(300)]
    few = [make.document(f"f{i}", f"a long text {i} that barely speaks of ferrets", source="crawl") for i in range(3)]
    engine.publish(make, [*many, *few])
    found = engine.ask("ferrets", strategy, make.vector("x"), filters=Filters(sources=("crawl",)), top_k=100)
    assert set(_documents(found)) == {"f0", "f1", "f2"}


def test_distrusted_chunks_are_dropped_and_others_take_their_places(make, engine, strategy) -> None:
    old = [make.document(f"old{i}", f"ferrets ferrets {i}", source="crawl", age=timedelta(days=900)) for i in range(60)]
    new = [make.document(f"new{i}", f"long words about one of the ferrets {i}", source="file") for i in range(5)]
    engine.publish(make, [*old, *new])
    query = Query(query="ferrets", corpus=CORPUS, strategy=strategy, top_k=5, trust_threshold=0.6)
    found = engine.port.retrieve(query, make.vector("x"))
    assert {chunk.document_id for chunk in found.chunks} == {f"new{i}" for i in range(5)}
    assert all(chunk.trust >= 0.6 for chunk in found.chunks)
    assert [chunk.rank for chunk in found.chunks] == [1, 2, 3, 4, 5]
    assert found.metadata.trust_dropped > 0


def test_max_tokens_is_never_exceeded_and_shorter_chunks_may_follow(make, engine, strategy) -> None:
    engine.publish(make, [make.document(f"d{i}", "ferrets " + f"w{i} " * (i * 4)) for i in range(1, 9)])
    query = Query(query="ferrets", corpus=CORPUS, strategy=strategy, top_k=8, max_tokens=30)
    found = engine.port.retrieve(query, make.vector("x"))
    assert 0 < sum(chunk.token_estimate for chunk in found.chunks) <= 30
    assert [chunk.rank for chunk in found.chunks] == list(range(1, len(found.chunks) + 1))
    assert found.metadata.budget_dropped == 8 - len(found.chunks)


def test_a_covered_offset_is_served_and_a_later_one_is_unavailable(make, engine, strategy) -> None:
    offset = engine.publish(make, [make.document("d", "ferrets")])
    query = Query(query="ferrets", corpus=CORPUS, strategy=strategy, minimum_journal_offset=offset)
    found = engine.port.retrieve(query, make.vector("x"))
    assert found.journal_offset >= offset
    assert found.generation == engine.port.stats().generation
    later = query.model_copy(update={"minimum_journal_offset": offset + 1})
    with pytest.raises(Unavailable, match="not yet"):
        engine.port.retrieve(later, make.vector("x"))
    with pytest.raises(Unavailable, match="not yet"):
        engine.port.batch_retrieve([query, later], np.array([make.vector("x")] * 2))


def test_a_query_waits_for_the_offset_that_it_asks_for(make, engine) -> None:
    offset = engine.publish(make, [make.document("d", "ferrets")])
    timer = threading.Timer(0.05, lambda: engine.publish(make, [make.document("e", "badgers")]))
    timer.start()
    query = Query(query="badgers", corpus=CORPUS, strategy=Strategy.BM25, minimum_journal_offset=offset + 1)
    assert _documents(engine.port.retrieve(query).chunks) == ["e"]
    timer.join()


def test_a_vector_of_another_dimension_is_a_conflict(make, engine) -> None:
    engine.publish(make, [make.document("d", "ferrets")])
    for strategy in (Strategy.VECTOR, Strategy.HYBRID):
        query = Query(query="ferrets", corpus=CORPUS, strategy=strategy)
        with pytest.raises(Conflict, match="dimensions"):
            engine.port.retrieve(query, np.ones(3, dtype=np.float32))
        with pytest.raises(Conflict, match="dimensions"):
            engine.port.batch_retrieve([query], np.ones((1, 3), dtype=np.float32))


def test_a_missing_vector_and_a_foreign_corpus_are_named(make, engine) -> None:
    engine.publish(make, [make.document("d", "ferrets")])
    for strategy in (Strategy.VECTOR, Strategy.HYBRID):
        query = Query(query="ferrets", corpus=CORPUS, strategy=strategy)
        with pytest.raises(InvalidInput, match="query_vector"):
            engine.port.retrieve(query)
        with pytest.raises(InvalidInput, match="query_vector"):
            engine.port.batch_retrieve([query])
    with pytest.raises(InvalidInput, match="corpus"):
        engine.port.retrieve(Query(query="ferrets", corpus="other", strategy=Strategy.BM25))
    with pytest.raises(Conflict, match="one row for each"):
        engine.port.batch_retrieve([query], np.ones((2, make.dimension), dtype=np.float32))


def test_bm25_needs_no_vector(make, engine) -> None:
    engine.publish(make, [make.document("d", "ferrets")])
    (found,) = engine.ask("ferrets", Strategy.BM25)
    assert (found.dense_distance, found.dense_rank, found.lexical_rank) == (None, None, 1)


def test_the_fused_score_is_the_sum_of_both_scores_of_every_candidate(make, engine) -> None:
    engine.publish(make, [make.document(f"d{i}", f"ferrets of the house number{i}", "an otter") for i in range(70)])
    question = "which of the ferrets is number7"
    found = engine.ask(question, Strategy.HYBRID, make.vector("an otter"), top_k=100)
    assert {chunk.lexical_rank is None for chunk in found} == {True, False}
    for chunk in found:
        cosine, score = 1 - (chunk.dense_distance or 0.0), chunk.lexical_score or 0.0
        assert chunk.fused_score == pytest.approx(cosine * abs(cosine) + QUERIES.lexical_weight * score, abs=1e-5)
        assert (score > 0) == ("ferrets" in chunk.text)


def test_function_words_find_nothing_but_tell_apart_what_was_found(make, engine) -> None:
    with_words = "ferrets and stoats in the box"
    engine.publish(
        make,
        [
            make.document("a", "ferrets stoats box burrow woods meadow"),
            make.document("b", with_words),
            make.document("c", "in the and"),
            *make.many(20),
        ],
    )
    for question in (with_words, "box stoats ferrets"):
        assert set(_documents(engine.ask(question, Strategy.BM25))) == {"a", "b"}
    found = engine.ask(with_words, Strategy.HYBRID, make.vector("x"), top_k=100)  # what repeats the question comes last
    score_of = {one.document_id: one.lexical_score for one in found}
    assert score_of["b"] > score_of["a"]


def test_what_a_question_repeats_weighs_more(make, engine) -> None:
    engine.publish(make, [make.document("a", "ferrets stoats"), make.document("b", "ferrets otters"), *make.many(20)])
    question = "ferrets: otters or stoats? stoats, or more of stoats"
    assert _documents(engine.ask(question, Strategy.BM25)) == ["a", "b"]
    scores = [one.lexical_score or 0 for one in engine.ask("stoats", Strategy.BM25)]
    thrice = [one.lexical_score or 0 for one in engine.ask("stoats stoats stoats", Strategy.BM25)]
    assert thrice == pytest.approx([score * 3**0.5 for score in scores])


def test_a_pasted_page_is_searched_by_its_rare_words_wherever_they_stand(make, engine) -> None:
    page = " ".join(f"common{i} usualName{i}" for i in range(90))
    engine.publish(
        make, [make.document("error", "ZxqErrorCode kumquat"), *[make.document(f"d{i}", page) for i in "ab"]]
    )
    for question in (f"{page} kumquat", f"{page} zxq_error_code"):
        assert "error" in _documents(engine.ask(question, Strategy.BM25, top_k=100))


def test_a_batch_gives_what_each_query_gives_alone(make, engine, strategy) -> None:
    engine.publish(make, make.many(40))
    texts = ["alpha", "beta item7", "number3 shared", "nothing-of-it"]
    queries = [Query(query=text, corpus=CORPUS, strategy=strategy, top_k=3 + i) for i, text in enumerate(texts)]
    vectors = np.array([make.vector(text) for text in texts])
    together = engine.port.batch_retrieve(queries, vectors)
    alone = [engine.port.retrieve(query, vector) for query, vector in zip(queries, vectors, strict=True)]
    assert [found.chunks for found in together] == [found.chunks for found in alone]
    assert len({found.generation for found in together}) == 1


def test_a_batch_is_of_one_generation_although_others_are_published_meanwhile(make, engine, monkeypatch) -> None:
    engine.publish(make, [make.document("d0", "ferrets")])
    queries = [Query(query="ferrets", corpus=CORPUS, strategy=Strategy.BM25, top_k=50)] * 6
    count = 0

    def publishing(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        _plant(monkeypatch, break_ties)
        engine.publish(make, [make.document(f"later{count}", f"ferrets {count}")])
        engine.writer.remove(["d0"])
        engine.writer.publish()
        _plant(monkeypatch, publishing)
        return break_ties(*arguments)

    _plant(monkeypatch, publishing)
    found = engine.port.batch_retrieve(queries)
    monkeypatch.undo()
    assert count >= 2, "nothing was published while the batch ran, so this test proved nothing"
    assert {one.generation for one in found} == {found[0].generation}
    assert [_documents(one.chunks) for one in found] == [["d0"]] * 6
    assert "d0" not in _documents(engine.ask("ferrets", Strategy.BM25, top_k=50))


def _plant(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """Let the search itself be interrupted: both engines order their hits by this function."""
    monkeypatch.setattr("sluice.index.search.fusion.break_ties", function)
    monkeypatch.setattr("sluice.index.qdrant.reader.break_ties", function)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Größe und Straße", "große straße"),
        ("naïve café au lait", "naive cafe"),
        ("東京の天気", "東京の天気"),
        ("emoji 🦡 badger", "badger 🦡"),
        ("zero\u200bwidth and \x00 nul", "width nul"),
        ("مرحبا بالعالم", "مرحبا"),
    ],
)
def test_any_language_is_found_and_given_back_unchanged(make, engine, strategy, text, asked) -> None:
    engine.publish(make, [make.document("d", text, title=text), make.document("e", "something else")])
    best = engine.ask(asked, strategy, make.vector(text))[0]
    assert (best.document_id, best.text, best.title) == ("d", text, text)


@pytest.mark.parametrize(
    ("language", "text", "asked"),
    [
        ("de", "Die Häuser am Hafen wurden saniert", "Warum ist das Haus so alt?"),
        ("de-AT", "Für jede Buchung gilt eine Frist", "Welche Fristen hat man?"),
        ("fr", "Les baux sont renouvelés chaque année", "Comment renouveler un contrat ?"),
        ("es", "Las reservas fueron canceladas ayer", "¿Cuándo se cancela algo?"),
        ("ru", "Сообщения стоят в очередях", "Как устроена очередь?"),
        ("nb", "Husene ved havnen er solgt", "Hvem eier dette huset?"),
        ("tr", "Evlerin fiyatları arttı", "Bir ev ne kadar?"),
        ("zh", "分布式系统中的消息队列负责传递消息", "消息队列是什么"),
        ("ja", "東京の天気は明日も晴れでしょう", "明日の天気"),
    ],
)
def test_a_question_finds_other_forms_of_its_words_in_their_language(make, engine, language, text, asked) -> None:
    english = make.document("e", "ferrets sleep in houses", language="en")
    engine.publish(make, [make.document("d", text, language=language), english])
    assert _documents(engine.ask(asked, Strategy.BM25)) == ["d"]
    assert _documents(engine.ask("sleeping ferret", Strategy.BM25)) == ["e"]


def test_a_page_that_was_taken_for_another_language_is_not_the_best_for_every_question(make, engine) -> None:
    pages = [make.document(f"d{i}", f"how the ferret number{i} is fed and sleeps in the house") for i in range(20)]
    stray = make.document("stray", "how the badger is fed and sleeps in the den of the house", language="da")
    engine.publish(make, [*pages, stray, make.document("wanted", "ferrets with a fever are fed by hand")])
    assert _documents(engine.ask("how is the ferret with a fever fed", Strategy.BM25))[0] == "wanted"
    if engine.name == "local":  # Qdrant is asked in the question's language alone
        assert _documents(engine.ask("how does the badger sleep", Strategy.BM25))[0] == "stray"


def test_the_same_letters_are_another_word_in_another_language(make, engine) -> None:
    engine.publish(make, [make.document("de", "Gift wirkt", language="de"), make.document("en", "Gift wrap")])
    assert engine.reader.document_frequency(["gift", "wrap", "wirkt"]) == {"gift": 2, "wrap": 1, "wirkt": 1}
    assert _documents(engine.ask("wrapping", Strategy.BM25)) == ["en"]
    engine.publish(make, [make.document("de", "Gaben", language="de")])
    assert engine.reader.document_frequency(["gift"])["gift"] in (1, 2), "what was replaced may count for a while"


def test_equal_scores_are_ordered_by_chunk_id(make, engine, strategy) -> None:
    engine.publish(make, [make.document(f"d{i}", "the same words") for i in range(9)])
    found = engine.ask("same words", strategy, make.vector("the same words"), duplicate_threshold=0.0)
    ids = [chunk.chunk_id for chunk in found]
    assert len(ids) == 8
    assert ids == sorted(ids)
    again = engine.ask("same words", strategy, make.vector("the same words"), duplicate_threshold=0.0)
    assert [chunk.chunk_id for chunk in again] == ids


def test_a_replaced_document_is_found_in_its_new_version_only(make, engine, strategy) -> None:
    engine.publish(make, [make.document("d", "ferrets old", "kept passage"), make.document("e", "badgers")])
    newer = make.document("d", "ferrets new", "kept passage", age=timedelta(seconds=-5))
    engine.publish(make, [newer])
    found = engine.ask("ferrets kept passage", strategy, make.vector("x"), top_k=50)
    assert {chunk.text for chunk in found if chunk.document_id == "d"} == {"ferrets new", "kept passage"}
    assert len([chunk for chunk in found if chunk.text == "kept passage"]) == 1
    stats = engine.port.stats()
    assert (stats.document_count, stats.chunk_count) == (2, 3)


def test_a_removed_document_is_gone_and_may_come_back(make, engine, strategy) -> None:
    documents = [make.document("d", "ferrets"), make.document("e", "ferrets too")]
    engine.publish(make, documents)
    engine.writer.remove(["d", "unknown"])
    engine.writer.publish()
    assert set(_documents(engine.ask("ferrets", strategy, make.vector("x")))) == {"e"}
    assert (engine.reader.has_document("d"), engine.reader.has_document("e")) == (False, True)
    assert engine.port.stats().document_count == 1
    engine.publish(make, documents)
    assert set(_documents(engine.ask("ferrets", strategy, make.vector("x")))) == {"d", "e"}


def test_neighbours_and_diversity_work_on_every_engine(make, engine, strategy) -> None:
    texts = [f"part{i} of the story" for i in range(5)]
    engine.publish(make, [make.document("d", *texts), make.document("e", "part2 elsewhere")])
    chunks = engine.ask(
        "part2", strategy, make.vector(texts[2]), top_k=1, neighbours=1, filters=Filters(document_ids=("d",))
    )
    assert all(text in chunks[0].text for text in texts[1:4])
    diverse = engine.ask("part2 story", strategy, make.vector(texts[2]), top_k=6, diversity=0.5)
    assert len(diverse) == len({chunk.chunk_id for chunk in diverse}) >= 2


def test_hits_and_facts_are_there_on_every_engine(make, engine) -> None:
    engine.publish(
        make, [make.document(f"d{i}", f"ferrets common{i % 2} word", url=f"https://x.org/{i}") for i in range(6)]
    )
    hits = engine.reader.find_hits("ferrets common0", make.vector("ferrets"), 3)
    assert len(hits) == 3
    assert all(hit.similarity is not None for hit in hits)
    frequency = engine.reader.document_frequency(["ferrets", "common0", "absent", "!"])
    assert frequency == {"ferrets": 6, "common0": 3, "absent": 0, "!": 0}
    assert "en" in engine.reader.languages
    assert engine.reader.documents(["d1", "none"])["d1"].url == "https://x.org/1"
    assert engine.reader.document("none") is None
    assert engine.reader.model_fingerprint == make.model
    assert engine.port.stats().model_fingerprint == make.model


def test_what_is_blocked_is_no_hit(make, engine) -> None:
    blocked = make.document("blocked", "ferrets command you")
    marked = blocked.chunks[0].model_copy(update={"inspection": Inspection(verdict=Verdict.BLOCKED)})
    engine.publish(make, [make.document("page", "ferrets"), blocked.model_copy(update={"chunks": (marked,)})])
    assert [hit.document_id for hit in engine.reader.find_hits("ferrets", make.vector("x"), 5)] == ["page"]


def test_a_document_without_chunks_is_known_and_harmless(make, engine) -> None:
    engine.publish(make, [make.document("empty")])
    assert engine.reader.has_document("empty")
    engine.publish(make, [make.document("d", "ferrets")])
    assert _documents(engine.ask("ferrets", Strategy.HYBRID, make.vector("ferrets"))) == ["d"]
    stats = engine.port.stats()
    assert (stats.document_count, stats.chunk_count) == (2, 1)
    assert engine.reader.has_document("empty")


def test_many_threads_search_at_once(make, engine) -> None:
    engine.publish(make, make.many(20))
    query = Query(query="alpha number3", corpus=CORPUS, top_k=5)
    expected = engine.port.retrieve(query, make.vector("x")).chunks
    wrong: list[object] = []

    def search() -> None:
        for _ in range(5):
            found = engine.port.retrieve(query, make.vector("x")).chunks
            if found != expected:
                wrong.append(found)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
