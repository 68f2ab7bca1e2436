"""Submits a corpus, runs every question with every strategy, a few at a time, and ranks the documents found.

A call that the overloaded server rejects is retried after the time that the server names. Each judged document is
ranked by its best chunk. A question with no relevant document among the first ten is a miss, reported with the hits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, NamedTuple, Protocol, TypeVar

from pydantic import Field

from sluice.contracts.api import ENDED, RunAccepted, RunView, SubmittedDocument
from sluice.contracts.base import Value
from sluice.contracts.errors import Overloaded, SluiceError, TimedOut, Unavailable
from sluice.contracts.retrieval import Query, Retrieval, RetrievedChunk, Strategy
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.measures import DEPTH, HIT_DEPTH
from sluice.text.batches import in_batches

Answer = TypeVar("Answer")

TRIES = 6
"""With the pauses below a call survives half a minute of failures, and a full queue for as long as the server names."""
LONGEST_PAUSE_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 1.0


def retry_when_overloaded(call: Callable[[], Answer], sleep: Callable[[float], object]) -> Answer:
    """Return the result of `call`, retried if the server is full (after the pause it names) or does not answer.

    Raises `Unavailable` after the sixth failed try, and errors that a retry cannot help at once.
    """
    pause_seconds = FIRST_PAUSE_SECONDS
    for _ in range(TRIES - 1):
        try:
            return call()
        except Overloaded as error:
            sleep(min(error.retry_after_seconds, LONGEST_PAUSE_SECONDS))
        except Unavailable:
            sleep(pause_seconds)
            pause_seconds *= 2
    return call()


class Ranked(NamedTuple):
    """A document (or, where chunks were judged, a chunk), by its name in the case."""

    name: str
    chunk: RetrievedChunk


def rank_documents(chunks: Sequence[RetrievedChunk], judged: Collection[str]) -> tuple[Ranked, ...]:
    """Return the documents best first, each name once, at its best rank.

    A chunk is named by its id, its URL, its path or its document's id, whichever was `judged`. An unjudged chunk is
    named by its document's id, so that a document takes one place however many of its chunks were found; but by its own
    id where a judged chunk was found, since chunks compete with chunks.
    """
    best: dict[str, Ranked] = {}
    for one in name_chunks(chunks, judged):
        best.setdefault(one.name, one)
    return tuple(best.values())


def name_chunks(chunks: Sequence[RetrievedChunk], judged: Collection[str]) -> Iterator[Ranked]:
    """Return every chunk in its order under its name in `rank_documents`."""
    of_chunks = any(chunk.chunk_id in judged for chunk in chunks)
    return (Ranked(_name(chunk, judged, of_chunks), chunk) for chunk in chunks)


def _name(chunk: RetrievedChunk, judged: Collection[str], of_chunks: bool) -> str:
    for name in (chunk.chunk_id, chunk.url, chunk.file_path, chunk.document_id):
        if name is not None and name in judged:
            return name
    return chunk.chunk_id if of_chunks else chunk.document_id


SHOWN = 5
"""Results reported for each missed question."""
SHOWN_CHARACTERS = 160


class CameInstead(Value):
    """One of the first documents found, none of which was relevant."""

    rank: int
    name: str
    title: str | None
    text: str


class Miss(Value):
    """A missed question: the rank of each relevant document (None: not among the first 100)."""

    id: str
    query: str
    relevant: dict[str, int | None]
    instead: tuple[CameInstead, ...]


def find_miss(case: Case, order: Sequence[Ranked]) -> Miss | None:
    """Return the miss, if none of the first ten in order is relevant."""
    if any(one.name in case.answers for one in order[:HIT_DEPTH]):
        return None
    ranks = {one.name: rank for rank, one in enumerate(order[:DEPTH], start=1)}
    return Miss(
        id=case.id,
        query=case.query,
        relevant={name: ranks.get(name) for name in sorted(case.answers)},
        instead=tuple(_came_instead(rank, one) for rank, one in enumerate(order[:SHOWN], start=1)),
    )


def _came_instead(rank: int, one: Ranked) -> CameInstead:
    text = " ".join(one.chunk.text.split())[:SHOWN_CHARACTERS]
    return CameInstead(rank=rank, name=one.name, title=one.chunk.title, text=text)


TOP_K = 200
"""Chunks per query: the most that a query allows, as a document of several chunks takes several places."""

TRUST_DEPTH = 10
"""Number of first chunks whose mean trust is reported."""

Search = Callable[[Query], Retrieval]
"""Runs a query. Must be safe for threads."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of one question with one strategy. Durations in milliseconds.

    `names` are the first `DEPTH` documents, best first. `is_truncated`: the limit on chunks per query cut the ranking
    off before `DEPTH` documents.
    """

    case: Case
    strategy: Strategy
    names: tuple[str, ...]
    miss: Miss | None
    is_truncated: bool
    generation: str | None
    fusion: str
    index_ms: float
    round_trip_ms: float
    trust: float | None = None
    """Mean trust of the first ten chunks; None if the server reports none."""
    guard_dropped: int = 0
    """Chunks left out because they are blocked."""


def ask_all(
    cases: Sequence[Case],
    strategies: Sequence[Strategy],
    corpus: str,
    search: Search,
    *,
    at_once: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Generator[Answered, None, None]:
    """Yield the result of each question with each strategy, question by question, `at_once` of them in parallel.

    Ends with the first error that retries do not help; leaving the iteration early stops all further queries.
    """
    stopped = threading.Event()

    def answer(case: Case, strategy: Strategy) -> Answered:
        query = Query(query=case.query, corpus=corpus, top_k=TOP_K, strategy=strategy, filters=case.filters)
        found, seconds = retry_when_overloaded(lambda: _timed(search, query, clock), stopped.wait)
        return _asked(case, strategy, found, seconds)

    pool = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="evaluation")
    try:
        yield from pool.map(lambda pair: answer(*pair), [(case, strategy) for case in cases for strategy in strategies])
    finally:
        stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _timed(search: Search, query: Query, clock: Callable[[], float]) -> tuple[Retrieval, float]:
    started = clock()
    return search(query), clock() - started


def _asked(case: Case, strategy: Strategy, found: Retrieval, seconds: float) -> Answered:
    order = rank_documents(found.chunks, case.relevant)
    return Answered(
        case=case,
        strategy=strategy,
        names=tuple(one.name for one in order[:DEPTH]),
        miss=find_miss(case, order),
        is_truncated=len(order) < DEPTH and len(found.chunks) >= TOP_K,
        generation=found.generation,
        fusion=found.metadata.fusion,
        index_ms=found.metadata.duration_ms,
        round_trip_ms=1e3 * seconds,
        trust=_mean_trust(found),
        guard_dropped=found.metadata.guard_dropped,
    )


def _mean_trust(found: Retrieval) -> float | None:
    first = [score.score for score in found.metadata.trust_scores[:TRUST_DEPTH]]
    return sum(first) / len(first) if first else None


DOCUMENTS_PER_REQUEST = 256
CHARACTERS_PER_REQUEST = 4_000_000
"""Even at six bytes each in JSON, a request stays below the 32 MB that a server accepts by default."""
POLL_SECONDS = 0.25


class Server(Protocol):
    """The server that receives the documents."""

    def add_documents(self, documents: Sequence[SubmittedDocument], corpus: str) -> RunAccepted:
        """Submit documents."""

    def run(self, run_id: str) -> RunView:
        """Return the state of the run."""


class Submitted(Value):
    """Number of submitted documents, and of those that could not be indexed, with the first reasons."""

    document_count: Annotated[int, Field(ge=0)]
    missing_count: Annotated[int, Field(ge=0)] = 0
    missing: tuple[str, ...] = ()


def submit_documents(
    documents: Iterable[SubmittedDocument],
    corpus: str,
    server: Server,
    *,
    sleep: Callable[[float], object],
    clock: Callable[[], float],
    timeout_seconds: float,
    on_progress: Callable[[int, int], None] = lambda done, known: None,
) -> Submitted:
    """Submit all documents, and wait until they are searchable; `on_progress` gets the number done and the total.

    Earlier documents of the corpus stay; a document of the same id is replaced, and is cheap if unchanged. Raises
    `TimedOut` if not all are searchable in time (the runs go on), `SluiceError` if a run failed or was cancelled.
    """
    deadline = clock() + timeout_seconds
    runs: list[tuple[str, int]] = []
    for batch in split_into_batches(documents):
        accepted = retry_when_overloaded(lambda batch=batch: server.add_documents(batch, corpus), sleep)  # type: ignore[misc]
        runs.append((accepted.run_id, len(batch)))
        on_progress(0, sum(size for _, size in runs))
    missing: list[str] = []
    known, done = sum(size for _, size in runs), 0
    for run_id, size in runs:
        view = _ended(run_id, server, sleep, clock, deadline)
        missing += [f"{gap.subject}: {gap.reason} {gap.detail}".strip() for gap in view.missing]
        done += size
        on_progress(done, known)
    return Submitted(document_count=known, missing_count=len(missing), missing=tuple(missing[:20]))


def split_into_batches(documents: Iterable[SubmittedDocument]) -> Iterator[list[SubmittedDocument]]:
    """Yield the documents in batches of one request each."""
    most = {"most_items": DOCUMENTS_PER_REQUEST, "most_size": CHARACTERS_PER_REQUEST}
    return in_batches(documents, lambda one: len(one.text or ""), **most)


def _ended(
    run_id: str, server: Server, sleep: Callable[[float], object], clock: Callable[[], float], deadline: float
) -> RunView:
    while (view := retry_when_overloaded(lambda: server.run(run_id), sleep)).status not in ENDED:
        if clock() > deadline:
            raise TimedOut(f"{run_id} goes on; look again with `sluice runs {run_id}`, then use --no-ingest")
        sleep(POLL_SECONDS)
    if view.status != "finished":
        gaps = "; ".join(f"{gap.subject}: {gap.reason}" for gap in view.missing[:3])
        raise SluiceError(f"{run_id} {view.status}: its documents cannot be found {gaps}".strip())
    return view
