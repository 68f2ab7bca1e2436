"""Sites that send what no site should: each ends in time, by a named error, with little of it held.

Through a tunnel nothing stands between the site and the fetcher, so most of this is said over TLS.
"""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import brotli
import pytest
import zstandard

from sluice.contracts.errors import PolicyRefused, SluiceError, TimedOut, Unavailable
from sluice.ingest.egress.crawl_account import EgressLimits
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.http.fetch import Fetched, Fetcher, FetchLimits
from sluice.ingest.http.message import MAX_FRAMING_BYTES
from sluice.ingest.settings import EgressSettings

LIMITS = FetchLimits(timeout_seconds=5.0, max_bytes=1_000_000)
BRIEF = FetchLimits(timeout_seconds=0.5)
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def tls_fetcher(tls_site: Any, trust: ssl.SSLContext) -> Iterator[Fetcher]:
    """A fetcher that reaches `tls_site`, and believes it."""
    with EgressProxy(
        EgressSettings(allow=(tls_site.address,)), limits=EgressLimits(max_response_bytes=200_000_000)
    ) as proxy:
        yield Fetcher(proxy.url, user_agent="test", tls=trust)


def said(data: bytes) -> Callable[[Any], None]:
    """A site that says so and closes."""

    def say(handler: Any) -> None:
        with contextlib.suppress(OSError):
            handler.wfile.write(data)

    return say


def repeated(start: bytes, again: bytes, pause_seconds: float = 0.0) -> Callable[[Any], None]:
    """A site that begins so, and goes on so until nobody listens."""

    def say(handler: Any) -> None:
        with contextlib.suppress(OSError):
            handler.wfile.write(start)
            ends_at = time.monotonic() + 20
            while time.monotonic() < ends_at:
                handler.wfile.write(again)
                handler.wfile.flush()
                time.sleep(pause_seconds)

    return say


def refused(fetcher: Fetcher, url: str, limits: FetchLimits = LIMITS) -> SluiceError:
    started = time.monotonic()
    with pytest.raises(SluiceError) as caught:
        fetcher.fetch(url, limits=limits)
    assert time.monotonic() - started < limits.timeout_seconds + 12  # the site would go on for 20
    return caught.value


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"<html>no head at all", "it begins with"),
        (b"ICY 200 OK\r\n\r\n", "it begins with"),
        (b"HTTP/2 200\r\n\r\n", "not an HTTP response"),
        (b"HTTP/1.1 1000 What\r\n\r\n", "not an HTTP response"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nx", "not an HTTP response"),
        (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nyes", "Content-Length"),
        (HEAD + b"Content-Length: 2, 2\r\n\r\nok", "lists lengths"),
        (HEAD + b"Content-Length: -1\r\n\r\nok", "Content-Length"),
        (HEAD + b"Content-Length: \r\n\r\nok", "Content-Length"),
        (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "Transfer-Encoding"),
        (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n", "Content-Length"),
        (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "Transfer-Encoding"),
        (HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding"),
        (HEAD + b"Transfer-Encoding: identity\r\n\r\nok", "Transfer-Encoding"),
        (HEAD + b"X : y\r\n\r\n", "header"),
        (HEAD + b"X: a\r\n Folded: b\r\n\r\n", "folded"),
        (HEAD + b"X: a\rSet-Cookie: b\r\n\r\n", "header"),
        (HEAD + b"X: a\0b\r\n\r\n", "header"),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "without CR"),
        (CHUNKED + b"zz\r\nok\r\n0\r\n\r\n", "chunk header"),
        (CHUNKED + b"-2\r\nok\r\n0\r\n\r\n", "chunk header"),
        (CHUNKED + b"f" * 21 + b"\r\nok\r\n0\r\n\r\n", "chunk header"),
        (CHUNKED + b"2\r\nokay\r\n0\r\n\r\n", "hunk"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 9 + HEAD + b"Content-Length: 0\r\n\r\n", "interim"),
    ],
)
def test_what_is_no_response_is_refused_by_name(
    tls_site: Any, tls_fetcher: Fetcher, answer: bytes, problem: str
) -> None:
    """Not a failure that is tried again, and parked in the end: then a site could make dead letters at will."""
    tls_site.call("/", said(answer))
    error = refused(tls_fetcher, tls_site.url())
    assert isinstance(error, PolicyRefused)
    assert error.rule == "malformed_response"
    assert problem in str(error)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "closed without a response"),
        (HEAD + b"X: y", "inside a head"),
        (HEAD + b"Content-Length: 9\r\n\r\nshort", "inside the body"),
        (CHUNKED + b"9\r\nshort", "inside the body"),
        (CHUNKED + b"fffffffffffffffff\r\nok\r\n0\r\n\r\n", "inside the body"),
        (CHUNKED + b"2\r\nok\r\n", "inside the body"),
    ],
)
def test_a_response_that_breaks_off_is_a_failure_of_the_site(
    tls_site: Any, tls_fetcher: Fetcher, answer: bytes, problem: str
) -> None:
    tls_site.call("/", said(answer))
    error = refused(tls_fetcher, tls_site.url())
    assert isinstance(error, Unavailable)
    assert problem in str(error)


MALFORMED_HEADS = (
    HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nyes",
    HEAD + b"X: a\r\n Folded: b\r\n\r\n",
    b"<html>no head at all\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\n\r\n" + HEAD + b"X : y\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\n\r\n" * 9 + HEAD + b"Content-Length: 0\r\n\r\n",
    HEAD + b"X: " + b"x" * 70_000,
)


@pytest.mark.parametrize("answer", MALFORMED_HEADS)
def test_what_the_proxy_finds_malformed_has_the_same_name(site: Any, fetcher: Fetcher, answer: bytes) -> None:
    """Of a page in the clear the egress proxy reads the head."""
    site.call("/", said(answer))
    error = refused(fetcher, site.url())
    assert isinstance(error, PolicyRefused), error
    assert error.rule == "malformed_response"


@pytest.mark.parametrize("answer", [b"", HEAD + b"X: y", b"HTTP/1.1 103 Early Hints\r\n\r\n"])
def test_what_breaks_off_before_the_proxy_has_its_head_is_a_failure_of_the_site(
    site: Any, fetcher: Fetcher, answer: bytes
) -> None:
    site.call("/", said(answer))
    assert isinstance(refused(fetcher, site.url()), Unavailable)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 8 + HEAD + b"Content-Length: 2\r\n\r\nok", b"ok"),
        (HEAD + b"Content-Length: 2\r\n\r\nok" + HEAD + b"Set-Cookie: a\r\nContent-Length: 2\r\n\r\nno", b"ok"),
        (HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok and more", b"ok"),
        (CHUNKED + b"2;a=b\r\nok\r\n0\r\nContent-Type: text/evil\r\nLocation: /x\r\n\r\n" + HEAD, b"ok"),
        (b"HTTP/1.0 200\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 204 None\r\nContent-Length: 2\r\n\r\nok", b""),
        (b"HTTP/1.1 304 Same\r\nContent-Length: 999999999\r\n\r\n", b""),
    ],
)
def test_only_the_response_counts_and_nothing_before_or_after_it(
    tls_site: Any, tls_fetcher: Fetcher, answer: bytes, body: bytes
) -> None:
    tls_site.call("/", said(answer))
    page = tls_fetcher.fetch(tls_site.url(), limits=LIMITS)
    assert isinstance(page, Fetched)
    assert page.body == body
    assert not page.headers.keys() & {"link", "set-cookie", "location", "content-type"}


@pytest.mark.parametrize(
    ("start", "again", "problem"),
    [
        (HEAD, b"X-Header: 1\r\n" * 1_000, "a head larger"),
        (HEAD + b"X: ", b"x" * 10_000, "a head larger"),
        (b"HTTP/1.1 200 ", b"x" * 10_000, "a head larger"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 4, "interim"),
        (CHUNKED + b"0\r\n", b"X-Trailer: 1\r\n" * 1_000, "framing"),
        (CHUNKED + b"1;", b"x" * 10_000, "framing"),
        (CHUNKED, b"1\r\nx\r\n" * 10_000, "framing"),
    ],
)
def test_what_never_comes_to_the_body_is_cut(
    tls_site: Any, tls_fetcher: Fetcher, start: bytes, again: bytes, problem: str
) -> None:
    tls_site.call("/", repeated(start, again))
    error = refused(tls_fetcher, tls_site.url(), FetchLimits(timeout_seconds=30, max_bytes=2 * MAX_FRAMING_BYTES))
    assert isinstance(error, PolicyRefused)
    assert error.rule == "malformed_response"
    assert problem in str(error)


@pytest.mark.parametrize(
    "start",
    [
        HEAD + b"\r\n",
        CHUNKED + b"fffffff\r\n",
        HEAD + b"Content-Length: 999999999\r\n\r\n",
        HEAD + b"Content-Length: 99999999999999999999\r\n\r\n",
    ],
)
def test_a_body_without_end_is_refused(tls_site: Any, tls_fetcher: Fetcher, start: bytes) -> None:
    tls_site.call("/", repeated(start, b"x" * 100_000))
    error = refused(tls_fetcher, tls_site.url())
    assert isinstance(error, PolicyRefused)
    assert error.rule == "bytes"


@pytest.mark.parametrize(
    ("start", "again"),
    [
        (b"", b""),
        (HEAD + b"X: ", b"x"),
        (HEAD + b"\r\n", b"x"),
        (CHUNKED, b"1\r\nx\r\n"),
        (CHUNKED + b"0\r\n", b"x: y\r\n"),
        (HEAD + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x08\0\0\0\0\0\0", b"x"),
    ],
)
def test_drops_end_at_the_time_limit(tls_site: Any, tls_fetcher: Fetcher, start: bytes, again: bytes) -> None:
    tls_site.call("/", repeated(start, again, pause_seconds=0.02))
    assert isinstance(refused(tls_fetcher, tls_site.url(), BRIEF), TimedOut)


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", lambda data: gzip.compress(data, 1)),
        ("deflate", lambda data: zlib.compress(data, 1)),
        ("br", lambda data: brotli.compress(data, quality=1)),
        ("zstd", zstandard.ZstdCompressor(1).compress),
        ("br, zstd", lambda data: zstandard.ZstdCompressor().compress(brotli.compress(data, quality=1))),
    ],
)
def test_a_bomb_is_refused_for_its_size(site: Any, fetcher: Fetcher, encoding: str, pack: Any) -> None:
    site.put("/", pack(bytes(50_000_000)), Content_Encoding=encoding, Content_Type="text/html")
    error = refused(fetcher, site.url(), FetchLimits(timeout_seconds=10))
    assert isinstance(error, PolicyRefused)
    assert error.rule == "bytes"


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """Give each connection to a port of ours to a function; returns the address of that port."""
    listeners: list[socket.socket] = []

    def begin(handle: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            while True:
                try:
                    connected, _ = listener.accept()
                except OSError:
                    return
                with connected, contextlib.suppress(OSError):
                    handle(connected)

        threading.Thread(target=run, daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield begin
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def in_drops(data: bytes) -> Callable[[socket.socket], None]:
    def handle(connected: socket.socket) -> None:
        connected.recv(65_536)  # a site speaks when it is spoken to
        for start in range(len(data)):
            connected.sendall(data[start : start + 1])
            time.sleep(0.02)

    return handle


RECORD = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc"
"""The start of a handshake message of 16 KiB."""


@pytest.mark.parametrize("data", [RECORD + bytes(2_000), b"\x16\x03\x03\x00\x00" * 400])
def test_a_handshake_in_drops_ends_at_the_time_limit(serve: Any, authorities: ssl.SSLContext, data: bytes) -> None:
    address = serve(in_drops(data))
    with EgressProxy(EgressSettings(allow=(address,))) as proxy:
        error = refused(Fetcher(proxy.url, user_agent="test", tls=authorities), f"https://{address}/", BRIEF)
    assert isinstance(error, TimedOut)


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", RECORD])
def test_what_is_no_tls_is_a_failure_of_the_site(serve: Any, authorities: ssl.SSLContext, data: bytes) -> None:
    address = serve(lambda connected: connected.sendall(data))
    with EgressProxy(EgressSettings(allow=(address,))) as proxy:
        error = refused(Fetcher(proxy.url, user_agent="test", tls=authorities), f"https://{address}/")
    assert isinstance(error, Unavailable)
    assert not isinstance(error, TimedOut)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_does_not_answer_is_waited_for_no_longer_than_a_site(
    serve: Any, authorities: ssl.SSLContext, scheme: str
) -> None:
    address = serve(lambda connected: time.sleep(1.5))
    fetcher = Fetcher(f"http://{address}", user_agent="test", tls=authorities)
    assert isinstance(refused(fetcher, f"{scheme}://site.example/", BRIEF), TimedOut)


def test_an_answer_counts_that_comes_before_all_is_sent(serve: Any, authorities: ssl.SSLContext) -> None:
    def refuse(connected: socket.socket) -> None:
        connected.recv(1_000)
        connected.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")

    fetcher = Fetcher(f"http://{serve(refuse)}", user_agent="test", tls=authorities)
    answer = fetcher.exchange("http://site.example/", limits=LIMITS, method="POST", content=bytes(30_000_000))
    assert (answer.status, answer.body) == (413, b"no")


@pytest.mark.parametrize("path", ["/slow", "/fast"])
def test_work_that_is_no_longer_wanted_ends_at_once(
    tls_site: Any, tls_fetcher: Fetcher, trust: ssl.SSLContext, path: str
) -> None:
    """Whether the site is silent or sends faster than can be read."""
    tls_site.call("/slow", repeated(b"", b"", pause_seconds=0.02))
    tls_site.call("/fast", repeated(HEAD + b"\r\n", b"x" * 100_000))
    calls_off_at = time.monotonic() + 0.6

    def check_cancelled() -> None:
        if time.monotonic() > calls_off_at:
            raise LookupError("called off")

    with EgressProxy(
        EgressSettings(allow=(tls_site.address,)), limits=EgressLimits(max_response_bytes=10**12)
    ) as proxy:
        fetcher = Fetcher(proxy.url, user_agent="test", tls=trust, check_cancelled=check_cancelled)
        started = time.monotonic()
        with pytest.raises(LookupError):
            fetcher.fetch(tls_site.url(path), limits=FetchLimits(timeout_seconds=30, max_bytes=10**11))
    assert time.monotonic() - started < 5
