"""What becomes of candidates: each rule drops what it names, in the order that the module tells."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from sluice.contracts.document import Chunk, ChunkedDocument, DocumentFacts
from sluice.contracts.retrieval import Filters, Query, Retrieval, RetrievalMetadata, RetrievedChunk, Strategy
from sluice.contracts.trust import Inspection, Verdict
from sluice.index.journal.records import make_facts
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.search.candidates import Ranking, select_candidates
from sluice.index.search.fusion import Candidate
from sluice.index.search.reranker import NotReranked
from sluice.index.search.select import select_results
from sluice.index.settings import QuerySettings
from sluice.trust.source_trust import SourceTrust

WORDS = [f"{first}{last}" for first in "bcdfghjklmnprstvwz" for last in ("ale", "orin", "ust", "emma", "ipod", "antle")]

SETTINGS = QuerySettings()


def _text(seed: int, words: int = 80) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


class Library:
    """A shelf of documents in memory, numbered as they are put there; it counts what is read of it."""

    def __init__(self, make, documents) -> None:
        self.chunks: list[tuple[DocumentFacts, Chunk]] = [
            (make_facts(document), chunk) for document in documents for chunk in document.chunks
        ]
        self._make = make
        self.reads = 0

    def read(self, number: int) -> tuple[DocumentFacts, Chunk]:
        self.reads += 1
        return self.chunks[number]

    def vectors_of(self, numbers: Sequence[int]) -> np.ndarray:
        return np.array([self._make.vector(self.chunks[number][1].text) for number in numbers])

    def around(self, number: int, width: int) -> Sequence[Chunk]:
        near = range(max(0, number - width), min(len(self.chunks), number + width + 1))
        own = self.chunks[number][0].document_id
        return [self.chunks[one][1] for one in near if self.chunks[one][0].document_id == own]

    def candidates(self) -> list[Candidate]:
        return [Candidate(number, fused_score=1.0 / (1 + number)) for number in range(len(self.chunks))]


@pytest.fixture
def ask(make):
    def ask(documents, settings: QuerySettings = SETTINGS, reranker=None, trust=None, doubts=None, **query: object):
        library = Library(make, documents)
        question = Query.model_validate({"query": "q", **query})
        ranking = Ranking(settings, trust, reranker, lambda: doubts or {})
        candidates = select_candidates(library, question, library.candidates(), ranking, make.now)
        chunks, how = select_results(library, question, candidates, ranking)
        metadata = RetrievalMetadata(
            strategy=question.strategy, fusion="none", duration_ms=1.0, total_candidates=len(library.chunks), **how
        )
        return SimpleNamespace(chunks=chunks, **dict(metadata)), library

    return ask


def _documents(selection: SimpleNamespace) -> list[str]:
    return [chunk.document_id for chunk in selection.chunks]


def test_only_as_many_candidates_are_read_as_the_result_needs(ask, make) -> None:
    selection, library = ask([make.document(f"d{i}", _text(i)) for i in range(50)], top_k=10)
    assert _documents(selection) == [f"d{i}" for i in range(10)]
    assert [chunk.rank for chunk in selection.chunks] == list(range(1, 11))
    assert library.reads == 10


def test_a_result_is_a_valid_value_like_any_other(ask, make) -> None:
    """It is put together without validation, from what was validated when it was written."""
    document = make.document("d", "some text", url="https://x.org/a", metadata={"team": "x"}, language="en")
    (chunk,) = ask([document])[0].chunks
    assert RetrievedChunk.model_validate_json(chunk.model_dump_json()) == chunk
    assert RetrievedChunk.model_validate(chunk.model_dump()) == chunk
    assert chunk.model_copy(update={"rank": 2}).rank == 2
    assert chunk.rank == 1


def test_near_duplicates_stand_behind_the_best_of_them(ask, make) -> None:
    copies = [make.document(f"copy{i}", _text(1) + f" {i}", url=f"https://mirror{i}.org/") for i in range(3)]
    selection, _ = ask([make.document("d0", _text(0)), *copies, make.document("d2", _text(2))])
    assert _documents(selection) == ["d0", "copy0", "d2"]
    assert selection.chunks[1].duplicates == tuple(copy.chunks[0].chunk_id for copy in copies[1:])
    assert selection.duplicates_dropped == 2


def test_duplicates_are_kept_where_the_query_or_the_settings_ask_for_it(ask, make) -> None:
    documents = [make.document(f"d{i}", "the same") for i in range(4)]
    assert len(ask(documents)[0].chunks) == 1
    assert len(ask(documents, duplicate_threshold=0)[0].chunks) == 4
    assert len(ask(documents, QuerySettings(duplicate_threshold=0))[0].chunks) == 4
    assert len(ask(documents, QuerySettings(duplicate_threshold=0), duplicate_threshold=0.9)[0].chunks) == 1


def test_a_distrusted_copy_does_not_take_the_place_of_a_trusted_one(ask, make) -> None:
    documents = [
        make.document("bad", "same text", url="https://evil.example/", source="crawl"),
        make.document("good", "same text", url="https://good.example/", source="crawl", author="ada"),
    ]
    selection, _ = ask(documents, trust=SourceTrust(("good.example",)), trust_threshold=0.7)
    assert _documents(selection) == ["good"]
    assert (selection.trust_dropped, selection.duplicates_dropped) == (1, 0)


def test_of_two_copies_the_clearly_more_trusted_one_stays_in_the_place_of_the_better_match(ask, make) -> None:
    documents = [
        make.document("forged", _text(1) + " 6666", url="https://good.example/", source="submission"),
        make.document("other", _text(2), url="https://other.example/", source="crawl"),
        make.document("page", _text(1) + " 1234", url="https://good.example/", source="crawl"),
        make.document("mirror", _text(1), url="https://mirror.example/", source="crawl"),
    ]
    selection, _ = ask(documents, trust=SourceTrust())
    assert _documents(selection) == ["page", "other"]
    gone = [documents[0].chunks[0].chunk_id, documents[3].chunks[0].chunk_id]
    assert list(selection.chunks[0].duplicates) == gone


def test_submissions_that_claim_a_host_do_not_use_up_its_share(ask, make) -> None:
    documents = [make.document(f"s{i}", _text(i), url="https://good.example/x", source="submission") for i in range(2)]
    documents += [make.document(f"p{i}", _text(9 + i), url="https://good.example/y", source="crawl") for i in range(2)]
    assert _documents(ask(documents, max_per_domain=1)[0]) == ["s0", "s1", "p0"]


def _blocked(document: ChunkedDocument, *ordinals: int) -> ChunkedDocument:
    """The document with some of its chunks blocked by the guard."""
    chunks = [
        chunk.model_copy(update={"inspection": Inspection(verdict=Verdict.BLOCKED)}) if number in ordinals else chunk
        for number, chunk in enumerate(document.chunks)
    ]
    return document.model_copy(update={"chunks": tuple(chunks)})


def test_a_blocked_chunk_takes_no_place_of_a_result_and_is_counted(ask, make) -> None:
    documents = [_blocked(make.document(f"bad{i}", _text(i)), 0) for i in range(3)]
    documents += [make.document(f"d{i}", _text(10 + i)) for i in range(3)]
    selection, _ = ask(documents, top_k=3)
    assert _documents(selection) == ["d0", "d1", "d2"]
    assert selection.guard_dropped == 3


def test_a_chunk_whose_text_is_not_the_one_that_was_recorded_is_blocked(ask, make) -> None:
    document = make.document("d", _text(0))
    forged = document.model_copy(update={"chunks": (document.chunks[0].model_copy(update={"text": "forged"}),)})
    selection, _ = ask([forged, make.document("e", _text(1))])
    assert _documents(selection) == ["e"]
    assert selection.guard_dropped == 1


def test_a_passage_ends_before_a_blocked_neighbour(ask, make) -> None:
    document = _blocked(make.document("d", *(_text(i) for i in range(5))), 3)
    selection, _ = ask([document], top_k=1, neighbours=3)
    assert selection.chunks[0].passage == tuple(chunk.chunk_id for chunk in document.chunks[:3])


def test_every_result_has_its_trust_score(ask, make) -> None:
    documents = [make.document(f"d{i}", _text(i), url=f"https://x.org/{i}", source="crawl") for i in range(3)]
    selection, _ = ask(documents, trust=SourceTrust(("x.org",)), top_k=2)
    assert [score.chunk_id for score in selection.trust_scores] == [chunk.chunk_id for chunk in selection.chunks]
    assert [score.score for score in selection.trust_scores] == [chunk.trust for chunk in selection.chunks]
    assert ask(documents)[0].trust_scores == ()


ECHO = "- What frees a lease that nobody renews?\n- What is a lease?"


def test_passages_that_merely_repeat_the_question_stand_behind_all_others(ask, make) -> None:
    documents = [make.document("echo", ECHO), *(make.document(f"d{i}", _text(i)) for i in range(4))]
    asked = {"query": "What frees a lease that nobody renews?"}
    assert _documents(ask(documents, **asked, top_k=8)[0]) == ["d0", "d1", "d2", "d3", "echo"]
    assert _documents(ask(documents, **asked, top_k=2)[0]) == ["d0", "d1"]
    assert _documents(ask(documents, **asked, top_k=8, diversity=1.0)[0])[-1] == "echo"
    assert _documents(ask(documents[:1], **asked)[0]) == ["echo"]


def test_the_reranker_is_not_shown_passages_that_merely_repeat_the_question(ask, make) -> None:
    shown: list[str] = []

    class Reversing:
        depth = 8

        def rerank(self, query: str, chunks: Sequence[RetrievedChunk]) -> Sequence[RetrievedChunk]:
            shown.extend(chunk.document_id for chunk in chunks)
            return list(reversed(chunks))

    documents = [make.document("echo", ECHO), *(make.document(f"d{i}", _text(i)) for i in range(3))]
    selection, _ = ask(documents, reranker=Reversing(), query="What frees a lease that nobody renews?")
    assert shown == ["d0", "d1", "d2"]
    assert _documents(selection) == ["d2", "d1", "d0", "echo"]


def test_one_host_has_no_more_results_than_the_cap(ask, make) -> None:
    documents = [make.document(f"d{i}", _text(i), url=f"https://{'ab'[i // 4]}.org/{i}") for i in range(8)]
    selection, _ = ask(documents, max_per_domain=2)
    assert _documents(selection) == ["d0", "d1", "d4", "d5"]
    assert selection.domain_dropped == 4
    assert len(ask(documents, QuerySettings(max_per_domain=1))[0].chunks) == 2
    assert len(ask(documents, QuerySettings(max_per_domain=1), max_per_domain=0)[0].chunks) == 8


def test_without_a_host_each_document_is_a_source_of_its_own(ask, make) -> None:
    documents = [make.document(f"d{i}", _text(2 * i), _text(2 * i + 1), path=f"{i}.md") for i in range(3)]
    assert _documents(ask(documents, max_per_domain=1)[0]) == ["d0", "d1", "d2"]


def test_a_copy_on_another_host_takes_the_place_of_one_that_the_cap_dropped(ask, make) -> None:
    documents = [
        make.document("a0", _text(0), url="https://a.org/0"),
        make.document("a1", _text(1), url="https://a.org/1"),
        make.document("b1", _text(1), url="https://b.org/1"),
    ]
    assert _documents(ask(documents, max_per_domain=1)[0]) == ["a0", "b1"]


class Reversing:
    """Turns around what it sees, and says how often it was asked."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.seen: list[list[str]] = []

    def rerank(self, query: str, chunks: Sequence[RetrievedChunk]) -> Sequence[RetrievedChunk]:
        self.seen.append([chunk.document_id for chunk in chunks])
        scored = [chunk.model_copy(update={"rerank_score": chunk.rank / 10}) for chunk in chunks]
        return scored[::-1]


def test_a_reranker_orders_its_best_and_the_others_follow(ask, make) -> None:
    reranker = Reversing(depth=3)
    selection, _ = ask([make.document(f"d{i}", _text(i)) for i in range(9)], reranker=reranker, top_k=5)
    assert _documents(selection) == ["d2", "d1", "d0", "d3", "d4"]
    assert [chunk.rerank_score for chunk in selection.chunks] == [0.3, 0.2, 0.1, None, None]
    assert [chunk.rank for chunk in selection.chunks] == [1, 2, 3, 4, 5]
    assert (selection.reranked, selection.rerank_failure, selection.rerank_asked) == (True, None, True)
    assert reranker.seen == [["d0", "d1", "d2"]]


def test_a_reranker_may_drop_what_it_has_seen(ask, make) -> None:
    class Choosy(Reversing):
        def rerank(self, query: str, chunks: Sequence[RetrievedChunk]) -> Sequence[RetrievedChunk]:
            return chunks[1:2]

    selection, _ = ask([make.document(f"d{i}", _text(i)) for i in range(5)], reranker=Choosy(depth=2), top_k=3)
    assert _documents(selection) == ["d1", "d2"]


def test_a_query_may_do_without_the_reranker(ask, make) -> None:
    reranker = Reversing(depth=3)
    selection, _ = ask([make.document(f"d{i}", _text(i)) for i in range(3)], reranker=reranker, rerank=False)
    assert _documents(selection) == ["d0", "d1", "d2"]
    assert (selection.reranked, reranker.seen) == (False, [])


@pytest.mark.parametrize("was_asked", [True, False])
def test_when_the_reranker_cannot_the_fused_order_stands_and_the_reason_is_told(ask, make, was_asked) -> None:
    class Failing:
        depth = 5

        def rerank(self, query: str, chunks: Sequence[RetrievedChunk]) -> Sequence[RetrievedChunk]:
            raise NotReranked("it is broken", was_asked=was_asked)

    selection, _ = ask([make.document(f"d{i}", _text(i)) for i in range(3)], reranker=Failing())
    assert _documents(selection) == ["d0", "d1", "d2"]
    assert (selection.reranked, selection.rerank_failure) == (False, "it is broken")
    assert selection.rerank_asked is was_asked


def test_diversity_looks_at_every_candidate_and_goes_by_the_reranker_s_scores(ask, make) -> None:
    documents = [make.document(f"d{i}", _text(i)) for i in range(12)]
    plain = _documents(ask(documents, top_k=4)[0])
    diverse, library = ask(documents, top_k=4, diversity=1.0)
    assert library.reads == 12
    assert _documents(diverse) != plain
    assert _documents(diverse)[0] == "d0"
    assert _documents(ask(documents, top_k=4, diversity=0)[0]) == plain
    reranked, _ = ask(documents, reranker=Reversing(depth=6), top_k=4, diversity=0.001)
    assert _documents(reranked) == ["d5", "d4", "d3", "d2"]


# -- through the reader ---------------------------------------------------------------------------------


@pytest.fixture
def corpus(tmp_path, make):
    """Writes documents and gives a reader of them."""
    readers: list[IndexReader] = []

    def corpus(documents, settings: QuerySettings = SETTINGS, reranker=None) -> IndexReader:
        with IndexWriter(tmp_path, "c") as writer:
            writer.append(*make.batch(documents))
            writer.publish()
        readers.append(IndexReader(tmp_path, "c", settings, reranker, clock=lambda: make.now))
        return readers[-1]

    yield corpus
    for reader in readers:
        reader.close()


def test_a_search_goes_deeper_where_repetitions_of_the_question_fill_its_candidates(corpus, make) -> None:
    question = "What frees a lease that nobody renews?"
    echoes = [make.document(f"echo{i}", f"{question}\nWhat is number {i}?") for i in range(120)]
    answer = make.document("answer", f"A reaper frees the lease, {_text(1)} as was told.")
    reader = corpus([*echoes, answer])
    found = reader.search(Query(query=question, strategy=Strategy.BM25, top_k=3))
    assert [chunk.document_id for chunk in found.chunks[:1]] == ["answer"]


def test_a_mirrored_text_does_not_crowd_out_the_others(corpus, make) -> None:
    mirrors = [make.document(f"m{i}", "ferrets ferrets ferrets") for i in range(300)]
    others = [make.document(f"o{i}", f"a longer text {_text(i)} that speaks of ferrets too") for i in range(4)]
    reranker = Reversing(depth=5)
    found = corpus([*mirrors, *others], reranker=reranker).search(Query(query="ferrets", strategy=Strategy.BM25))
    assert {chunk.document_id[0] for chunk in found.chunks} == {"m", "o"}
    assert len(found.chunks) == 5
    assert found.metadata.duplicates_dropped == 299
    assert len(reranker.seen) == 1  # looking deeper costs no second call


def test_how_deep_duplicates_are_looked_through_is_bounded(corpus, make) -> None:
    mirrors = [make.document(f"m{i}", "ferrets ferrets ferrets") for i in range(2_500)]
    found = corpus(mirrors).search(Query(query="ferrets", strategy=Strategy.BM25))
    assert len(found.chunks) == 1
    assert found.metadata.total_candidates < 2_500


@pytest.mark.parametrize("strategy", list(Strategy))
def test_diversity_goes_by_the_stored_vectors_under_every_strategy(corpus, make, strategy) -> None:
    documents = [make.document(f"d{i}", f"ferrets {_text(i, 20)}", age=timedelta(days=i)) for i in range(20)]
    reader = corpus(documents)
    vector = make.vector("ferrets")
    plain = reader.search(Query(query="ferrets", strategy=strategy, top_k=6), vector)
    diverse = reader.search(Query(query="ferrets", strategy=strategy, top_k=6, diversity=0.9), vector)
    assert diverse.chunks[0].document_id == plain.chunks[0].document_id
    assert Retrieval.model_validate_json(diverse.model_dump_json()) == diverse
    nothing = Query(query="zebra", strategy=strategy, diversity=0.9, filters=Filters(document_ids=("none",)))
    assert reader.search(nothing, vector).chunks == ()

    def likeness(found) -> float:
        vectors = np.array([make.vector(chunk.text) for chunk in found.chunks])
        return float((vectors @ vectors.T)[np.triu_indices(len(vectors), 1)].mean())

    assert likeness(diverse) < likeness(plain)


def test_the_metadata_tells_what_was_dropped_and_stays_silent_where_nothing_was(corpus, make) -> None:
    documents = [make.document(f"d{i}", "ferrets sleep", url="https://x.org/") for i in range(3)]
    documents += [make.document(f"e{i}", f"ferrets {_text(i)}", url="https://x.org/") for i in range(3)]
    reader = corpus(documents)
    query = Query(query="ferrets", strategy=Strategy.BM25, max_per_domain=2)
    metadata = reader.search(query).metadata
    assert (metadata.duplicates_dropped, metadata.domain_dropped) == (2, 2)
    silent = reader.search(Query(query=_text(0), strategy=Strategy.BM25, top_k=1))
    assert "duplicates_dropped" not in silent.model_dump(mode="json")["metadata"]
    assert "duplicates" not in silent.model_dump(mode="json")["chunks"][0]


def test_a_doubted_passage_falls_behind_those_that_it_was_above_by_little(ask, make) -> None:
    documents = [make.document(f"d{i}", _text(i)) for i in range(6)]
    doubts = {documents[2].chunks[0].chunk_id: 0.3, documents[0].chunks[0].chunk_id: 0.2}
    selection, library = ask(documents, trust=SourceTrust(), doubts=doubts, top_k=4)
    assert _documents(selection) == ["d0", "d1", "d3", "d2"], "of 1, 1/2, 1/3, 1/4: 0.8, 1/2, 0.23, 1/4"
    assert [round(chunk.fused_score, 3) for chunk in selection.chunks] == [0.8, 0.5, 0.25, 0.233]
    assert library.reads == 5, "one more than without doubts, to know that nothing comes before it"
    plain, _ = ask(documents, trust=SourceTrust(), top_k=4)
    assert selection.chunks[0].trust == pytest.approx(0.8 * plain.chunks[0].trust)
    factors = selection.trust_scores[0].factors
    assert (factors.feedback, plain.trust_scores[0].factors.feedback) == (0.8, None)
    assert "feedback" not in plain.trust_scores[0].model_dump_json()
    threshold = 0.9 * plain.chunks[0].trust
    assert "d0" not in _documents(ask(documents, trust=SourceTrust(), doubts=doubts, trust_threshold=threshold)[0])


def test_a_doubted_passage_loses_a_share_of_the_reranker_s_scores_too(ask, make) -> None:
    documents = [make.document(f"d{i}", _text(i)) for i in range(3)]

    def rerank(query: str, chunks: Sequence[RetrievedChunk]) -> Sequence[RetrievedChunk]:
        scores = (5.0, 4.5, -6.0)
        return [chunk.model_copy(update={"rerank_score": one}) for chunk, one in zip(chunks, scores, strict=True)]

    reranker = SimpleNamespace(depth=3, rerank=rerank)
    assert _documents(ask(documents, reranker=reranker)[0]) == ["d0", "d1", "d2"]
    doubts = {documents[0].chunks[0].chunk_id: 0.2}
    assert _documents(ask(documents, reranker=reranker, doubts=doubts)[0]) == ["d1", "d0", "d2"]
