"""Searches one corpus for a caller: embeds the query, measures, and leaves out what may not be served.

`DirectReads` answers direct queries in a query worker. A query for a journal offset that is not covered yet holds no
thread: it waits in a list that one thread watches, and goes back to the queue once what is served covers its offset. An
offset beyond the end of the journal is refused at once: no wait would help.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog
from tokenizers import Tokenizer

from sluice.contracts.base import fields_of
from sluice.contracts.budget import Spend
from sluice.contracts.errors import InvalidInput, Overloaded, SluiceError, Unavailable
from sluice.contracts.graph.model import GraphUse
from sluice.contracts.index import Answer
from sluice.contracts.learning.control import FlagName
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import PromptMessage, Query, Retrieval, SearchOptions, Strategy
from sluice.gate.profile import Profile
from sluice.index.folder import CorpusLayout
from sluice.index.journal.journal import JournalTail
from sluice.index.search.compose_answer import compose_answer
from sluice.index.search.reader import RELOAD_TIMEOUT_SECONDS
from sluice.ingest.embed.tokens import count_tokens
from sluice.otel import metrics
from sluice.otel.context import span
from sluice.trust.confidence import Asked
from sluice.trust.prompts.build import build, least_tokens, template_named
from sluice.workers.broker.direct_query import bad_reply, good_reply
from sluice.workers.broker.transport import ReadRequest
from sluice.workers.context import Context
from sluice.workers.settings import Settings
from sluice.workers.steps.trusted import apply_trust, count_gates, describe_question
from sluice.workers.wiring.corpora import CorpusReaders, Reader
from sluice.workers.wiring.inject import Step, assemble
from sluice.workers.wiring.models import EmbeddingService
from sluice.workers.wiring.steering import Priors

log = structlog.get_logger(__name__)

GRAPH_FLAG_OFF = "the flag graph is off"


@dataclass(frozen=True, slots=True)
class Retriever(Step):
    """Searches corpora, by vectors and by words, and leaves out what may not be served."""

    readers: CorpusReaders
    embedding: EmbeddingService
    settings: Settings
    priors: Priors

    def read(self, query: Query, tokenizer: Tokenizer, flags_off: Sequence[FlagName]) -> bytes:
        """Return the reply to a direct query.

        Raises:
            InvalidInput: it names a prompt that does not exist.
            NotFound: nothing was written to the corpus yet.
            SluiceError: as `retrieve`.
        """
        if query.prompt is not None:
            template_named(query.prompt)
        self.readers.existing(query.corpus)
        found, _ = self.retrieve(query, flags_off)
        shown = with_prompt(found, query, lambda text: count_tokens(text, tokenizer))
        return good_reply(shown.model_dump_json().encode())

    def retrieve(self, query: Query, flags_off: Sequence[FlagName] = ()) -> tuple[Retrieval, Spend]:
        """Search one corpus, and leave out what may not be served; return the cost of embedding and reranking too.

        Steps that a flag has switched off are left out: a hybrid query finds by vectors alone, the fused order stands,
        and the graph is not searched. The result's metadata says so.
        """
        started = time.perf_counter()
        found, spend, _ = self._judged(query, flags_off)
        metrics.FUSION_SECONDS.observe(found.metadata.duration_ms / 1e3)
        count_gates(found.metadata)
        metrics.QUERY_SECONDS.labels(_allowed(query, flags_off).strategy).observe(time.perf_counter() - started)
        reranking = Spend(usd=self.settings.rerank.usd_per_search if found.metadata.rerank_asked else 0.0)
        return found, spend + reranking

    def look(
        self, options: SearchOptions, corpus: str, strategy: Strategy, flags_off: Sequence[FlagName]
    ) -> tuple[Retrieval, Spend, Reader]:
        """Search for a question as its answer will, and leave out nothing for its confidence. Return the reader too.

        The result is that before a reranker, which may be paid, orders the passages.
        """
        asked = fields_of(SearchOptions, options) | {"prompt": None, "rerank": False, "confidence_floor": None}
        return self._judged(Query(**asked, corpus=corpus, strategy=strategy), flags_off)

    def strategy(self, profile: Profile | None) -> Strategy:
        """Return the strategy of a profile's answers, as far as the settings allow it."""
        if self.settings.graph_hindrance or profile is None or profile.retrieval is None:
            return Strategy.HYBRID
        return profile.retrieval.strategy

    def _judged(self, query: Query, flags_off: Sequence[FlagName]) -> tuple[Retrieval, Spend, Reader]:
        """Return what may be served, the cost of embedding, and the reader that found it."""
        wanted, query, rerank = query, _allowed(query, flags_off), self.settings.rerank
        ranked, spend, reader = self._searched(query)
        if wanted.rerank and not query.rerank and rerank.provider != "none":
            ranked = _with_metadata(ranked, rerank_failure="the flag rerank is off")
        if wanted.strategy is Strategy.HYBRID_GRAPH and "graph" in flags_off:
            ranked = _with_metadata(ranked, graph=GraphUse(abstained=GRAPH_FLAG_OFF))
        top_passages = self.readers.top_passages(query.corpus)
        if not self.readers.exists(query.corpus):
            ranked = _with_metadata(ranked, limits=f"No corpus {query.corpus!r} exists: nothing was written to it yet.")
        if behind := self.readers.behind(query.corpus, ranked.journal_offset):
            ranked = _with_metadata(ranked, behind=behind)
        asked = self._described(query, ranked, reader) if ranked.chunks else None
        return apply_trust(ranked, query, self.settings.trust, asked, top_passages), spend, reader

    def measure(self, query: Query) -> tuple[Retrieval, Asked]:
        """Return what is found before anything is left out, and the question as its corpus sees it."""
        ranked, _, reader = self._searched(query)
        return ranked, self._described(query, ranked, reader)

    def _described(self, query: Query, ranked: Retrieval, reader: Reader) -> Asked:
        stats, prior = reader.stats(), self.priors.of(query.corpus)
        asked = describe_question(query, ranked, stats, reader.document_frequency, self.embedding.match_tokens, prior)
        fit = self.readers.fits.of(asked.model_fingerprint)
        return asked if fit is None else replace(asked, fitted=fit.confidence)

    def _searched(self, query: Query) -> tuple[Retrieval, Spend, Reader]:
        """Return the result, the cost of embedding the query, and the reader that found it: twice if the corpus got
        another model meanwhile."""
        port = self.readers.reader(query.corpus)
        if query.strategy is Strategy.BM25:
            return port.retrieve(query), Spend(), port
        try:
            embedded = self.embedding.embed_question([query.query], self.embedding.fingerprint(query.corpus))
        except Unavailable as error:
            return self._searched_in_outage(query, str(error))
        with span("search the index", attributes={"sluice.corpus": query.corpus}):
            found = port.retrieve(query, embedded.vectors[0])
        if port.model_fingerprint in (None, embedded.fingerprint):
            return found, embedded.spend, port
        again, spend, port = self._searched(query)
        return again, embedded.spend + spend, port

    def _searched_in_outage(self, query: Query, why: str) -> tuple[Retrieval, Spend, Reader]:
        """Search the second index by the fallback's vectors, or the corpus by words alone.

        The result's journal offset is the corpus's, of which the second index has everything.
        """
        port, second = self.readers.reader(query.corpus), self.readers.fallback(query.corpus)
        if second is None or second.model_fingerprint is None:
            by_words = port.retrieve(query.model_copy(update={"strategy": Strategy.BM25}))
            return _with_metadata(by_words, embedder_down=why), Spend(), port
        covered = port.pin(query.minimum_journal_offset).journal_offset
        embedded = self.embedding.embed_question([query.query], second.model_fingerprint)
        found = second.retrieve(query.model_copy(update={"minimum_journal_offset": 0}), embedded.vectors[0])
        told = _with_metadata(found, embedder_down=why, fallback_model=embedded.fingerprint)
        return told.model_copy(update={"journal_offset": covered}), embedded.spend, second


def _allowed(query: Query, flags_off: Sequence[FlagName]) -> Query:
    """Return the query without the steps that flags switch off."""
    changes: dict[str, object] = {}
    if "hybrid" in flags_off and query.strategy in (Strategy.HYBRID, Strategy.HYBRID_GRAPH):
        changes["strategy"] = Strategy.VECTOR
    elif "graph" in flags_off and query.strategy is Strategy.HYBRID_GRAPH:
        changes["strategy"] = Strategy.HYBRID
    if "rerank" in flags_off:
        changes["rerank"] = False
    return query.model_copy(update=changes) if changes else query


def _with_metadata(found: Retrieval, **changes: object) -> Retrieval:
    return found.model_copy(update={"metadata": found.metadata.model_copy(update=changes)})


MOST_TOKENS = 200_000
"""The most tokens that a query may state."""


def make_prompt(
    name: str, session: Sequence[PromptMessage], answer: Answer, max_tokens: int, count_tokens: Callable[[str], int]
) -> tuple[PromptMessage, ...]:
    """Return the conversation `session`, ending with the answer's question, with the answer's passages put into it.

    The additions have at most `max_tokens`, or what the template itself takes if that is more. Raises `InvalidInput`,
    naming `prompt` and those there are, if there is no such template.
    """
    template = template_named(name)
    question = PromptMessage(role="user", content=answer.query)
    is_asked = bool(session) and (session[-1].role, session[-1].content) == (question.role, question.content)
    messages = session if is_asked else (*session, question)
    room = max(max_tokens, least_tokens(template, count_tokens))
    return build(messages, answer, template.full_name, room, count_tokens)


def with_prompt(found: Retrieval, query: Query, count_tokens: Callable[[str], int]) -> Retrieval:
    """Return `query`'s result with the prompt that it names, if any. Raises `InvalidInput` as `make_prompt` does."""
    if query.prompt is None:
        return found
    answer = compose_answer(query.query, query.corpus, Plan.RETRIEVE, found, MOST_TOKENS, count_tokens=count_tokens)
    room = query.max_tokens or MOST_TOKENS
    return found.model_copy(update={"prompt": make_prompt(query.prompt, (), answer, room, count_tokens)})


MOST_WAITING = 1_000
"""Queries that may wait in one process: some megabytes."""
LOOK_SECONDS = 0.02
"""Pause between two looks at a list that is not empty: a few reads of memory for each query."""
REPLY_MARGIN_SECONDS = 0.5
"""Time before its caller gives up at which a waiting query is refused."""


class _Waiting(NamedTuple):
    request: ReadRequest
    until: float

    @property
    def corpus(self) -> str:
        return self.request.query.corpus


class DirectReads:
    """Answers direct queries, refuses them, or lets them wait. Safe across threads."""

    def __init__(self, context: Context, *, clock: Callable[[], float] = time.time) -> None:
        self._context, self._clock = context, clock
        self._waiting: list[_Waiting] = []
        self._changed = threading.Condition()

    def take(self, request: ReadRequest) -> None:
        """Reply to a query, or put it on the list of those that wait. Raises what the broker raises."""
        try:
            if not self._is_covered(request):
                self._wait_with(request)
                return
            retriever = assemble(Retriever, self._context)
            flags_off = self._context.flags.switched_off(request.query.query)
            reply = retriever.read(request.query, self._context.tokenizer, flags_off)
        except SluiceError as error:
            reply = bad_reply(error)
        except Exception as error:
            log.error("read_failed", error=repr(error), exc_info=error)
            reply = bad_reply(SluiceError("the query worker failed; its log has the trace"))
        self._context.transport.reply(request.reply_key, reply)

    def look_after_waiting(self, stopping: threading.Event) -> None:
        """Send covered queries back to the queue and refuse those that waited too long, until `stopping` is set."""
        while not stopping.is_set():
            with self._changed:
                if not self._waiting:
                    self._changed.wait(1.0)
            self.look()
            stopping.wait(LOOK_SECONDS)

    def look(self) -> None:
        """Check every waiting query once."""
        waiting = tuple(self._waiting)
        covered = {
            corpus: self._context.readers.reader(corpus).journal_offset for corpus in {one.corpus for one in waiting}
        }
        for one in waiting:
            if self._has_gone_on(one, covered[one.corpus]):
                with self._changed:
                    self._waiting.remove(one)

    def _has_gone_on(self, waiting: _Waiting, covered: int) -> bool:
        transport, query = self._context.transport, waiting.request.query
        if covered >= query.minimum_journal_offset:
            transport.put_back_read(waiting.request)
        elif self._clock() >= waiting.until:
            told = f"corpus {query.corpus} covers journal offset {covered}, not yet {query.minimum_journal_offset}"
            transport.reply(waiting.request.reply_key, bad_reply(Unavailable(told)))
        else:
            return False
        return True

    def _is_covered(self, request: ReadRequest) -> bool:
        wanted, corpus = request.query.minimum_journal_offset, request.query.corpus
        covered = self._context.readers.existing(corpus).journal_offset
        if wanted <= covered:
            return True
        journal = JournalTail(CorpusLayout(self._context.settings.index_root, corpus).journal, 0)
        with closing(journal):
            end = max(covered, journal.durable_offset())
        if wanted > end and self._context.settings.object_store.url is None:  # else it may have been written elsewhere
            raise InvalidInput(
                "minimum_journal_offset",
                f"{wanted} is beyond the journal of corpus {corpus}, which ends at {end}",
                "send the journal_offset of a finished run",
            )
        return False

    def _wait_with(self, request: ReadRequest) -> None:
        until = min(request.expires_at - REPLY_MARGIN_SECONDS, self._clock() + RELOAD_TIMEOUT_SECONDS)
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                raise Overloaded(f"{MOST_WAITING} queries wait for a journal offset in this worker: come back later")
            self._waiting.append(_Waiting(request, until))
            self._changed.notify()
