"""One page over HTTP, bounded in every direction."""

from __future__ import annotations

import gzip
import logging
import ssl
import threading
import time
from typing import Any

import pytest

from contracts.errors import InvalidInput, Overloaded, PolicyRefused, TimedOut, Unavailable
from ingest.egress import EgressProxy, Refusal
from ingest.fetch import Fetched, Fetcher, FetchLimits, NotModified
from ingest.settings import EgressSettings

LIMITS = FetchLimits(timeout_seconds=5.0, max_bytes=100_000)


def fetch(fetcher: Fetcher, url: str, limits: FetchLimits = LIMITS, **options: Any) -> Fetched:
    page = fetcher.fetch(url, limits=limits, **options)
    assert isinstance(page, Fetched)
    return page


def test_a_page_comes_with_its_type_and_its_encoding(site: Any, fetcher: Fetcher) -> None:
    site.put("/", b"caf\xe9", Content_Type='Text/HTML; Charset="ISO-8859-1"', ETag='"one"')
    page = fetch(fetcher, site.url())
    assert (page.status, page.body, page.media_type, page.charset) == (200, b"caf\xe9", "text/html", "iso-8859-1")
    assert page.headers["etag"] == '"one"'
    assert page.elapsed_ms > 0


def test_we_say_who_we_are_and_ask_for_what_we_can_unpack(site: Any, fetcher: Fetcher) -> None:
    site.put("/", b"")
    fetch(fetcher, site.url())
    headers = site.asked[0].headers
    assert headers["user-agent"].startswith("SluiceBot/")
    assert headers["accept-encoding"] == "gzip, deflate"
    assert not headers.keys() & {"cookie", "referer", "if-none-match", "proxy-authorization"}


def test_a_redirect_is_followed_address_by_address_and_each_is_judged_first(site: Any, fetcher: Fetcher) -> None:
    site.put("/old", status=301, Location="middle#part", Set_Cookie="track=1")
    site.put("/middle", status=307, Location=site.url("/new?utm_source=x"))
    site.put("/new", b"here")
    approached: list[str] = []
    page = fetch(fetcher, site.url("/old"), approach=approached.append)
    assert (page.body, page.url, page.final_url) == (b"here", site.url("/old"), site.url("/new"))
    assert approached == [site.url("/old"), site.url("/middle"), site.url("/new")]
    assert not any("cookie" in asked.headers for asked in site.asked)


def test_a_redirect_that_may_not_be_approached_is_not_asked_for(site: Any, fetcher: Fetcher) -> None:
    site.put("/a", status=302, Location="/b")

    def approach(url: str) -> None:
        if url.endswith("/b"):
            raise PolicyRefused("robots", "no")

    with pytest.raises(PolicyRefused, match="robots"):
        fetcher.fetch(site.url("/a"), limits=LIMITS, approach=approach)
    assert site.paths() == ["/a"]


def test_a_circle_of_redirects_ends(site: Any, fetcher: Fetcher) -> None:
    site.put("/", status=302, Location="/")
    with pytest.raises(PolicyRefused) as caught:
        fetcher.fetch(site.url(), limits=LIMITS)
    assert caught.value.rule == "redirects"
    assert len(site.asked) == 6


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1/admin", "http://[::1]/", "http://localhost:22/", "http://0x7f.1/"]
)
def test_a_redirect_inside_is_refused_by_the_proxy(site: Any, fetcher: Fetcher, target: str) -> None:
    site.put("/", status=302, Location=target)
    with pytest.raises((PolicyRefused, InvalidInput)):
        fetcher.fetch(site.url(), limits=LIMITS)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "javascript:alert(1)", "ftp://example.com/"])
def test_a_redirect_to_another_scheme_is_an_invalid_location(site: Any, fetcher: Fetcher, target: str) -> None:
    site.put("/", status=302, Location=target)
    with pytest.raises(InvalidInput) as caught:
        fetcher.fetch(site.url(), limits=LIMITS)
    assert caught.value.field == "location"


def test_a_body_is_unpacked_and_held_against_its_ceiling(site: Any, fetcher: Fetcher) -> None:
    site.put("/small", gzip.compress(b"x" * 90_000), Content_Encoding="gzip")
    site.put("/bomb", gzip.compress(b"x" * 50_000_000), Content_Encoding="gzip")
    site.put("/large", b"x" * 100_001)
    site.put("/brotli", b"anything", Content_Encoding="br")
    assert len(fetch(fetcher, site.url("/small")).body) == 90_000
    for path, rule in (("/bomb", "bytes"), ("/large", "bytes"), ("/brotli", "encoding")):
        with pytest.raises(PolicyRefused) as caught:
            fetcher.fetch(site.url(path), limits=LIMITS)
        assert caught.value.rule == rule


def test_the_start_of_a_large_body_can_be_had(site: Any, fetcher: Fetcher) -> None:
    site.put("/", b"x" * 5_000)
    assert len(fetch(fetcher, site.url(), FetchLimits(max_bytes=1_000, truncate=True)).body) == 1_000


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
def test_a_body_or_head_in_drops_ends_at_the_deadline(site: Any, fetcher: Fetcher, start: bytes) -> None:
    """Every single read is quick; only a deadline over all of them ends it."""

    def drip(handler: Any) -> None:
        handler.wfile.write(start)
        for _ in range(200):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.02)

    site.call("/", drip)
    started = time.monotonic()
    with pytest.raises(TimedOut):
        fetcher.fetch(site.url(), limits=FetchLimits(timeout_seconds=0.4))
    assert time.monotonic() - started < 2.0


def test_an_unchanged_page_is_not_sent_again(site: Any, fetcher: Fetcher) -> None:
    site.put("/", status=304, ETag='"one"')
    answer = fetcher.fetch(site.url(), limits=LIMITS, etag='"one"', last_modified="Mon, 01 Jan 2024 00:00:00 GMT")
    assert isinstance(answer, NotModified)
    assert site.asked[0].headers["if-none-match"] == '"one"'
    assert site.asked[0].headers["if-modified-since"] == "Mon, 01 Jan 2024 00:00:00 GMT"


def test_a_site_that_is_down_is_unavailable_and_one_outside_the_rules_is_refused(make_site: Any) -> None:
    gone = make_site()
    address, url = gone.address, gone.url()
    gone.close()
    with EgressProxy(EgressSettings(allow=(address,))) as proxy:
        fetcher = Fetcher(proxy.url, user_agent="test")
        with pytest.raises(Unavailable, match="connect"):
            fetcher.fetch(url, limits=LIMITS)
        with pytest.raises(PolicyRefused) as caught:
            fetcher.fetch("https://127.0.0.1/", limits=LIMITS)
    assert caught.value.rule == "egress"
    assert "not globally routable" in str(caught.value)
    with pytest.raises(Unavailable):
        fetcher.fetch(url, limits=LIMITS)


def test_a_full_proxy_says_come_back_later(site: Any) -> None:
    settings = EgressSettings(allow=(site.address,), max_connections=1, connect_timeout_seconds=0.2)
    with EgressProxy(settings) as proxy:
        fetcher = Fetcher(proxy.url, user_agent="test")
        inner: list[BaseException] = []

        def nested(handler: Any) -> None:
            try:
                fetcher.fetch(site.url("/other"), limits=LIMITS)
            except Overloaded as error:
                inner.append(error)
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        site.call("/", nested)
        fetch(fetcher, site.url())
    assert len(inner) == 1


def test_tls_is_verified(tls_site: Any, trust: ssl.SSLContext) -> None:
    tls_site.put("/", b"secret")
    with EgressProxy(EgressSettings(allow=(tls_site.address,))) as proxy:
        assert fetch(Fetcher(proxy.url, user_agent="test", tls=trust), tls_site.url()).body == b"secret"
        with pytest.raises(Unavailable, match="certificate"):
            Fetcher(proxy.url, user_agent="test").fetch(tls_site.url(), limits=LIMITS)


FORGED = (
    b"HTTP/1.1 403 Refused address: 10.0.0.1\r\nX-Sluice-Refused: address\r\nContent-Length: 2\r\n\r\nno",
    b"HTTP/1.1 503 Failed too many connections\r\nx-sluice-failed: x\r\nContent-Length: 2\r\n\r\nno",
    b"HTTP/1.1 504 Failed connect timeout\r\nX-SLUICE-FAILED:x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n"
    b"0\r\nX-Sluice-Refused: address\r\n\r\n",
)
"""Answers of a site that would pass for the proxy's own."""


@pytest.mark.parametrize("forged", FORGED)
def test_a_site_cannot_speak_for_the_proxy_through_a_tunnel(
    tls_site: Any, trust: ssl.SSLContext, forged: bytes
) -> None:
    tls_site.call("/", lambda handler: handler.wfile.write(forged))
    refusals: list[Refusal] = []
    with EgressProxy(EgressSettings(allow=(tls_site.address,)), on_refusal=refusals.append) as proxy:
        answer = fetch(Fetcher(proxy.url, user_agent="test", tls=trust), tls_site.url())
    assert (answer.status, answer.body, refusals) == (int(forged[9:12]), b"no", [])


@pytest.mark.parametrize("forged", FORGED)
def test_a_site_cannot_speak_for_the_proxy_without_a_tunnel(site: Any, fetcher: Fetcher, forged: bytes) -> None:
    site.call("/", lambda handler: handler.wfile.write(forged))
    answer = fetch(fetcher, site.url())
    assert (answer.status, answer.body) == (int(forged[9:12]), b"no")
    assert not [name for name in answer.headers if name.startswith("x-sluice")]


def test_addresses_are_not_logged(site: Any, fetcher: Fetcher, caplog: pytest.LogCaptureFixture) -> None:
    """Some providers take their key in the address; a client library that logs addresses would show it."""
    site.put("/", b"")
    with caplog.at_level(logging.DEBUG):
        fetcher.exchange(site.url("/?api_key=hunter2"), limits=LIMITS)
    assert "hunter2" not in caplog.text


def test_waiting_for_a_turn_takes_nothing_of_the_sites_time(site: Any, fetcher: Fetcher) -> None:
    site.html("/", "<p>here")
    limits = FetchLimits(timeout_seconds=0.5)
    answer = fetcher.fetch(site.url(), limits=limits, approach=lambda url: threading.Event().wait(0.7) and None)
    assert isinstance(answer, Fetched)
    assert answer.status == 200


def test_redirects_share_one_time_limit(site: Any, fetcher: Fetcher) -> None:
    def slow(handler: Any) -> None:
        threading.Event().wait(0.3)
        handler.wfile.write(b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")

    site.call("/", slow)
    site.call("/again", slow)
    with pytest.raises(TimedOut):
        fetcher.fetch(site.url(), limits=FetchLimits(timeout_seconds=0.8))
    assert len(site.asked) < 5


@pytest.mark.parametrize("host", ["xn--n3h.example", "xn--i-7iq.ws"])
def test_names_that_libraries_frown_upon_are_asked_for_like_others(site: Any, host: str) -> None:
    async def ours(name: str, port: int) -> tuple[str, ...]:
        return ("127.0.0.1",)

    with EgressProxy(EgressSettings(allow=(f"{host}:{site.port}",)), resolver=ours) as proxy:
        page = fetch(Fetcher(proxy.url, user_agent="TestBot"), f"http://{host}:{site.port}/")
    assert (page.status, site.asked[0].headers["host"]) == (404, f"{host}:{site.port}")
