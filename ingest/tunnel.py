"""Resolve, connect, relay: the sockets of the egress proxy, without its rules.

`connect` is given addresses and never a name, so what was judged is what is dialled.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Awaitable, Callable

from ingest.forwarding import MAX_HEAD_BYTES

Resolver = Callable[[str, int], Awaitable[tuple[str, ...]]]
"""From host and port to every address of the host, in the order to be tried."""
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

CHUNK_BYTES = 65_536
MAX_ADDRESSES = 3
"""Addresses of one name that are tried; all of them are judged."""


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """Every address of `host` by the system's resolver, without repeats.

    Each name has a thread of its own, which nobody waits for in the end: in a shared pool a few names whose
    servers are silent would hold up every other one, and the end of the process.

    Raises:
        OSError: the name is not known, or the resolver does not answer.
        UnicodeError: it cannot be a name.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[str, ...]] = loop.create_future()

    def look_up() -> None:
        found: tuple[str, ...] | Exception
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except (OSError, UnicodeError) as error:
            found = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, found)

    def settle(found: tuple[str, ...] | Exception) -> None:
        if answer.done():
            return  # whoever asked gave up
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    threading.Thread(target=look_up, name="resolve", daemon=True).start()
    return await answer


async def connect(addresses: tuple[str, ...], port: int, limit_seconds: float) -> Connection:
    """Try each address for its share of the time, so that a silent one leaves time for the next."""
    failure: OSError = TimeoutError()
    for address in addresses[:MAX_ADDRESSES]:
        try:
            async with asyncio.timeout(limit_seconds / min(len(addresses), MAX_ADDRESSES)):
                return await asyncio.open_connection(address, port, limit=MAX_HEAD_BYTES)
        except OSError as error:  # TimeoutError is one
            failure = error
    raise failure


async def relay(
    client: Connection,
    site: Connection,
    begin: Callable[[], Awaitable[int | None]],
    *,
    limit_bytes: int,
    idle_seconds: float,
) -> bool:
    """Carry bytes both ways until the answer is whole or one side ends; False where one side sent too much.

    `begin` writes what comes before the answer's body and returns the body's length where it is known; what
    it raises is raised here.

    Raises:
        TimeoutError: nothing moved for `idle_seconds`. ConnectionError: one side broke off.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(idle_seconds) as silence:

        def moved() -> None:
            silence.reschedule(loop.time() + idle_seconds)

        async def carry_down() -> bool:
            length = await begin()
            moved()
            return await _pump(site[0], client[1], limit_bytes, moved, length)

        down = asyncio.create_task(carry_down())
        up = asyncio.create_task(_pump(client[0], site[1], limit_bytes, moved))
        try:
            await asyncio.wait({down, up}, return_when=asyncio.FIRST_COMPLETED)
            if not down.done() and up.exception() is not None:
                await down  # a site may answer and close before it has read the whole request
        finally:
            await _end(down, up)
    return all(_outcome(pump) for pump in (down, up))


def break_off(writer: asyncio.StreamWriter) -> None:
    """End a connection so that the other side cannot take what it has for the whole (a reset, not a close)."""
    connected = writer.get_extra_info("socket")
    if connected is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _pump(
    source: asyncio.StreamReader,
    sink: asyncio.StreamWriter,
    limit_bytes: int,
    moved: Callable[[], None],
    length: int | None = None,
) -> bool:
    """Carry `length` bytes, or all until the source ends; False where there were more than `limit_bytes`."""
    carried = 0
    while length is None or carried < length:
        chunk = await source.read(CHUNK_BYTES if length is None else min(CHUNK_BYTES, length - carried))
        if not chunk:
            break
        carried += len(chunk)
        if carried > limit_bytes:
            return False
        moved()
        sink.write(chunk)
        await sink.drain()
    return True


async def _end(*pumps: asyncio.Task[bool]) -> None:
    for pump in pumps:
        pump.cancel()
    await asyncio.gather(*pumps, return_exceptions=True)


def _outcome(pump: asyncio.Task[bool]) -> bool:
    """Whether a pump stayed below its limit; one that was stopped did."""
    return True if pump.cancelled() else pump.result()
