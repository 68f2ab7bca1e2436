"""Submits a corpus, asks every question by every strategy, a few at a time, and ranks the documents that it found.

A call that the server rejects while it is overloaded is tried again after the time that it names. Each judged document
is ranked by its best chunk; a question without a relevant document among the first ten is a miss, and is told with what
came instead.
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

Answer = TypeVar("Answer")

TRIES = 6
"""With the pauses below a call survives half a minute of failures, and a full queue for as long as the server names."""
LONGEST_PAUSE_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 1.0


def retry_when_overloaded(call: Callable[[], Answer], sleep: Callable[[float], object]) -> Answer:
    """The answer of `call`, tried again when the server is full (after the pause it asks for) or does not answer.

    Raises:
        Unavailable: the sixth try failed as well; anything that no second try can help is raised at once.
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
    """A document (or, where chunks were judged, a chunk) by the name that the case has for it."""

    name: str
    chunk: RetrievedChunk


def rank_documents(chunks: Sequence[RetrievedChunk], judged: Collection[str]) -> tuple[Ranked, ...]:
    """Best first, each name once, at its best rank.

    A chunk goes by its id, its URL, its path or its document's id, whichever was `judged`. What was not judged goes
    by its document's id, so that a document takes one place however many of its chunks were found; but by its own
    where a judged chunk was found, since chunks compete with chunks.
    """
    best: dict[str, Ranked] = {}
    for one in name_chunks(chunks, judged):
        best.setdefault(one.name, one)
    return tuple(best.values())


def name_chunks(chunks: Sequence[RetrievedChunk], judged: Collection[str]) -> Iterator[Ranked]:
    """Every chunk in its order under the name that `rank_documents` has for it."""
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
    """One of the first documents that were found, none of which was relevant."""

    rank: int
    name: str
    title: str | None
    text: str


class Miss(Value):
    """A question that was missed: the rank of each relevant document (None: not among the first 100)."""

    id: str
    query: str
    relevant: dict[str, int | None]
    instead: tuple[CameInstead, ...]


def find_miss(case: Case, order: Sequence[Ranked]) -> Miss | None:
    """The miss, if none of the first ten in order is relevant."""
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
"""Chunks asked for: the most that a query may ask for, as a document of several chunks takes several places."""

TRUST_DEPTH = 10
"""Of how many first chunks the trust is told."""

Search = Callable[[Query], Retrieval]
"""Must be safe for threads."""


class ScoredChunk(NamedTuple):
    """A chunk that was found, by the name that its case has for it, and the scores and ranks that were told of it."""

    chunk_id: str
    name: str
    cosine: float | None
    dense_rank: int | None
    lexical_score: float | None
    lexical_rank: int | None


@dataclass(frozen=True, slots=True)
class Answered:
    """What one question found by one strategy. Durations in milliseconds.

    `names` are the first `DEPTH` documents, best first. `is_truncated` where the ranking was cut off before `DEPTH`
    documents by the number of chunks that may be asked for.
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
    scores: tuple[ScoredChunk, ...] = ()
    """Of every chunk, best first, where they were asked for."""
    trust: float | None = None
    """Mean trust of the first ten chunks; None where none was told."""
    guard_dropped: int = 0
    """Chunks that were found and left out as they are blocked."""


def ask_all(
    cases: Sequence[Case],
    strategies: Sequence[Strategy],
    corpus: str,
    search: Search,
    *,
    at_once: int,
    clock: Callable[[], float] = time.perf_counter,
    with_scores: bool = False,
) -> Generator[Answered, None, None]:
    """What each question found by each strategy, question by question, `at_once` of them under way.

    Ends with the first error that patience does not help; an iteration that is left early asks nothing more.
    """
    stopped = threading.Event()

    def answer(case: Case, strategy: Strategy) -> Answered:
        query = Query(query=case.query, corpus=corpus, top_k=TOP_K, strategy=strategy, filters=case.filters)
        found, seconds = retry_when_overloaded(lambda: _timed(search, query, clock), stopped.wait)
        return _asked(case, strategy, found, seconds, with_scores=with_scores)

    pool = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="evaluation")
    try:
        yield from pool.map(lambda pair: answer(*pair), [(case, strategy) for case in cases for strategy in strategies])
    finally:
        stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _timed(search: Search, query: Query, clock: Callable[[], float]) -> tuple[Retrieval, float]:
    started = clock()
    return search(query), clock() - started


def _asked(case: Case, strategy: Strategy, found: Retrieval, seconds: float, *, with_scores: bool) -> Answered:
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
        scores=_scores(case, found) if with_scores else (),
        trust=_mean_trust(found),
        guard_dropped=found.metadata.guard_dropped,
    )


def _mean_trust(found: Retrieval) -> float | None:
    first = [score.score for score in found.metadata.trust_scores[:TRUST_DEPTH]]
    return sum(first) / len(first) if first else None


def _scores(case: Case, found: Retrieval) -> tuple[ScoredChunk, ...]:
    return tuple(
        ScoredChunk(
            chunk_id=chunk.chunk_id,
            name=name,
            cosine=None if chunk.dense_distance is None else 1.0 - chunk.dense_distance,
            dense_rank=chunk.dense_rank,
            lexical_score=chunk.lexical_score,
            lexical_rank=chunk.lexical_rank,
        )
        for name, chunk in name_chunks(found.chunks, case.relevant)
    )


DOCUMENTS_PER_REQUEST = 256
CHARACTERS_PER_REQUEST = 4_000_000
"""Even if each took six bytes as JSON, a request stays below the 32 MB that a server takes by default."""
POLL_SECONDS = 0.25


class Server(Protocol):
    """What is fed."""

    def add_documents(self, documents: Sequence[SubmittedDocument], corpus: str) -> RunAccepted:
        """Hand documents in."""
        ...

    def run(self, run_id: str) -> RunView:
        """Look at what became of them."""
        ...


class Submitted(Value):
    """How many documents were handed in, and how many of them (with the first reasons) could not be indexed."""

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
    """Hand all documents in, and wait until they can be found; `on_progress` hears how many can, of how many.

    What stood in the corpus before stays there; a document of the same id is replaced, and is cheap if unchanged.

    Raises:
        TimedOut: not all of them can be found in time; the runs go on.
        SluiceError: a run failed or was cancelled.
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
    """The documents by as many as one request carries."""
    batch: list[SubmittedDocument] = []
    characters = 0
    for document in documents:
        length = len(document.text or "")
        if batch and (len(batch) == DOCUMENTS_PER_REQUEST or characters + length > CHARACTERS_PER_REQUEST):
            yield batch
            batch, characters = [], 0
        batch.append(document)
        characters += length
    if batch:
        yield batch


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
