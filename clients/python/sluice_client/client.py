"""The two clients: one that blocks, one for asyncio. They differ only in the way they wait.

httpx2 is imported by the first client that is made: it takes three quarters of the import time. pydantic and the models
are imported with the first answer.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sluice_client.calls import Call, plain
from sluice_client.errors import SluiceError, TimedOut, Unavailable, error_of
from sluice_client.events import Stream
from sluice_client.operations import Operations

if TYPE_CHECKING:
    import httpx2
    from pydantic import TypeAdapter

    from sluice_client.calls import Answer
    from sluice_client.models import Event

DEFAULT_URL = "http://127.0.0.1:8080"
CONNECT_SECONDS = 5.0
ATTEMPTS = 3
FIRST_WAIT_SECONDS = 0.1
"""Wait before the second try; it doubles before the third."""
PLAIN: dict[str, Any] = {"dict[str, str]": dict[str, str], "dict[str, bool]": dict[str, bool], "str": str}
"""Types that are no models."""


class _Client(Operations):
    """The shared part of both clients: the server's address, requests and answers."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 30.0,
        *,
        verify: Any = True,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.base_url = base_url or os.environ.get("SLUICE_URL") or DEFAULT_URL
        key = api_key or os.environ.get("SLUICE_API_KEY")
        self._timeout_seconds = timeout_seconds
        self._options: dict[str, Any] = {
            "base_url": self.base_url,
            "headers": {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})},
            # Reading the system's certificates takes longer than most calls.
            "verify": verify if self.base_url.startswith("https:") else False,
        }

    def _request(self, call: Call[Any]) -> dict[str, Any]:
        """Return the parts of a request, by httpx2's names."""
        headers = {} if call.idempotency_key is None else {"Idempotency-Key": call.idempotency_key}
        content = None
        if call.body is not None:
            headers["Content-Type"] = call.content_type
            is_raw = isinstance(call.body, bytes)
            content = call.body if is_raw else json.dumps(plain(call.body), ensure_ascii=False).encode()
        return {
            "method": call.method,
            "url": call.path,
            "params": call.query or None,
            "headers": headers,
            "content": content,
            "timeout": self._timeout(call.patience_seconds),
        }

    def _timeout(self, patience_seconds: float = 0.0) -> httpx2.Timeout:
        import httpx2

        return httpx2.Timeout(self._timeout_seconds + patience_seconds, connect=CONNECT_SECONDS)

    def _pause_after(self, error: httpx2.TransportError, call: Call[Any], attempt: int) -> float:
        """Return the seconds to wait before the next try. Raises `TimedOut` or `Unavailable` if there is none."""
        import httpx2

        has_not_arrived = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
        if attempt + 1 < ATTEMPTS and (call.may_repeat or has_not_arrived):
            return float(FIRST_WAIT_SECONDS * 2**attempt)
        where = f"{call.method} {self.base_url.rstrip('/')}{call.path}"
        if isinstance(error, httpx2.TimeoutException):
            raise TimedOut(f"{where} took too long") from error
        raise Unavailable(f"{where}: {error}") from error

    def _answer(self, call: Call[Answer], response: httpx2.Response) -> Answer:
        """Return the answer in a response. Raises `SluiceError` if it is an error, or not of the call's type."""
        if not response.is_success and response.status_code not in call.also_good:
            raise _error(response)
        kind = call.answer if isinstance(call.answer, str) else call.answer[response.status_code]
        answer = self.parse(kind, response.content)
        if kind.startswith("Page["):
            filters = tuple(pair for pair in call.query if pair[0] != "cursor")
            answer.following(lambda cursor: self.send(replace(call, query=(*filters, ("cursor", cursor)))))
        return answer  # type: ignore[no-any-return]

    def send(self, call: Call[Any]) -> Any:
        """Send a call, and return its answer or, for asyncio, an awaitable of it."""
        raise NotImplementedError

    def parse(self, kind: str, content: bytes) -> Any:
        """Parse `content` as the type that `kind` names; a subclass may parse it otherwise. Raises `Unavailable` if it
        does not fit."""
        if kind == "str":
            return content.decode("utf-8")
        from pydantic import ValidationError

        try:
            return _adapter(kind).validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "body"
            raise Unavailable(f"the server answered no {kind}: {where}: {first['msg']}") from error


class SluiceClient(_Client):
    """A blocking client of one server. Threads may share it.

    Args:
        base_url: address of the server; by default `SLUICE_URL`, else `http://127.0.0.1:8080`.
        api_key: sent as a bearer token; by default `SLUICE_API_KEY`. Needed where the server requires keys.
        timeout_seconds: most time for one response, beyond the deadline of a run that the call waits for.
        verify: of an https server: False, or an `ssl.SSLContext`; by default the system's certificates.
        headers: sent with every request.
        transport: carries requests; the network by default.

    Every call raises an error of `sluice_client.errors`. A repeatable call is tried three times when the connection
    fails, with the same idempotency key, so that it counts once.
    """

    def __init__(self, *args: Any, transport: httpx2.BaseTransport | None = None, **options: Any) -> None:
        import httpx2

        super().__init__(*args, **options)
        self._http = httpx2.Client(**self._options, transport=transport, timeout=self._timeout())

    def __enter__(self) -> SluiceClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: Call[Answer]) -> Answer:
        """Send a call, and return its answer."""
        import httpx2

        for attempt in range(ATTEMPTS):
            try:
                return self._answer(call, self._http.request(**self._request(call)))
            except httpx2.TransportError as error:
                time.sleep(self._pause_after(error, call, attempt))
        raise AssertionError("the last attempt either returns or raises")

    def events(
        self, run_id: str, after: str | None = None, *, follow: bool = False, timeout_seconds: float | None = None
    ) -> Iterator[Event]:
        """Yield the run's events from the one after id `after` (or the first) until it is finished, as they happen.

        A broken stream is resumed after the last event received, as long as each connection brings one. With
        `follow` it goes on after the run's end, and ends with the connection. After `timeout_seconds` in all it raises
        `TimedOut`.
        """
        import httpx2

        path = Call("GET", "/v1/runs/{}/events", (run_id,)).path
        stream = Stream(path, after, follow=follow, timeout_seconds=timeout_seconds)
        while not stream.is_over():
            failure = None
            try:
                opened = self._http.stream("GET", path, **stream.request(self._timeout_seconds))
                with opened as response:
                    if not response.is_success:
                        response.read()
                        raise _error(response)
                    for chunk in response.iter_text():
                        for told in stream.feed(chunk):
                            yield self.parse("Event", told.encode())
            except httpx2.TransportError as error:
                failure = error
            stream.ended(failure)


class AsyncSluiceClient(_Client):
    """An asyncio client of one server: every call of `SluiceClient`, to be awaited. Belongs to one event loop."""

    def __init__(self, *args: Any, transport: httpx2.AsyncBaseTransport | None = None, **options: Any) -> None:
        import httpx2

        super().__init__(*args, **options)
        self._http = httpx2.AsyncClient(**self._options, transport=transport, timeout=self._timeout())

    async def __aenter__(self) -> AsyncSluiceClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, call: Call[Answer]) -> Answer:
        """Send a call, and return its answer."""
        import asyncio  # costly for users of the blocking client

        import httpx2

        for attempt in range(ATTEMPTS):
            try:
                return self._answer(call, await self._http.request(**self._request(call)))
            except httpx2.TransportError as error:
                await asyncio.sleep(self._pause_after(error, call, attempt))
        raise AssertionError("the last attempt either returns or raises")

    async def events(
        self, run_id: str, after: str | None = None, *, follow: bool = False, timeout_seconds: float | None = None
    ) -> AsyncIterator[Event]:
        """Yield the run's events as `SluiceClient.events` does."""
        import httpx2

        path = Call("GET", "/v1/runs/{}/events", (run_id,)).path
        stream = Stream(path, after, follow=follow, timeout_seconds=timeout_seconds)
        while not stream.is_over():
            failure = None
            try:
                opened = self._http.stream("GET", path, **stream.request(self._timeout_seconds))
                async with opened as response:
                    if not response.is_success:
                        await response.aread()
                        raise _error(response)
                    async for chunk in response.aiter_text():
                        for told in stream.feed(chunk):
                            yield self.parse("Event", told.encode())
            except httpx2.TransportError as error:
                failure = error
            stream.ended(failure)


def _error(response: httpx2.Response) -> SluiceError:
    request = response.request
    return error_of(request.method, request.url.path, response.status_code, response.content, response.headers)


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    """Return the parser of the type that `kind` names: a model, a part of a list of one, or a plain type."""
    from pydantic import TypeAdapter

    from sluice_client import models

    inner = kind[len("Page[") : -1] if kind.startswith("Page[") else kind
    model: Any = PLAIN.get(inner) or getattr(models, inner)
    return TypeAdapter(model if inner == kind else models.Page[model])
