"""A graph server for callers that wait: every function of this package by one thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import structlog

from sluice.contracts.errors import TimedOut, Unavailable
from sluice.contracts.graph.api import NearestDocuments
from sluice.contracts.graph.model import CitationRow
from sluice.graph.servers import feed, search, upsert
from sluice.graph.servers.client import BoltClient, CheckAddress, Rows, dicts
from sluice.graph.servers.dialect import VECTOR_INDEX
from sluice.graph.servers.feed import Feed, ServerDocument
from sluice.graph.servers.upsert import Fed
from sluice.graph.settings import GraphSettings

log = structlog.get_logger(__name__)

_MANY = 100


class SchemaReport(NamedTuple):
    """What was found or made."""

    dimension: int | None
    """Of the vectors that the server's vector index takes; None where there is no such index."""
    refused: tuple[str, ...] = ()
    """What the server refused, in its own words."""


async def prepare(client: BoltClient, dimension: int | None) -> SchemaReport:
    """Make what is missing. A vector index for `dimension` is made where there is none of its name yet.

    One that is there with another dimension stays: an index is dropped by its owner alone.

    Raises what `BoltClient.ping` does, `Unavailable` only where the server is away.
    """
    await client.ping()
    dialect = await client.dialect()
    refused = [problem for statement in dialect.schema if (problem := await _refusal(client, statement))]
    found = await _index_dimension(client, dialect.vector_index_info)
    if found is None and dimension is not None:
        problems = []
        for way in dialect.vector_index:
            problem = await _refusal(client, way.replace("{dimension}", str(int(dimension))))
            if problem is None:
                break
            problems.append(problem)
        found = await _index_dimension(client, dialect.vector_index_info)
        refused += problems if found is None else []
    if refused:
        log.warning("graph_server_schema_incomplete", server=client.place, refused=refused)
    return SchemaReport(found, tuple(refused))


async def _refusal(client: BoltClient, statement: str) -> str | None:
    """Run a statement of the schema; what the server says against it. That it is there already is no refusal."""
    try:
        await client.command(statement)
    except Unavailable as error:
        await client.ping()  # away, and not against the statement
        told = str(error)
        return None if "already exist" in told.lower() or "equivalent" in told.lower() else told
    return None


async def _index_dimension(client: BoltClient, info: str) -> int | None:
    try:
        rows = dicts(await client.read(info, {}, _MANY))
    except Unavailable:
        await client.ping()
        return None
    return next((int(row["dimension"]) for row in rows if row["name"] == VECTOR_INDEX), None)


Given = TypeVar("Given")


class LoopThread:
    """Runs coroutines for other threads. Starts at the first; safe for threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def run(self, work: Coroutine[Any, Any, Given], timeout_seconds: float) -> Given:
        """What the coroutine gives. It is cancelled at the time limit.

        Raises:
            TimedOut: it took longer than that.
            Unavailable: the loop was closed.
        """
        try:
            loop = self._running()
        except Unavailable:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result(timeout_seconds)
        except concurrent.futures.TimeoutError as error:
            if future.done():  # it was the work's own time-out
                raise
            future.cancel()
            raise TimedOut(f"the graph server did not answer within {timeout_seconds:g} s") from error

    def close(self, last: Coroutine[Any, Any, None], timeout_seconds: float) -> None:
        """Run the last coroutine, then end the thread."""
        with self._guard:
            self._is_closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            last.close()
            return
        future = asyncio.run_coroutine_threadsafe(last, loop)
        concurrent.futures.wait([future], timeout_seconds)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout_seconds)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._guard:
            if self._is_closed:
                raise Unavailable("the connection to the graph server was closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


CLOSE_SECONDS = 5.0
_LONG_SECONDS = 3_600.0
"""Over work of many requests, each of which has its own limit."""


class GraphServer:
    """A Neo4j or Memgraph. Safe for threads; connects at its first use.

    Every method raises `TimedOut` or `Unavailable` where the server does not answer, `InvalidSetting` where it refuses
    the user or the driver is not installed, and `PolicyRefused` where the rules of egress forbid to reach it.
    """

    def __init__(self, settings: GraphSettings, check_address: CheckAddress) -> None:
        """Raises `InvalidSetting` where no server is named. Nothing is opened yet."""
        self._client = BoltClient(settings, check_address)
        self._loop = LoopThread("graph-server")
        self._guard = threading.Lock()
        self._schema: SchemaReport | None = None

    @property
    def place(self) -> str:
        """Host and port of the server."""
        return self._client.place

    def ping(self) -> None:
        """Have the server answer a question."""
        self._loop.run(self._client.ping(), 3 * self._client.timeout_seconds)

    def prepare(self, dimension: int | None) -> SchemaReport:
        """Make the constraints and indexes that are missing, once for this object."""
        with self._guard:
            if self._schema is None or (self._schema.dimension is None and dimension is not None):
                self._schema = self._loop.run(prepare(self._client, dimension), _LONG_SECONDS)
            return self._schema

    def upsert(self, corpus: str, documents: Sequence[ServerDocument]) -> Fed:
        """Store documents with their edges; what is older than the server's changes nothing.

        A vector of another dimension than the vector index has is left out.
        """
        width = self._schema.dimension if self._schema else None
        fitting = [one if _fits(one, width) else one._replace(embedding=None) for one in documents]
        return self._loop.run(upsert.upsert(self._client, corpus, fitting), _LONG_SECONDS)

    def remove(self, corpus: str, removed: Mapping[str, int]) -> Fed:
        """Remove documents with what they said, each as of a journal offset."""
        return self._loop.run(upsert.remove(self._client, corpus, removed), _LONG_SECONDS)

    def read_feed(self, corpus: str) -> Feed | None:
        """Up to where the corpus was fed."""
        return self._loop.run(feed.read_feed(self._client, corpus), 3 * self._client.timeout_seconds)

    def write_feed(self, corpus: str, told: Feed) -> None:
        """Say up to where the corpus was fed."""
        self._loop.run(feed.write_feed(self._client, corpus, told), 3 * self._client.timeout_seconds)

    def lower_fences(self, corpus: str, ids: Sequence[str]) -> None:
        """Let documents be written as of an earlier offset than the server has them by."""
        self._loop.run(feed.lower_fences(self._client, corpus, ids), _LONG_SECONDS)

    def write_citations(self, corpus: str, citations: Sequence[CitationRow]) -> None:
        """Have the corpus cited by these conversations and no others."""
        self._loop.run(feed.write_citations(self._client, corpus, citations), _LONG_SECONDS)

    def standing(self, corpus: str) -> dict[str, tuple[str | None, str | None]]:
        """The hash of the row and the embedding's model of every document of the corpus."""
        return self._loop.run(feed.read_standing(self._client, corpus), _LONG_SECONDS)

    def drop_corpus(self, corpus: str) -> None:
        """Remove everything of a corpus."""
        self._loop.run(feed.drop_corpus(self._client, corpus), _LONG_SECONDS)

    def retrieve(self, corpus: str, embedding: Sequence[float], embedding_version: str, limit: int) -> NearestDocuments:
        """The documents nearest to a question, and what they are linked to."""
        work = search.retrieve(self._client, corpus, embedding, embedding_version, limit)
        return self._loop.run(work, 10 * self._client.timeout_seconds)

    def query(self, statement: str, parameters: Mapping[str, Any], limit: int, timeout_seconds: float) -> Rows:
        """The rows of a question in Cypher that has passed the guard."""
        work = search.query(self._client, statement, parameters, limit, timeout_seconds)
        return self._loop.run(work, 3 * self._client.timeout_seconds)

    def close(self) -> None:
        """Close every connection. What is asked of it afterwards is `Unavailable`."""
        self._loop.close(self._client.close(), CLOSE_SECONDS)


def _fits(document: ServerDocument, dimension: int | None) -> bool:
    return document.embedding is None or dimension is None or len(document.embedding) == dimension
