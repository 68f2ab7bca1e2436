"""The connection to a graph server: a thin wrapper around the official driver, with time limits and plain errors.

    bolt, neo4j              in clear text: logs a warning, unless the server is on this machine
    bolt+s, neo4j+s          TLS, the certificate is checked
    bolt+ssc, neo4j+ssc      TLS with any certificate: no protection from somebody in between

With `neo4j` the server names the members of its cluster to connect to. Every address is checked against the owner's
rules before it is dialled, also those that a server names.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from urllib.parse import urlsplit

import structlog

from sluice.contracts.errors import InvalidInput, InvalidSetting, PolicyRefused, SluiceError, TimedOut, Unavailable
from sluice.graph.servers.statements import Dialect, dialect_of, statement
from sluice.graph.settings import GraphSettings, address_of

if TYPE_CHECKING:
    from neo4j import AsyncDriver, AsyncManagedTransaction, AsyncSession

log = structlog.get_logger(__name__)

CheckAddress = Callable[[str, int], None]
"""Raises `PolicyRefused` where the owner's rules forbid a connection to a host and port."""
Row = Mapping[str, Any]
Given = TypeVar("Given")
Arguments = ParamSpec("Arguments")

MOST_CONNECTIONS = 50
"""Limit of one process to one server; the decision record names it."""
FETCH_ROWS = 1_000
"""Rows that a server sends before it waits for the next request."""
ROWS_AT_ONCE = 1_000
"""Rows of one statement."""
LIVENESS_SECONDS = 30.0
"""A connection that was idle for longer is tested before use: firewalls drop such ones silently."""
GRACE_SECONDS = 1.0
"""Seconds that a caller waits beyond the server's time limit for its error message."""
CLOSE_SECONDS = 5.0
_TOLD_CHARACTERS = 300
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_REFUSED_SIGN_IN = "Neo.ClientError.Security."
_TIMED_OUT = "TransactionTimedOut"


class Rows(NamedTuple):
    """Result of a statement: the columns, and at most as many rows as its limit."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool
    """Whether there were more rows."""


def _in_its_thread(
    work: Callable[Concatenate[BoltClient, Arguments], Coroutine[Any, Any, Given]],
) -> Callable[Concatenate[BoltClient, Arguments], Given]:
    """Run a coroutine in the connection's own thread; callers in any thread wait for its result."""

    @wraps(work)
    def wait(self: BoltClient, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Given:
        return self._in_thread(partial(work, self, *arguments, **named), 3 * self.timeout_seconds + GRACE_SECONDS)

    return wait


class BoltClient:
    """The connection to one server, for callers that block. Safe for threads; connects at its first use."""

    def __init__(self, settings: GraphSettings, check_address: CheckAddress) -> None:
        """Raises `InvalidSetting` where the settings name no server."""
        if settings.url is None:
            raise InvalidSetting("graph.url", "not set", "give the address of a graph server, or set NEO4J_URI")
        self._settings = settings
        self._url = settings.url
        self._check_address = check_address
        self._refused: PolicyRefused | None = None
        self._driver: AsyncDriver | None = None
        self._dialect: Dialect | None = None
        self.timeout_seconds = settings.timeout_seconds
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    @property
    def place(self) -> str:
        """Host and port of the server."""
        return "{}:{}".format(*address_of(self._url))

    @_in_its_thread
    async def dialect(self) -> Dialect:
        """Return the server's dialect; the server is queried once."""
        if self._dialect is None:
            async with self._failures():
                info = await self._opened().get_server_info()
            self._dialect = dialect_of(info.agent)
        return self._dialect

    @_in_its_thread
    async def ping(self) -> None:
        """Query the server once.

        Raises:
            TimedOut, Unavailable: it does not answer.
            InvalidSetting: it refuses the user or the password.
            PolicyRefused: the rules of egress forbid to reach it.
        """
        async with self._failures(), self._session(reads=True) as session:
            result = await session.run(statement("ping"))
            await result.single(strict=True)

    @_in_its_thread
    async def command(self, text: str) -> None:
        """Run a statement of the schema, which needs a transaction of its own. Raises as `ping`."""
        async with self._failures(), self._session() as session:
            await (await session.run(text)).consume()

    @_in_its_thread
    async def write(self, work: Callable[[AsyncManagedTransaction], Awaitable[Given]]) -> Given:
        """Do the work in one transaction: all of it or nothing. Raises as `ping`.

        Transient failures are retried within the time limit, so `work` may run again, each time from the state before.
        """
        from neo4j import unit_of_work

        limited = unit_of_work(timeout=self.timeout_seconds)(work)
        async with self._failures(), self._session() as session:
            given: Given = await session.execute_write(limited)
            return given

    @_in_its_thread
    async def read(
        self,
        text: str,
        parameters: Mapping[str, Any],
        limit: int,
        timeout_seconds: float | None = None,
        *,
        whose: str = "",
    ) -> Rows:
        """Return at most `limit` rows of a statement, in a read transaction that is rolled back, whatever it did.

        `whose` names the field to blame where the server rejects the statement; without it the statement is our own.
        Raises as `ping`, and `InvalidInput` where `whose` names a field.
        """
        seconds = min(self.timeout_seconds, timeout_seconds or self.timeout_seconds)
        async with self._failures(whose, seconds + GRACE_SECONDS), self._session(reads=True) as session:
            transaction = await session.begin_transaction(timeout=seconds)
            try:
                result = await transaction.run(text, dict(parameters))
                columns = tuple(result.keys())
                records = await result.fetch(limit + 1)
                rows = tuple(tuple(record.values()) for record in records[:limit])
                return Rows(columns, rows, len(records) > limit)
            finally:
                await transaction.close()  # rolls back

    def write_all(self, *statements: tuple[str, Mapping[str, Any]]) -> Sequence[Row]:
        """Run the statements in one transaction; return the rows of the last. Raises as `ping`."""

        async def work(transaction: AsyncManagedTransaction) -> Sequence[Row]:
            rows: Sequence[Row] = ()
            for text, parameters in statements:
                rows = await run_rows(transaction, text, parameters)
            return rows

        return self.write(work)

    def close(self) -> None:
        """Close every connection. Later calls raise `Unavailable`."""
        with self._starting:
            self._is_closed = True
            loop, self._loop = self._loop, None
        if loop is not None:
            concurrent.futures.wait([asyncio.run_coroutine_threadsafe(self._close(), loop)], CLOSE_SECONDS)
            loop.call_soon_threadsafe(loop.stop)

    def _in_thread(self, work: Callable[[], Coroutine[Any, Any, Given]], timeout_seconds: float) -> Given:
        """Run the work in the connection's thread, which the first call starts; cancel it at the time limit."""
        with self._starting:
            if self._is_closed:
                raise Unavailable("the connection to the graph server was closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(self._loop,), name="graph-server", daemon=True).start()
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result(timeout_seconds)
        except concurrent.futures.TimeoutError as error:
            if future.done():  # it was the work's own time-out
                raise
            future.cancel()
            raise TimedOut(f"the graph server did not answer within {timeout_seconds:g} s") from error

    async def _close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()

    def _opened(self) -> AsyncDriver:
        if self._driver is None:
            self._check_address(*address_of(self._url))
            self._driver = self._open()
        return self._driver

    def _open(self) -> AsyncDriver:
        neo4j = _driver_package()
        settings = self._settings
        _warn_of_clear_text(self._url)
        # At DEBUG the driver logs every parameter; its notices are of labels that a new server has not seen yet.
        logging.getLogger("neo4j").setLevel(logging.WARNING)
        logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)
        password = settings.password.get_secret_value() if settings.password else ""
        try:
            driver: AsyncDriver = neo4j.AsyncGraphDatabase.driver(
                self._url,
                auth=(settings.user, password) if settings.user else None,
                max_connection_pool_size=MOST_CONNECTIONS,
                connection_acquisition_timeout=settings.timeout_seconds,
                connection_timeout=settings.timeout_seconds,
                connection_write_timeout=settings.timeout_seconds,
                max_transaction_retry_time=settings.timeout_seconds,
                liveness_check_timeout=LIVENESS_SECONDS,
                fetch_size=FETCH_ROWS,
                resolver=self._checked,
                telemetry_disabled=True,
                user_agent="sluice",
            )
        except (ValueError, neo4j.exceptions.DriverError) as error:
            raise InvalidSetting("graph.url", str(error)[:_TOLD_CHARACTERS], "like bolt://localhost:7687") from error
        return driver

    def _checked(self, address: tuple[str, int]) -> list[tuple[str, int]]:
        """Check an address; the driver calls this before it dials."""
        try:
            self._check_address(address[0], int(address[1]))
        except PolicyRefused as refused:
            self._refused = refused
            raise OSError(str(refused)) from refused  # the driver takes this for an unreachable address
        return [address]

    @asynccontextmanager
    async def _session(self, *, reads: bool = False) -> AsyncIterator[AsyncSession]:
        neo4j = _driver_package()
        access = neo4j.READ_ACCESS if reads else neo4j.WRITE_ACCESS
        async with self._opened().session(default_access_mode=access) as session:
            yield session

    @asynccontextmanager
    async def _failures(self, whose: str = "", limit: float | None = None) -> AsyncIterator[None]:
        """Apply a time limit, and convert the driver's errors into the project's own."""
        neo4j = _driver_package()
        from neo4j._exceptions import BoltError  # the error for a peer that is no graph server has no public name

        errors = neo4j.exceptions
        limit = limit or 2 * self.timeout_seconds  # one more try may begin just before the time for retries is over
        try:
            async with asyncio.timeout(limit):
                yield
        except SluiceError:
            raise
        except TimeoutError as error:
            raise TimedOut(f"the graph server at {self.place} did not answer within {limit:g} s") from error
        except errors.Neo4jError as error:
            raise self._told(error.code or "", error.message or "", whose) from error
        except errors.ConfigurationError as error:
            raise Unavailable(f"{self.place} is no graph server that can be used: {_cut(error)}") from error
        except (errors.DriverError, BoltError, OSError) as error:
            if self._refused is not None:
                refused, self._refused = self._refused, None
                raise refused from error
            raise Unavailable(f"the graph server at {self.place} does not answer: {_cut(error)}") from error

    def _told(self, code: str, message: str, whose: str) -> SluiceError:
        """Return the error for the server's code."""
        if code.startswith(_REFUSED_SIGN_IN):
            remedy = "set graph.user and graph.password, or NEO4J_USER and NEO4J_PASSWORD"
            return InvalidSetting("graph.password", f"the graph server at {self.place} refuses it ({code})", remedy)
        if _TIMED_OUT in code:
            return TimedOut(f"the graph server at {self.place} ended what took too long ({code})")
        if whose and ".ClientError." in code:
            return InvalidInput(whose, f"{_cut(message)} ({code})", "the graph server's own words")
        return Unavailable(f"the graph server at {self.place} refuses a statement: {_cut(message)} ({code})")


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def dicts(rows: Rows) -> list[dict[str, Any]]:
    """Return the rows by the names of their columns."""
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]


async def run_rows(transaction: AsyncManagedTransaction, text: str, parameters: Mapping[str, Any]) -> Sequence[Row]:
    """Return all rows of a statement with a small result."""
    result = await transaction.run(text, dict(parameters))
    return await result.data()


def portions(items: Iterable[Any], most: int) -> Iterable[list[Any]]:
    """Yield the items in lists of at most `most`."""
    portion: list[Any] = []
    for item in items:
        portion.append(item)
        if len(portion) == most:
            yield portion
            portion = []
    if portion:
        yield portion


def _driver_package() -> Any:
    try:
        import neo4j
    except ImportError as error:
        problem = "a graph server needs the package neo4j"
        raise InvalidSetting("graph.url", problem, "pip install 'sluice[neo4j]'") from error
    return neo4j


def _warn_of_clear_text(url: str) -> None:
    scheme, (host, _) = urlsplit(url).scheme, address_of(url)
    if host in _LOOPBACK:
        return
    if "+" not in scheme:
        remedy = f"write {scheme}+s:// once the server has a certificate"
        log.warning("graph_server_in_clear_text", host=host, told="password and data can be read", remedy=remedy)
    elif scheme.endswith("+ssc"):
        log.warning("graph_server_not_verified", host=host, told="any certificate is taken")


def _cut(error: object) -> str:
    """Return the first line, without the driver's advice on several addresses."""
    return str(error).partition("\n")[0][:_TOLD_CHARACTERS] or type(error).__name__
