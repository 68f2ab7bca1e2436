"""A TCP proxy before the broker that can be cut, in the two ways in which connections are lost.

`refuse`: what is open is reset, and who dials in is refused, as by a host whose server is gone. `blackhole`: everything
stays open and accepts, and nothing flows, as behind a broken switch: only time limits end the waiting.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Literal

from tests.support.instance import free_port

Cut = Literal["refuse", "blackhole"]
_PIECE_BYTES = 65_536


class Proxy:
    """Forwards `port` to the port that `upstream_port` names, asked anew for every connection."""

    def __init__(self, upstream_port: Callable[[], int]) -> None:
        self.port = free_port()
        self._upstream_port = upstream_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()

    def start(self) -> None:
        """Begin to listen and forward."""
        self._thread.start()
        self._loop.call_soon_threadsafe(self._flows.set)
        self._do(self._listen())

    def cut(self, how: Cut) -> None:
        """Close what is open and let nothing through until `mend`."""
        self._do(self._sever(how))

    def mend(self) -> None:
        """Let everything through again."""
        self._do(self._join())

    def stop(self) -> None:
        """End for good."""
        self._do(self._sever("refuse"))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)  # type: ignore[arg-type]

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _sever(self, how: Cut) -> None:
        self._flows.clear()
        if how == "blackhole":
            return
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()

    async def _join(self) -> None:
        self._flows.set()
        await self._listen()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await self._flows.wait()
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port())
            self._open.add(up_writer)
            try:
                await asyncio.gather(self._pump(reader, up_writer), self._pump(up_reader, writer))
            finally:
                self._open.discard(up_writer)
                up_writer.close()
        except OSError:
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(_PIECE_BYTES):
                await self._flows.wait()
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        finally:
            if not writer.is_closing():
                writer.close()
