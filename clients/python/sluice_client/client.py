"""The two clients: one that blocks, one for asyncio. They differ only in the way they wait.

httpx2 is imported by the first client that is made: it takes three quarters of the import time. pydantic and the models
are imported with the first answer.
"""

from __future__ import annotations

import json
import os
import random
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sluice_client.calls import Call, plain
from sluice_client.errors import SluiceError, TimedOut, Unavailable, error_of, problem_in, wait_told
from sluice_client.events import Stream
from sluice_client.operations import Operations

if TYPE_CHECKING:
    import httpx2
    from pydantic import TypeAdapter

    from sluice_client.calls import Answer
    from sluice_client.models import Event

DEFAULT_URL = "http://127.0.0.1:8080"
CONNECT_SECONDS = 5.0
RETRIES = 2
FIRST_WAIT_SECONDS = 0.25
"""Wait before the second try, give or take a quarter; it doubles before each further one."""
LONGEST_WAIT_SECONDS = 60.0
NO_USE = frozenset({501, 505})
"""Statuses from 500 on that a later try does not change."""
PLAIN: dict[str, Any] = {
    "dict[str, str]": dict[str, str],
    "dict[str, bool]": dict[str, bool],
    "dict[str, Any]": dict[str, Any],
    "str": str,
}
"""Types that are no models."""


class _Client(Operations):
    """The shared part of both clients: the server's address, requests and answers."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 30.0,
        *,
        max_retries: int = RETRIES,
        longest_wait_seconds: float = LONGEST_WAIT_SECONDS,
        verify: Any = True,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.base_url = base_url or os.environ.get("SLUICE_URL") or DEFAULT_URL
        key = api_key or os.environ.get("SLUICE_API_KEY")
        self._timeout_seconds, self._max_retries = timeout_seconds, max_retries
        self._longest_wait_seconds = longest_wait_seconds
        self._options: dict[str, Any] = {
            "base_url": self.base_url,
            "headers": {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})},
            # Reading the system's certificates takes longer than most calls.
            "verify": verify if self.base_url.startswith("https:") else False,
        }

    def _request(self, call: Call[Any]) -> dict[str, Any]:
        """Return the parts of a request, by httpx2's names."""
        headers = {} if call.idempotency_key is None else {"Idempotency-Key": call.idempotency_key}
        headers |= {"If-Match": call.if_match} if call.if_match else {}
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
        if attempt < self._max_retries and (call.may_repeat or has_not_arrived):
            return _backoff(attempt)
        where = f"{call.method} {self.base_url.rstrip('/')}{call.path}"
        if isinstance(error, httpx2.TimeoutException):
            raise TimedOut(f"{where} took too long") from error
        raise Unavailable(f"{where}: {error}") from error

    def _pause_before_retry(self, response: httpx2.Response, call: Call[Any], attempt: int) -> float | None:
        """Return the seconds to wait before asking again for a better response; None: this one counts.

        408, 409, 429 and 5xx are asked again where the call may be repeated. The problem's `retryable` decides where it
        is given; a 409 without it counts. `Retry-After` is kept to.
        """
        status = response.status_code
        may_change = status in (408, 409, 429) or (status >= 500 and status not in NO_USE)
        if not may_change or status in call.also_good or attempt >= self._max_retries or not call.may_repeat:
            return None
        told = wait_told(response.headers)
        is_retryable = problem_in(response.content).get("retryable", status != 409)
        if not is_retryable or (told is not None and told > self._longest_wait_seconds):
            return None
        return max(told or 0.0, _backoff(attempt))

    def _answer(self, call: Call[Answer], response: httpx2.Response, attempt: int) -> Answer:
        """Return the answer in a response. Raises `SluiceError` if it is an error, or not of the call's type. What a
        second try to remove does not find is removed."""
        is_removed = attempt and call.method == "DELETE" and call.answer == "None" and response.status_code == 404
        if response.status_code == 204 or is_removed:
            return None  # type: ignore[return-value]  # the calls for which a server answers so return None
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
        if kind in ("str", "bytes"):
            return content.decode("utf-8") if kind == "str" else content
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
        max_retries: tries after the first one.
        longest_wait_seconds: a server that names a longer wait is not asked again; its error says how long.
        headers: sent with every request.
        transport: carries requests; the network by default.

    Every call raises an error of `sluice_client.errors`. A repeatable call is tried again, with the same idempotency
    key so that it counts once, when the connection fails and when the server answers that a later try can help.
    """

    def __init__(self, *args: Any, transport: httpx2.BaseTransport | None = None, **options: Any) -> None:
        import httpx2

        super().__init__(*args, **options)
        self._make: Callable[[], httpx2.Client] = partial(
            httpx2.Client, **self._options, transport=transport, timeout=self._timeout()
        )
        self._pool, self._process = self._make(), os.getpid()

    @property
    def _http(self) -> httpx2.Client:
        """The connections of this process: after a fork a child must not read from its parent's."""
        if self._process != os.getpid():
            self._pool, self._process = self._make(), os.getpid()
        return self._pool

    def __enter__(self) -> SluiceClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def send(self, call: Call[Answer]) -> Answer:
        """Send a call, and return its answer."""
        import httpx2

        for attempt in range(self._max_retries + 1):
            try:
                response = self._http.request(**self._request(call))
            except httpx2.TransportError as error:
                pause: float | None = self._pause_after(error, call, attempt)
            else:
                pause = self._pause_before_retry(response, call, attempt)
            if pause is None:
                return self._answer(call, response, attempt)
            time.sleep(pause)
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
    """An asyncio client of one server: every call of `SluiceClient`, to be awaited. Each event loop and each process
    has connections of its own; one that is not closed warns (`ResourceWarning`)."""

    def __init__(self, *args: Any, transport: httpx2.AsyncBaseTransport | None = None, **options: Any) -> None:
        import httpx2

        super().__init__(*args, **options)
        self._make: Callable[[], httpx2.AsyncClient] = partial(
            httpx2.AsyncClient, **self._options, transport=transport, timeout=self._timeout()
        )
        self._pool: httpx2.AsyncClient | None = None
        self._owner: tuple[int, Any] = (0, None)

    @property
    def _http(self) -> httpx2.AsyncClient:
        """The connections of this process and loop: those of another wait for a loop that may never run again."""
        import asyncio  # costly for users of the blocking client

        owner = (os.getpid(), asyncio.get_running_loop())
        if self._pool is None or self._owner != owner:
            self._pool, self._owner = self._make(), owner
        return self._pool

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None and not pool.is_closed and self._owner[0] == os.getpid():
            told = "an AsyncSluiceClient was not closed: use `async with`, or await its close()"
            warnings.warn(told, ResourceWarning, source=self, stacklevel=2)

    async def __aenter__(self) -> AsyncSluiceClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            await self._pool.aclose()

    async def send(self, call: Call[Answer]) -> Answer:
        """Send a call, and return its answer."""
        import asyncio  # costly for users of the blocking client

        import httpx2

        for attempt in range(self._max_retries + 1):
            try:
                response = await self._http.request(**self._request(call))
            except httpx2.TransportError as error:
                pause: float | None = self._pause_after(error, call, attempt)
            else:
                pause = self._pause_before_retry(response, call, attempt)
            if pause is None:
                return self._answer(call, response, attempt)
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt either returns or raises")

    async def events(
        self, run_id: str, after: str | None = None, *, follow: bool = False, timeout_seconds: float | None = None
    ) -> AsyncGenerator[Event, None]:
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


def _backoff(attempt: int) -> float:
    """Return the seconds between a try and the next: many clients that failed together do not come back together."""
    return float(FIRST_WAIT_SECONDS * 2**attempt * random.uniform(0.75, 1.25))


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
