"""One HTTP exchange through the egress proxy, bounded in bytes, redirects and time.

`exchange` sends one request and follows nothing; `fetch` gets a page, redirect by redirect, and lets the
caller judge every address before it is requested. Promises: the time limit covers everything from name
lookup to the last byte, of all requests together, but not the caller's waits in between; neither
the raw nor the decompressed body is ever held beyond its cap; cookies are neither kept nor sent; no part of
a URL is logged, since some providers require their key in it.

A fetch uses one socket in the calling thread and nothing else: no loop, no pool, no thread.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import httpx

from sluice.contracts.errors import InvalidInput, Overloaded, PolicyRefused, SluiceError, TimedOut, Unavailable
from sluice.ingest.deadline import CancelCheck, Deadline, never_cancelled
from sluice.ingest.extract.media_types import bare, charset_of
from sluice.ingest.http.connection import Connection
from sluice.ingest.http.decompress import Inflater, UnknownEncoding
from sluice.ingest.http.message import Malformed, Request, Response, is_field_value
from sluice.ingest.url import ProxyAddress, normalise_url

REDIRECTS = frozenset({301, 302, 303, 307, 308})
ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.9,application/json;q=0.8,*/*;q=0.5"
MAX_REDIRECT_BYTES = 65_536
"""Largest body of a redirect that is followed; it is not used."""
EGRESS_REMEDY = "an entry for this purpose in egress.allow, or the egress lists"
MALFORMED_RESPONSE = "malformed_response"
"""The rule for refusing a response that is not HTTP; the egress proxy marks its report of one with it."""

_SEPARATORS = {"x-robots-tag": "\n"}
"""Separator between repeated values of a field."""
_PROXY_ANSWER = re.compile(r"(\d{3}) (Refused|Failed) (?:(\w+): )?(.*)")


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The limits of one fetch."""

    timeout_seconds: float = 30.0
    max_bytes: int = 10_000_000
    """Largest body, as sent and once decompressed."""
    max_redirects: int = 5
    """RFC 9309 requires as many for a robots.txt."""
    truncate: bool = False
    """Whether to keep the first `max_bytes` of a larger body instead of refusing it."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response. `headers` have lower-case names, repeated ones joined by a comma.

    Lines of `x-robots-tag` are joined by line breaks: each may address another robot.
    """

    url: str
    final_url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    media_type: str
    charset: str | None
    elapsed_ms: float
    received_bytes: int = 0
    """Bytes of all bodies up to this answer, redirects included, as they were sent: the figure to meter."""


@dataclass(frozen=True, slots=True)
class NotModified:
    """The copy that `etag` or `last_modified` identifies is still current."""

    url: str
    final_url: str
    headers: Mapping[str, str]
    elapsed_ms: float
    received_bytes: int = 0
    """Bytes of the bodies of redirects on the way, as they were sent."""


class Fetcher:
    """Fetches through the proxy at `proxy_url`. Thread-safe. InvalidInput unless it is `http://user:password@host:port`.

    No connection is held between calls: the proxy counts bytes per connection and ends them with the crawl's account,
    and requests to a host are too rare for the handshake to matter. `check_cancelled` is called now and then while a
    site is waited for; what it raises ends the exchange.
    """

    def __init__(
        self,
        proxy_url: str,
        *,
        user_agent: str,
        tls: ssl.SSLContext | None = None,
        check_cancelled: CancelCheck = never_cancelled,
        account: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`account` returns the proxy address for exchanges that name none; None falls back to `proxy_url`."""
        self._proxy = ProxyAddress.at(proxy_url)
        self._account = account
        self._check_cancelled = check_cancelled
        self._user_agent = user_agent
        self._tls = tls or httpx.create_ssl_context()
        self._tls.set_alpn_protocols(["http/1.1"])

    def fetch(
        self,
        url: str,
        *,
        limits: FetchLimits,
        etag: str | None = None,
        last_modified: str | None = None,
        conditions_for: str | None = None,
        pre_request: Callable[[str], None] = lambda url: None,
        deadline: Deadline | None = None,
        proxy_url: str | None = None,
    ) -> Fetched | NotModified:
        """Fetch `url`, whatever the page's status. `pre_request` is called with each address before it is requested.

        Time spent in `pre_request` does not count for the site; the `deadline` covers both. `proxy_url` is another
        egress grant, for this call alone.

        `etag` and `last_modified` distinguish versions of one resource and mean nothing to another (RFC 9110, 8.8), so
        they are sent only to the address that they came from: `conditions_for`, the `final_url` of the held copy,
        or `url` if none is named.

        Raises:
            InvalidInput: the address, or one that it redirects to, cannot be used.
            PolicyRefused: rules `egress`, `redirects`, `bytes`, `encoding`, `malformed_response` (the response
                is not HTTP/1.1, or is ambiguous), and what `pre_request` raises.
            TimedOut: the deadline passed. Overloaded: the proxy is full. Unavailable: the site failed.
        """
        started, left_seconds, received_bytes = time.perf_counter(), limits.timeout_seconds, 0
        deadline = deadline or Deadline()
        address = normalise_url(url)
        compared = normalise_url(conditions_for) if conditions_for else address
        conditions = {"If-None-Match": _condition(etag), "If-Modified-Since": _condition(last_modified)}
        for _ in range(limits.max_redirects + 1):
            pre_request(address)  # our own wait does not count for the site
            asked = time.monotonic()
            headers = {"Accept": ACCEPT, **(conditions if address == compared else {})}
            request = Request.to(address, "GET", headers)
            answer = self._answer(request, limits, deadline.left_seconds(left_seconds), proxy_url, follows=True)
            left_seconds -= time.monotonic() - asked
            received_bytes += answer.received_bytes
            target = answer.headers.get("location") if answer.status in REDIRECTS else None
            if target is None:
                elapsed_ms = _since(started)
                if answer.status == 304 and any(request.headers.get(name) for name in conditions):
                    return NotModified(url, answer.final_url, answer.headers, elapsed_ms, received_bytes)
                return replace(answer, url=url, elapsed_ms=elapsed_ms, received_bytes=received_bytes)
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
        proxy_url: str | None = None,
    ) -> Fetched:
        """Send one request and return its response; redirects are not followed. Headers without a value are left out.

        `timeout_seconds` is the rest of `limits.timeout_seconds`, if earlier requests used some of it. Raises as
        `fetch`, but PolicyRefused only by the rules `egress`, `bytes`, `encoding` and `malformed_response`;
        InvalidInput also for a header.
        """
        seconds = limits.timeout_seconds if timeout_seconds is None else timeout_seconds
        request = Request.to(url, method, headers or {}, content)
        return self._answer(request, limits, seconds, proxy_url or self._account())

    def _answer(
        self, request: Request, limits: FetchLimits, seconds: float, proxy_url: str | None, *, follows: bool = False
    ) -> Fetched:
        """Return the response; without its body for a redirect that the caller `follows`."""
        started = time.perf_counter()
        proxy = ProxyAddress.at(proxy_url) if proxy_url else self._proxy
        host = request.host
        try:
            with Connection(
                proxy.host, proxy.port, seconds=seconds, check_cancelled=self._check_cancelled
            ) as connection:
                response = self._ask(connection, request, proxy)
                is_passed_over = follows and response.status in REDIRECTS and response.first("location") is not None
                body, received_bytes = _pass_over(response) if is_passed_over else _read(response, limits)
        except TimeoutError as error:
            raise TimedOut(f"{host} did not answer within {limits.timeout_seconds:g} s") from error
        except UnknownEncoding as error:
            raise PolicyRefused("encoding", f"{host} answers in {error}") from error
        except Malformed as error:
            raise malformed_response(host, str(error)) from error
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"{host}: {type(error).__name__}: {error}") from error
        headers = _joined(response.fields)
        content_type = headers.get("content-type")
        return Fetched(
            url=request.url,
            final_url=request.url,
            status=response.status,
            headers=headers,
            body=body,
            media_type=bare(content_type),
            charset=charset_of(content_type),
            elapsed_ms=_since(started),
            received_bytes=received_bytes,
        )

    def _ask(self, connection: Connection, request: Request, proxy: ProxyAddress) -> Response:
        if request.is_secure:
            self._enter_tunnel(connection, request, proxy)
        message, exchange = request.message(self._user_agent, proxy)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # an answer may come before all is sent
            connection.send(message)
        response = Response(connection.receive, exchange)
        if not request.is_secure:  # the proxy neither writes nor sees a tunnel's content
            _raise_proxy_answer(response, request.host)
        return response

    def _enter_tunnel(self, connection: Connection, request: Request, proxy: ProxyAddress) -> None:
        message, exchange = request.tunnel_message(proxy)
        connection.send(message)
        response = Response(connection.receive, exchange)
        if response.status != 200:
            raise _proxy_answer(f"{response.status} {response.reason}", request.host)
        connection.secure(self._tls, request.host)


def _condition(validator: str | None) -> str:
    """Return a site's validator if it may be sent back, else an empty string."""
    return validator if validator and is_field_value(validator) else ""


def _read(response: Response, limits: FetchLimits) -> tuple[bytes, int]:
    """Return the decompressed body, and the bytes it was sent in. A library would unpack a bomb whole."""
    inflater = Inflater(", ".join(response.all("content-encoding")), limits.max_bytes)
    if not limits.truncate and (response.length or 0) > limits.max_bytes:
        raise _too_large(limits)
    received_bytes = 0
    for piece in response.body():
        received_bytes += len(piece)
        inflater.feed(piece)
        if inflater.full or received_bytes > limits.max_bytes:
            if limits.truncate:
                return inflater.body, received_bytes
            raise _too_large(limits)
    inflater.finish()
    return inflater.body, received_bytes


def _pass_over(response: Response) -> tuple[bytes, int]:
    received_bytes = 0
    for piece in response.body():
        received_bytes += len(piece)
        if received_bytes >= MAX_REDIRECT_BYTES:
            break
    return b"", received_bytes


def _too_large(limits: FetchLimits) -> PolicyRefused:
    return PolicyRefused("bytes", f"the page is larger than {limits.max_bytes} bytes", "crawl.max_page_bytes")


def malformed_response(host: str, problem: str) -> PolicyRefused:
    """Return the refusal of a response that is not HTTP: retrying is useless, as the site may always send it."""
    return PolicyRefused(MALFORMED_RESPONSE, f"{host}: {problem}", "the site's owner")


def _raise_proxy_answer(response: Response, host: str) -> None:
    """Raise the proxy's own answers, which it marks; it strips the marks from sites' responses."""
    marked = response.first("x-sluice-refused") is not None or response.first("x-sluice-failed") is not None
    if marked or (response.status == 407 and response.first("proxy-authenticate") is not None):
        raise _proxy_answer(f"{response.status} {response.reason}", host)


def _proxy_answer(line: str, host: str) -> SluiceError:
    """Return the error for the proxy's status line."""
    match = _PROXY_ANSWER.fullmatch(line)
    if line.startswith("400"):
        return InvalidInput("url", f"the address of {host} cannot be sent")
    if match is None:
        return Unavailable(f"{host}: the egress proxy answers {line}")
    status, kind, rule, detail = match.groups()
    if rule == MALFORMED_RESPONSE:
        return malformed_response(host, detail)
    if kind == "Refused":
        return PolicyRefused("egress", f"{rule}: {detail}", EGRESS_REMEDY)
    if status == "504":
        return TimedOut(f"{host}: {detail}")
    if status == "503":
        return Overloaded(f"{host}: {detail} through the egress proxy")
    return Unavailable(f"{host}: {': '.join(part for part in (rule, detail) if part)}")


def _joined(fields: tuple[tuple[str, str], ...]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in fields:
        joined[name] = f"{joined[name]}{_SEPARATORS.get(name, ', ')}{value}" if name in joined else value
    return joined


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1_000
