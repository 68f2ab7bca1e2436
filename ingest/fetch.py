"""One HTTP exchange through the egress proxy, bounded in bytes, redirects and time.

`exchange` sends one request and follows nothing; `fetch` gets a page, redirect by redirect, and lets the
caller judge every address before it is asked for. Promises: the time limit covers everything from name
lookup to the last byte, of all requests together, and nothing of what the caller waits in between; neither
the raw nor the decompressed body is ever held beyond its cap; cookies are neither kept nor sent; nothing of
a URL is logged, since some providers want their key in it.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass

import httpx

from contracts.errors import InvalidInput, Overloaded, PolicyRefused, SluiceError, TimedOut, Unavailable
from ingest.deadline import Deadline
from ingest.inflate import Inflater, UnknownEncoding
from ingest.url import host_of, normalise_url, origin_of
from ingest.wanted import LOOK_SECONDS, Wanted, always

REDIRECTS = frozenset({301, 302, 303, 307, 308})
ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.9,application/json;q=0.8,*/*;q=0.5"
READ_BYTES = 65_536
EGRESS_REMEDY = "an entry for this purpose in egress.allow, or the egress lists"

_SEPARATORS = {"x-robots-tag": "\n"}
"""Of values that a field was sent with more than once."""
_PROXY_ANSWER = re.compile(r"(\d{3}) (Refused|Failed) (?:(\w+): )?(.*)")


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The most that one fetch may take."""

    timeout_seconds: float = 30.0
    max_bytes: int = 10_000_000
    """Of the body, as sent and once decompressed."""
    max_redirects: int = 5
    truncate: bool = False
    """Keep the first `max_bytes` of a larger body instead of refusing it."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response. `headers` have lower-case names, repeated ones joined by a comma.

    But `x-robots-tag` by line breaks: each of its lines may speak to another robot.
    """

    url: str
    final_url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    media_type: str
    charset: str | None
    elapsed_ms: float


@dataclass(frozen=True, slots=True)
class NotModified:
    """The copy that `etag` or `last_modified` named is still current."""

    url: str
    final_url: str
    headers: Mapping[str, str]
    elapsed_ms: float


class Fetcher:
    """Fetches through the proxy at `proxy_url`. Thread-safe; holds no connection between calls.

    Connections are not reused: the proxy counts bytes per connection, and hosts are asked too seldom
    for the handshake to matter. `wanted` is called now and then while a site is waited for; what it raises ends the
    exchange.
    """

    def __init__(
        self,
        proxy_url: str,
        *,
        user_agent: str,
        tls: ssl.SSLContext | None = None,
        wanted: Wanted = always,
    ) -> None:
        self._proxy_url = proxy_url
        self._wanted = wanted
        self._user_agent = user_agent
        self._tls = tls or httpx.create_ssl_context()

    def fetch(
        self,
        url: str,
        *,
        limits: FetchLimits,
        etag: str | None = None,
        last_modified: str | None = None,
        approach: Callable[[str], None] = lambda url: None,
        deadline: Deadline | None = None,
    ) -> Fetched | NotModified:
        """The page at `url`, whatever its status. `approach` is called with each address before it is asked for.

        What `approach` waits is no time of the site's; the `deadline` covers both.

        Raises:
            InvalidInput: the address, or one that it redirects to, cannot be used.
            PolicyRefused: rules `egress`, `redirects`, `bytes`, `encoding`, and what `approach` raises.
            TimedOut: the deadline passed. Overloaded: the proxy is full. Unavailable: the site failed.
        """
        started, left_seconds = time.perf_counter(), limits.timeout_seconds
        deadline = deadline or Deadline()
        headers = {"Accept": ACCEPT, "If-None-Match": etag or "", "If-Modified-Since": last_modified or ""}
        address = normalise_url(url)
        for _ in range(limits.max_redirects + 1):
            approach(address)  # waiting for our own turn takes nothing of the site's time
            asked = time.monotonic()
            most_seconds = deadline.left_seconds(left_seconds)
            answer = self.exchange(address, headers=headers, limits=limits, timeout_seconds=most_seconds)
            left_seconds -= time.monotonic() - asked
            target = answer.headers.get("location") if answer.status in REDIRECTS else None
            if target is None:
                return _finished(answer, url, started)
            address = normalise_url(target, base=address, field="location")
        raise PolicyRefused("redirects", f"{url} redirects more than {limits.max_redirects} times")

    def exchange(
        self,
        url: str,
        *,
        limits: FetchLimits,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout_seconds: float | None = None,
    ) -> Fetched:
        """One request and its response; redirects are handed back as they are. Headers with no value are left out.

        `timeout_seconds` is what is left of `limits.timeout_seconds`, where earlier requests used some of it.

        Raises:
            PolicyRefused: rules `egress`, `bytes`, `encoding`.
            TimedOut, Overloaded, Unavailable: as `fetch`.
        """
        remaining = limits.timeout_seconds if timeout_seconds is None else timeout_seconds
        # The client would name the host itself, but fails where its reading of Punycode is narrower than the web's.
        authority = origin_of(url).partition("//")[2]
        ours = {"Host": authority, "User-Agent": self._user_agent, "Accept-Encoding": "gzip, deflate"}
        sent = {**ours, **(headers or {})}
        request = httpx.Request(
            method,
            url,
            headers={name: value for name, value in sent.items() if value},
            content=content,
            extensions={"timeout": httpx.Timeout(max(remaining, 0.001)).as_dict()},
        )
        host = host_of(url)
        try:
            return asyncio.run(self._while_wanted(self._exchange(request, limits, remaining)))
        except (TimeoutError, httpx.TimeoutException) as error:
            raise TimedOut(f"{host} did not answer within {limits.timeout_seconds:g} s") from error
        except httpx.ProxyError as error:
            raise _proxy_answer(str(error), host) from error
        except (httpx.TransportError, ssl.SSLError) as error:
            raise Unavailable(f"{host}: {type(error).__name__}: {error}") from error
        except UnknownEncoding as error:
            raise PolicyRefused("encoding", f"{host} answers in {error}") from error

    async def _while_wanted(self, exchange: Coroutine[None, None, Fetched]) -> Fetched:
        task = asyncio.create_task(exchange)
        try:
            while not task.done():
                self._wanted()
                await asyncio.wait({task}, timeout=LOOK_SECONDS)
            return task.result()
        finally:
            task.cancel()  # nothing, when it is done
            await asyncio.gather(task, return_exceptions=True)

    async def _exchange(self, request: httpx.Request, limits: FetchLimits, timeout_seconds: float) -> Fetched:
        started = time.perf_counter()
        async with asyncio.timeout(timeout_seconds), self._transport() as transport:
            response = await transport.handle_async_request(request)
            try:
                if request.url.scheme == "http":  # what comes out of a tunnel the proxy has neither written nor seen
                    _raise_proxy_answer(response, host_of(str(request.url)))
                body = await _read(response, limits)
            finally:
                await response.aclose()
        media_type, charset = _content_type(response.headers)
        return Fetched(
            url=str(request.url),
            final_url=str(request.url),
            status=response.status_code,
            headers=_headers(response.headers),
            body=body,
            media_type=media_type,
            charset=charset,
            elapsed_ms=(time.perf_counter() - started) * 1_000,
        )

    def _transport(self) -> httpx.AsyncHTTPTransport:
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=0)
        return httpx.AsyncHTTPTransport(verify=self._tls, proxy=self._proxy_url, limits=limits, trust_env=False)


async def _read(response: httpx.Response, limits: FetchLimits) -> bytes:
    """The decompressed body. Decompression is ours, piece by piece: a library's would swallow a bomb whole."""
    inflater = Inflater(response.headers.get("content-encoding", ""), limits.max_bytes)
    raw_bytes = 0
    async for chunk in response.aiter_raw(READ_BYTES):
        raw_bytes += len(chunk)
        inflater.feed(chunk)
        if inflater.full or raw_bytes > limits.max_bytes:
            if limits.truncate:
                return inflater.body
            raise PolicyRefused("bytes", f"the page is larger than {limits.max_bytes} bytes", "crawl.max_page_bytes")
    return inflater.body


def _finished(answer: Fetched, url: str, started: float) -> Fetched | NotModified:
    elapsed_ms = (time.perf_counter() - started) * 1_000
    if answer.status == 304:
        return NotModified(url, answer.final_url, answer.headers, elapsed_ms)
    return Fetched(
        url=url,
        final_url=answer.final_url,
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        media_type=answer.media_type,
        charset=answer.charset,
        elapsed_ms=elapsed_ms,
    )


def _raise_proxy_answer(response: httpx.Response, host: str) -> None:
    """The proxy marks its own answers; it strips the marks from what sites send."""
    headers = response.headers
    if "x-sluice-refused" in headers or "x-sluice-failed" in headers:
        raise _proxy_answer(f"{response.status_code} {response.reason_phrase}", host)


def _proxy_answer(line: str, host: str) -> SluiceError:
    """The error that the proxy's status line stands for."""
    match = _PROXY_ANSWER.fullmatch(line)
    if line.startswith("400"):
        return InvalidInput("url", f"the address of {host} cannot be sent")
    if match is None:
        return Unavailable(f"{host}: the egress proxy answers {line}")
    status, kind, rule, detail = match.groups()
    if kind == "Refused":
        return PolicyRefused("egress", f"{rule}: {detail}", EGRESS_REMEDY)
    if status == "504":
        return TimedOut(f"{host}: {detail}")
    if status == "503":
        return Overloaded(f"{host}: {detail} through the egress proxy")
    return Unavailable(f"{host}: {': '.join(part for part in (rule, detail) if part)}")


def _headers(headers: httpx.Headers) -> dict[str, str]:
    return {name: _SEPARATORS.get(name, ", ").join(headers.get_list(name)) for name in headers}


def _content_type(headers: httpx.Headers) -> tuple[str, str | None]:
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?([A-Za-z0-9._:-]+)", parameters, re.IGNORECASE)
    return media_type.strip().lower(), charset[1].lower() if charset else None
