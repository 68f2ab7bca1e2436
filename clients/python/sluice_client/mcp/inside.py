"""A transport for the server's own tools: a client's requests are served by an ASGI application in this process.

The library's own collects the whole body first, so that a stream of events would tell nothing before its end. Here each
part is passed on as it comes, and a response that is closed early, or not waited for, ends the work on its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
PARTS = 8
"""Parts of a body that may wait to be read."""


class Inside(httpx2.AsyncBaseTransport):
    """Serves requests by an application, each in a task of its own, in the context of the one who asks."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response as soon as its head is there. Raises `ReadError` if there is none."""
        url, unread = request.url, [{"type": "http.request", "body": await request.aread(), "more_body": False}]
        head: asyncio.Future[tuple[int, Any]] = asyncio.get_running_loop().create_future()
        parts_in, parts = anyio.create_memory_object_stream[bytes](PARTS)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": None,
            "server": (url.host, url.port),
        }

        async def receive() -> Message:
            return unread.pop() if unread else await asyncio.Event().wait()  # type: ignore[return-value]

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                head.set_result((message["status"], message["headers"]))
            elif body := message.get("body"):
                await parts_in.send(body)

        async def serve() -> None:
            with parts_in:
                await self._app(scope, receive, send)

        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if not head.done():
                head.set_exception(httpx2.ReadError(f"{request.method} {url.path}: no response: {error!r}"))

        task = asyncio.create_task(serve())
        task.add_done_callback(ended)
        body = _Parts(task, parts)
        try:
            status, headers = await head
        except BaseException:
            await body.aclose()
            raise
        return httpx2.Response(status, headers=headers, stream=body)


class _Parts(httpx2.AsyncByteStream):
    """The body of a response, as it comes."""

    def __init__(self, task: asyncio.Task[None], parts: MemoryObjectReceiveStream[bytes]) -> None:
        self._task, self._parts = task, parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._parts:
            yield part

    async def aclose(self) -> None:
        """End the work that is left."""
        self._task.cancel()
        self._parts.close()
