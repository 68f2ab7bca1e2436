"""One page over HTTP, bounded in every direction."""

from __future__ import annotations

import contextlib
import gzip
import logging
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.errors import InvalidInput, Overloaded, PolicyRefused, TimedOut, Unavailable
from sluice.ingest.egress.crawl_account import EgressLimits
from sluice.ingest.egress.proxy import EgressProxy, Refusal
from sluice.ingest.http.fetch import Fetched, Fetcher, FetchLimits, NotModified
from sluice.ingest.settings import EgressSettings
from tests.support.site import Site

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
    assert headers["accept-encoding"] == "gzip, deflate, br, zstd"
    assert not headers.keys() & {"cookie", "referer", "if-none-match", "proxy-authorization"}


def test_a_redirect_is_followed_address_by_address_and_each_is_judged_first(site: Any, fetcher: Fetcher) -> None:
    site.put("/old", status=301, Location="middle#part", Set_Cookie="track=1")
    site.put("/middle", status=307, Location=site.url("/new?utm_source=x"))
    site.put("/new", b"here")
    approached: list[str] = []
    page = fetch(fetcher, site.url("/old"), pre_request=approached.append)
    assert (page.body, page.url, page.final_url) == (b"here", site.url("/old"), site.url("/new"))
    assert approached == [site.url("/old"), site.url("/middle"), site.url("/new")]
    assert not any("cookie" in asked.headers for asked in site.asked)


def test_a_redirect_that_may_not_be_approached_is_not_asked_for(site: Any, fetcher: Fetcher) -> None:
    site.put("/a", status=302, Location="/b")

    def pre_request(url: str) -> None:
        if url.endswith("/b"):
            raise PolicyRefused("robots", "no")

    with pytest.raises(PolicyRefused, match="robots"):
        fetcher.fetch(site.url("/a"), limits=LIMITS, pre_request=pre_request)
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
    site.put("/compress", b"anything", Content_Encoding="compress")
    site.put("/cut", gzip.compress(b"x" * 90_000)[:-9], Content_Encoding="gzip")
    assert len(fetch(fetcher, site.url("/small")).body) == 90_000
    for path, rule in (
        ("/bomb", "bytes"),
        ("/large", "bytes"),
        ("/brotli", "encoding"),
        ("/compress", "encoding"),
        ("/cut", "encoding"),
    ):
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
        for _ in range(2_000):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.02)

    site.call("/", drip)
    started = time.monotonic()
    with pytest.raises(TimedOut):
        fetcher.fetch(site.url(), limits=FetchLimits(timeout_seconds=0.4))
    assert time.monotonic() - started < 20  # a deadline for each read alone would let it go on for 40


def test_an_unchanged_page_is_not_sent_again(site: Any, fetcher: Fetcher) -> None:
    site.put("/", status=304, ETag='"one"')
    answer = fetcher.fetch(site.url(), limits=LIMITS, etag='"one"', last_modified="Mon, 01 Jan 2024 00:00:00 GMT")
    assert isinstance(answer, NotModified)
    assert site.asked[0].headers["if-none-match"] == '"one"'
    assert site.asked[0].headers["if-modified-since"] == "Mon, 01 Jan 2024 00:00:00 GMT"


def test_a_validator_goes_to_the_address_that_it_came_from_and_to_no_other(site: Any, fetcher: Fetcher) -> None:
    """To another resource it means nothing, and a stranger would learn what we hold (RFC 9110, 8.8)."""
    site.put("/old", status=301, Location="/new")
    site.put("/new", b"here", ETag='"one"')
    held = {"etag": '"one"', "last_modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
    conditions = {"if-none-match", "if-modified-since"}

    fetch(fetcher, site.url("/old"), **held)
    assert [bool(asked.headers.keys() & conditions) for asked in site.asked] == [True, False]

    site.asked.clear()
    site.put("/new", status=304, ETag='"one"')
    answer = fetcher.fetch(site.url("/old"), limits=LIMITS, conditions_for=site.url("/new"), **held)
    assert isinstance(answer, NotModified)
    assert answer.final_url == site.url("/new")
    assert [bool(asked.headers.keys() & conditions) for asked in site.asked] == [False, True]


def test_unchanged_is_no_answer_where_nothing_was_to_be_compared(site: Any, fetcher: Fetcher) -> None:
    site.put("/", status=304)
    assert fetch(fetcher, site.url()).status == 304
    assert fetch(fetcher, site.url(), etag='"one"', conditions_for=site.url("/other")).status == 304


@pytest.mark.parametrize("etag", ['"a"\r\nX-Admin: yes', '"a\n"', '"\0"', '"\u2019"'])
def test_a_validator_that_no_header_can_carry_is_not_sent(site: Any, fetcher: Fetcher, etag: str) -> None:
    site.put("/", b"here")
    assert fetch(fetcher, site.url(), etag=etag).body == b"here"
    assert not site.asked[0].headers.keys() & {"if-none-match", "x-admin"}


def test_a_header_cannot_begin_another_and_its_value_stands_in_no_error(site: Any, fetcher: Fetcher) -> None:
    with pytest.raises(InvalidInput) as caught:
        fetcher.exchange(site.url(), limits=LIMITS, headers={"X-Key": "hunter2\r\nX-Admin: yes"})
    assert caught.value.field == "X-Key"
    assert "hunter2" not in str(caught.value)
    assert site.asked == []


def test_what_was_received_is_counted_as_it_was_sent(site: Any, fetcher: Fetcher) -> None:
    packed = gzip.compress(b"x" * 90_000)
    site.put("/old", b"moved" * 100, status=302, Location="/new")
    site.put("/new", packed, Content_Encoding="gzip")
    site.put("/same", status=302, Location="/still")
    site.put("/still", status=304)
    assert fetch(fetcher, site.url("/new")).received_bytes == len(packed)
    assert fetch(fetcher, site.url("/old")).received_bytes == len(packed) + 500
    same = fetcher.fetch(site.url("/same"), limits=LIMITS, etag='"one"', conditions_for=site.url("/still"))
    assert isinstance(same, NotModified)
    assert same.received_bytes == 0


def test_of_a_redirect_that_is_followed_little_is_read(site: Any, fetcher: Fetcher) -> None:
    def endless(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 302 Found\r\nLocation: /new\r\nContent-Encoding: what\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(b"x" * 10_000)

    site.call("/old", endless)
    site.put("/new", b"here")
    page = fetch(fetcher, site.url("/old"), FetchLimits(timeout_seconds=5, max_bytes=1_000_000))
    assert page.body == b"here"
    assert page.received_bytes < 200_000


def test_a_call_may_go_out_by_another_way(site: Any, fetcher: Fetcher) -> None:
    site.put("/", b"here")
    with EgressProxy(EgressSettings()) as closed:
        with pytest.raises(PolicyRefused, match="egress"):
            fetcher.fetch(site.url(), limits=LIMITS, proxy_url=closed.url)
        with pytest.raises(PolicyRefused, match="egress"):
            fetcher.exchange(site.url(), limits=LIMITS, proxy_url=closed.url)
    assert fetch(fetcher, site.url()).body == b"here"
    with pytest.raises(Unavailable):
        fetcher.fetch(site.url(), limits=LIMITS, proxy_url="http://127.0.0.1:1")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_secret_that_the_proxy_does_not_know_is_no_answer_of_the_site(
    site: Any, proxy: EgressProxy, fetcher: Fetcher, scheme: str
) -> None:
    nobody = proxy.url.replace("crawl:", "crawl:x")
    with pytest.raises(Unavailable, match="407") as caught:
        fetcher.fetch(f"{scheme}://{site.address}/", limits=LIMITS, proxy_url=nobody)
    assert nobody.split(":")[2].split("@")[0] not in str(caught.value)


@pytest.mark.parametrize("proxy_url", ["socks5://127.0.0.1:1", "http://127.0.0.1", "http://:1", "http://x:hunter2@a:b"])
def test_a_proxy_has_an_address(proxy_url: str, authorities: ssl.SSLContext) -> None:
    with pytest.raises(InvalidInput, match="proxy_url") as caught:
        Fetcher(proxy_url, user_agent="test", tls=authorities)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("kind", ["plain", "tls"])
def test_content_is_posted_with_its_length(make_site: Any, tls_site: Any, trust: ssl.SSLContext, kind: str) -> None:
    one = tls_site if kind == "tls" else make_site()
    one.put("/", b"thanks")
    content = bytes(range(256)) * 2_000
    with EgressProxy(EgressSettings(allow=(one.address,))) as proxy:
        fetcher = Fetcher(proxy.url, user_agent="test", tls=trust)
        answer = fetcher.exchange(one.url(), limits=LIMITS, method="POST", content=content)
        assert (answer.body, one.asked[0].method, one.asked[0].body) == (b"thanks", "POST", content)
        assert fetcher.exchange(one.url(), limits=LIMITS, method="POST", content=b"").body == b"thanks"
    assert one.asked[1].headers["content-length"] == "0"


def test_a_head_has_no_body_whatever_length_it_names(site: Any, fetcher: Fetcher) -> None:
    answer = fetcher.exchange(site.url(), limits=LIMITS, method="HEAD")
    assert (answer.status, answer.body) == (501, b"")  # the site knows no HEAD, and says so at length
    assert int(answer.headers["content-length"]) > 0


def test_a_site_is_told_which_of_its_names_is_meant_and_which_protocol(
    certificate: tuple[Path, Path], trust: ssl.SSLContext
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    named: list[str] = []
    context.sni_callback = lambda connection, name, _: named.append(name)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.load_verify_locations(certificate[0])
    trusting.check_hostname = False
    served = Site(context)

    async def ours(name: str, port: int) -> tuple[str, ...]:
        return ("127.0.0.1",)

    def protocol(handler: Any) -> None:
        chosen = handler.connection.selected_alpn_protocol()
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n" + str(chosen).encode())

    served.call("/", protocol)
    try:
        settings = EgressSettings(allow=(f"site.example:{served.port}",))
        with EgressProxy(settings, resolver=ours) as proxy:
            fetcher = Fetcher(proxy.url, user_agent="test", tls=trusting)
            assert fetch(fetcher, f"https://site.example:{served.port}/").body == b"http/1.1"
            with pytest.raises(Unavailable, match="certificate"):  # it is another's: of 127.0.0.1
                Fetcher(proxy.url, user_agent="test", tls=trust).fetch(
                    f"https://site.example:{served.port}/", limits=LIMITS
                )
    finally:
        served.close()
    assert named[0] == "site.example"


def test_many_threads_fetch_at_once_and_none_is_left_behind(site: Any, fetcher: Fetcher) -> None:
    for number in range(8):
        site.put(f"/{number}", str(number) * 50_000)
    before = threading.active_count()
    with ThreadPoolExecutor(8) as pool:
        urls = [site.url(f"/{number % 8}") for number in range(64)]
        pages = list(pool.map(lambda url: fetch(fetcher, url), urls))
    assert all(page.body.decode() == page.url[-1] * 50_000 for page in pages)
    assert threading.active_count() <= before + 1


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
    limits = EgressLimits(max_connections=1, connect_timeout_seconds=0.2)
    with EgressProxy(EgressSettings(allow=(site.address,)), limits=limits) as proxy:
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
    answer = fetcher.fetch(site.url(), limits=limits, pre_request=lambda url: threading.Event().wait(0.7) and None)
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
