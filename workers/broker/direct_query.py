"""Direct queries over the broker: one process sends them, the query pool answers.

A direct query has no ledger row: its caller waits for it, and repeats it if no reply comes. The reply is one byte of
status and the JSON of a `Retrieval` or of a `Problem`.
"""

from __future__ import annotations

import asyncio
from typing import cast

import redis.asyncio

from sluice.contracts import errors
from sluice.contracts.api import CodeSearchRequest, Problem, QueryRequest
from sluice.contracts.base import fields_of, shared_fields
from sluice.contracts.errors import InvalidInput, SluiceError, TimedOut
from sluice.contracts.retrieval import Filters, Query, Retrieval, Strategy
from sluice.index.search.join import join
from sluice.ingest.extract.media_types import code_languages
from sluice.otel import metrics
from sluice.workers.broker.keys import REPLY_TTL_SECONDS, Keys
from sluice.workers.broker.transport import LONGEST_BLOCK_SECONDS, ReadRequest, Transport
from sluice.workers.settings import Settings

MOST_WAITING = 256
"""Queries of one API process that wait for their replies at once, each with a connection to the broker; further ones
wait for a connection. A query worker answers some hundred a second."""

_GOOD, _BAD = b"+", b"-"
_BY_CODE: dict[str, type[SluiceError]] = {
    kind.code: kind
    for kind in (
        errors.NotFound,
        errors.Unavailable,
        errors.Overloaded,
        errors.TimedOut,
        errors.Corrupted,
        errors.Conflict,
    )
}


def good_reply(payload: bytes) -> bytes:
    """Encode a reply that carries a result."""
    return _GOOD + payload


def bad_reply(error: SluiceError) -> bytes:
    """Encode a reply that carries an error."""
    if isinstance(error, InvalidInput):
        problem = Problem(code=error.code, message=error.problem, field=error.field, remedy=error.remedy)
    else:
        problem = Problem(code=error.code, message=str(error))
    return _BAD + problem.model_dump_json().encode()


def ask_query_pool(transport: Transport, query: Query, traceparent: str | None, timeout_seconds: float) -> bytes:
    """Return the JSON of the `Retrieval` of `query`. Blocks its thread until the reply comes.

    Raises:
        TimedOut: no query worker replied in time.
        NotFound, InvalidInput, Unavailable: the query worker's error.
    """
    with metrics.REPLY_SECONDS.time():
        key = transport.send_read(query, traceparent, timeout_seconds)
        reply = transport.await_reply(key, timeout_seconds)
    return _result(reply, timeout_seconds)


class QueryPool:
    """The query pool for the HTTP interface: a query that waits for its reply holds no thread."""

    def __init__(self, settings: Settings) -> None:
        """Create the connection pool, without opening a connection."""
        self._instance, self._timeout_seconds = settings.instance, settings.query_timeout_seconds
        connections = redis.asyncio.BlockingConnectionPool.from_url(
            settings.broker_location,
            max_connections=MOST_WAITING,
            timeout=settings.query_timeout_seconds,
            socket_timeout=2 * LONGEST_BLOCK_SECONDS,
            socket_connect_timeout=2,
            health_check_interval=10,
        )
        self._redis = redis.asyncio.Redis.from_pool(connections)

    async def ask(self, query: Query, traceparent: str | None) -> bytes:
        """Return the JSON of the `Retrieval` of `query`.

        Raises:
            TimedOut: no query worker replied within `query_timeout_seconds`.
            NotFound, InvalidInput, Unavailable: the query worker's error.
            redis.RedisError: the broker does not answer.
        """
        request = ReadRequest.of(query, self._instance, traceparent, self._timeout_seconds)
        lane = Keys(self._instance).reads
        with metrics.REPLY_SECONDS.time():
            pipe = self._redis.pipeline(transaction=False)
            pipe.lpush(lane, request.model_dump_json())
            pipe.expire(lane, REPLY_TTL_SECONDS)
            pipe.blpop([request.reply_key], timeout=_wait_seconds(request))  # one round trip: send, and wait
            *_, answered = await pipe.execute()
            while not answered and request.seconds_left > 0:
                answered = await self._redis.blpop([request.reply_key], timeout=_wait_seconds(request))
        return _result(cast(bytes, answered[1]) if answered else None, self._timeout_seconds)

    async def search(self, request: QueryRequest, traceparent: str | None) -> bytes:
        """Return the JSON of the `Retrieval` of the request's corpus, or of the `JoinedRetrieval` of its corpora, which
        are asked side by side. Raises what `ask` does."""
        fields = fields_of(Query, request)
        names = request.corpora or (request.corpus,)
        asked = [Query(**fields | {"corpus": name}) for name in names]
        found = await asyncio.gather(*(self.ask(one, traceparent) for one in asked))
        if not request.corpora:
            return found[0]
        parts = {name: Retrieval.model_validate_json(raw) for name, raw in zip(names, found, strict=True)}
        return join(parts, request.top_k, request.max_tokens).model_dump_json().encode()

    async def code_search(self, request: CodeSearchRequest, traceparent: str | None) -> bytes:
        """Return the JSON of the `Retrieval` of a search by meaning, by words and by the graph of symbols, in files of
        code alone. Raises what `ask` does, and `InvalidInput` for a language that no file is known to be in."""
        known = code_languages()
        if request.language is not None and request.language.lower() not in known:
            problem = f"{request.language!r} is no programming language known here"
            raise InvalidInput("language", problem, ", ".join(known))
        languages = (request.language.lower(),) if request.language else known
        filters = Filters(languages=languages, path_prefix=request.repo_path or None)
        query = Query(filters=filters, strategy=Strategy.HYBRID_GRAPH, **shared_fields(Query, request))
        return await self.ask(query, traceparent)

    async def close(self) -> None:
        """Close every connection."""
        await self._redis.aclose()


def _wait_seconds(request: ReadRequest) -> float:
    """Return how long one command waits for the reply; never 0, which would mean for ever."""
    return max(0.001, min(request.seconds_left, LONGEST_BLOCK_SECONDS))


def _result(reply: bytes | None, timeout_seconds: float) -> bytes:
    if reply is None:
        raise TimedOut(f"no query worker replied within {timeout_seconds:g} s; is one running?")
    if reply.startswith(_GOOD):
        return reply[1:]
    problem = Problem.model_validate_json(reply[1:])
    if problem.code == InvalidInput.code and problem.field is not None:
        raise InvalidInput(problem.field, problem.message, problem.remedy or "")
    raise _BY_CODE.get(problem.code, SluiceError)(problem.message)
