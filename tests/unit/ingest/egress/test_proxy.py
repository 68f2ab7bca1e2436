"""Nothing leaves but through the proxy, and nothing gets through it that the rules forbid."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import ValidationError

from sluice.contracts.errors import InvalidInput, InvalidSetting, PolicyRefused, Unavailable
from sluice.ingest.egress.crawl_account import EgressLimits
from sluice.ingest.egress.proxy import EgressProxy, EgressRules, Refusal, check_address
from sluice.ingest.egress.rules import canonical_host
from sluice.ingest.egress.side import Side
from sluice.ingest.http.fetch import Fetched, Fetcher, FetchLimits
from sluice.ingest.search.port import SearchFilters, SearchQuery
from sluice.ingest.settings import EgressSettings
from sluice.ingest.url import normalise_url
from sluice.workers.context import Context
from sluice.workers.settings import Settings
from tests.support.repository import DATA

URLS = DATA / "url"


LIMITS = FetchLimits(timeout_seconds=5)


class Canary:
    """Listens on loopback and counts who comes."""

    def __init__(self) -> None:
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def canary() -> Iterator[Canary]:
    bird = Canary()
    yield bird
    bird.close()


def ask(proxy: EgressProxy, request: str, *, credentials: str | None = None) -> bytes:
    """Send raw bytes to the proxy (`{auth}` is its secret) and return all that comes back."""
    address = urlsplit(proxy.url)
    secret = credentials or f"{address.username}:{address.password}"
    auth = f"Proxy-Authorization: Basic {b64encode(secret.encode()).decode()}\r\n"
    with socket.create_connection(("127.0.0.1", address.port or 0), timeout=10) as connection:
        connection.sendall(request.replace("{auth}", auth).encode("latin-1"))
        return b"".join(iter(lambda: connection.recv(65_536), b""))


class TestAddresses:
    @pytest.mark.parametrize(
        "address", ["8.8.8.8", "93.184.216.34", "2606:4700::6810:85e5", "::ffff:8.8.8.8", "64:ff9b::808:808"]
    )
    def test_public_addresses_pass(self, address: str) -> None:
        assert check_address(address) is None

    @pytest.mark.parametrize(
        "address",
        [
            *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254"),
            *("172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1"),
            *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
            *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "fec0::1"),
            *("100::1", "2001:10::1", "3fff::1", "5f00::1", "64:ff9b:1::1", "4000::1"),
            *("::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::127.0.0.1", "64:ff9b::a00:1"),
            *("2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:808:808::1"),
            "2001:0:7f00:1::",  # Teredo by way of a server on loopback
            "2001:0:808:808:0:0:80ff:fffe",  # Teredo, its client 127.0.0.1
            "2606:4700::5efe:7f00:1",  # ISATAP
            *("not an address", ""),
        ],
    )
    def test_addresses_that_are_not_globally_routable_are_refused_with_a_reason(self, address: str) -> None:
        assert check_address(address)

    def test_the_reason_names_the_address_inside(self) -> None:
        assert "carries 10.0.0.1" in str(check_address("::ffff:10.0.0.1"))


class TestRules:
    def test_only_web_ports_are_open_unless_listed(self) -> None:
        rules = EgressRules(EgressSettings(allow=("search.internal:8888",)))
        assert rules.check_host("example.com", 443) is None
        refusal = rules.check_host("example.com", 22)
        assert refusal is not None
        assert refusal.rule == "port"
        assert rules.check_host("search.internal", 8888) is None
        assert rules.check_host("search.internal", 8889) is not None

    def test_denied_domains_beat_every_other_entry(self) -> None:
        rules = EgressRules(EgressSettings(allow=("bad.example:80",), deny_domains=("bad.example",)))
        for host in ("bad.example", "sub.bad.example", "BAD.example."):
            refusal = rules.check_host(host, 80)
            assert refusal is not None
            assert refusal.rule == "domain"
        assert rules.check_host("notbad.example", 80) is None

    def test_domains_may_be_listed_as_they_are_read(self) -> None:
        rules = EgressRules(EgressSettings(deny_domains=("Bücher.example",)))
        assert rules.check_host("www.xn--bcher-kva.example", 443) is not None

    def test_a_list_of_allowed_domains_closes_all_others(self) -> None:
        rules = EgressRules(EgressSettings(allow_domains=("python.org",)))
        assert rules.check_host("docs.python.org", 443) is None
        assert rules.check_host("example.com", 443) is not None

    def test_one_bad_address_refuses_them_all(self) -> None:
        rules = EgressRules(EgressSettings())
        assert rules.check_addresses("a.example", 80, ("8.8.8.8",)) is None
        assert rules.check_addresses("a.example", 80, ("8.8.8.8", "10.0.0.1")) is not None
        assert rules.check_addresses("a.example", 80, ()) is not None

    def test_hosts_are_read_as_a_browser_reads_them(self) -> None:
        assert canonical_host("0x7f.1") == canonical_host("2130706433") == canonical_host("①②⑦.0.0.1") == "127.0.0.1"
        assert canonical_host("::FFFF:7F00:1") == "::ffff:7f00:1"
        for nonsense in ("", "a b", "a/b", "user@host", "a:b:c", "[", "a#b", "%31"):
            assert canonical_host(nonsense) is None

    @pytest.mark.parametrize("entry", ["localhost", "localhost:", ":80", "localhost:http", "localhost:70000"])
    def test_an_exception_without_host_and_port_is_a_wrong_setting(self, entry: str) -> None:
        with pytest.raises(ValidationError, match="host:port"):
            EgressSettings(allow=(entry,))


class TestForwarding:
    def test_a_page_comes_through_and_hop_by_hop_headers_do_not(self, site: Any, proxy: EgressProxy) -> None:
        site.html("/page", "<p>hello", Connection="keep-alive", X_Sluice_Refused="a lie")
        answer = ask(
            proxy,
            f"GET {site.url('/page?q=1')} HTTP/1.1\r\nHost: elsewhere\r\n{{auth}}Connection: X-Private\r\n"
            "X-Private: 1\r\nX-Kept: 2\r\nTE: trailers\r\n\r\n",
        )
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert b"Connection: close" in head
        assert b"x-sluice" not in head.lower()
        assert body == b"<p>hello"
        headers = site.asked[0].headers
        assert headers["host"] == site.address
        assert headers["x-kept"] == "2"
        assert not headers.keys() & {"x-private", "te", "proxy-authorization"}
        assert site.asked[0].path == "/page?q=1"

    def test_a_body_is_carried_to_the_site(self, site: Any, proxy: EgressProxy) -> None:
        site.put("/form", b"thanks")
        with httpx.Client(proxy=proxy.url) as client:
            assert client.post(site.url("/form"), content=b"x" * 200_000).text == "thanks"
        assert len(site.asked[0].body) == 200_000

    def test_tls_goes_through_a_tunnel_that_may_carry_several_requests(
        self, tls_site: Any, trust: ssl.SSLContext
    ) -> None:
        tls_site.put("/", b"secret")
        with (
            EgressProxy(EgressSettings(allow=(tls_site.address,))) as proxy,
            httpx.Client(proxy=proxy.url, verify=trust) as client,
        ):
            assert [client.get(tls_site.url()).text for _ in range(3)] == ["secret"] * 3

    def test_many_clients_are_served_at_once(self, site: Any, proxy: EgressProxy) -> None:
        site.html("/", "<p>hello")
        fetcher = Fetcher(proxy.url, user_agent="test")
        with ThreadPoolExecutor(16) as pool:
            pages = list(pool.map(lambda _: fetcher.fetch(site.url(), limits=FetchLimits()), range(64)))
        assert {page.body for page in pages if isinstance(page, Fetched)} == {b"<p>hello"}

    def test_without_the_secret_nobody_is_served(self, site: Any, proxy: EgressProxy) -> None:
        request = f"GET {site.url()} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        assert b" 407 " in ask(proxy, f"POST {site.url()} HTTP/1.1\r\nContent-Length: 1\r\n\r\nx")
        assert b" 407 " in ask(proxy, request + "{auth}Content-Length: 1\r\n\r\nx", credentials="sluice:wrong")
        assert site.asked == []

    def test_a_client_that_waits_to_be_asked_is_served_on_the_same_connection(
        self, site: Any, proxy: EgressProxy
    ) -> None:
        site.put("/", b"welcome")
        request = f"GET {site.url()} HTTP/1.1\r\nHost: x\r\n"
        answer = ask(proxy, request + "\r\n" + request + "{auth}\r\n")
        assert answer.startswith(b"HTTP/1.1 407 ")
        assert b'Proxy-Authenticate: Basic realm="sluice"' in answer
        assert answer.endswith(b"welcome")

    @pytest.mark.parametrize(
        "head",
        [
            "GET /relative HTTP/1.1\r\n",
            "nonsense\r\n",
            "CONNECT no-port HTTP/1.1\r\n",
            "CONNECT host:99999 HTTP/1.1\r\n",
            "GET {url} HTTP/1.1\r\nNo colon\r\n",
            "GET {url} HTTP/1.1\r\nSpaced : x\r\n",
            "POST {url} HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            "POST {url} HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n",
            "GET {url} HTTP/1.1\r\nX: " + "y" * 70_000 + "\r\n",
        ],
    )
    def test_what_could_be_read_in_two_ways_is_not_read_at_all(self, site: Any, proxy: EgressProxy, head: str) -> None:
        answer = ask(proxy, head.replace("{url}", site.url()) + "{auth}\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert site.asked == []


class TestRefusals:
    def test_a_refusal_is_answered_by_its_rule_and_recorded(
        self, proxy: EgressProxy, refusals: list[Refusal], canary: Canary
    ) -> None:
        answer = ask(proxy, "GET http://127.0.0.1/ HTTP/1.1\r\n{auth}\r\n")
        assert answer.startswith(b"HTTP/1.1 403 Refused address: 127.0.0.1 is not globally routable")
        assert b"X-Sluice-Refused: address\r\n" in answer
        tunnel = ask(proxy, f"CONNECT 127.0.0.1:{canary.port} HTTP/1.1\r\n{{auth}}\r\n")
        assert tunnel.startswith(b"HTTP/1.1 403 Refused port: ")
        assert [(refusal.host, refusal.rule) for refusal in refusals] == [
            ("127.0.0.1", "address"),
            ("127.0.0.1", "port"),
        ]
        assert canary.connections == 0

    def test_only_http_leaves_in_the_clear(self, proxy: EgressProxy, refusals: list[Refusal]) -> None:
        for scheme in ("https", "ftp", "ws"):
            assert b"X-Sluice-Refused: scheme" in ask(proxy, f"GET {scheme}://example.com/ HTTP/1.1\r\n{{auth}}\r\n")
        assert [refusal.rule for refusal in refusals] == ["scheme"] * 3

    def test_a_name_that_resolves_inside_is_refused_whatever_else_it_resolves_to(self, canary: Canary) -> None:
        async def inside(host: str, port: int) -> tuple[str, ...]:
            return ("93.184.216.34", "127.0.0.1")

        with EgressProxy(EgressSettings(ports=(canary.port,)), resolver=inside) as proxy:
            answer = ask(proxy, f"CONNECT rebind.example:{canary.port} HTTP/1.1\r\n{{auth}}\r\n")
        assert b"X-Sluice-Refused: address" in answer
        assert canary.connections == 0

    def test_a_name_is_resolved_once_and_the_address_that_was_judged_is_dialled(
        self, site: Any, canary: Canary, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An answer that changes between check and use would reach inside; there is no second question."""
        questions: list[str] = []
        dialled: list[tuple[str, ...]] = []

        async def alternating(host: str, port: int) -> tuple[str, ...]:
            questions.append(host)
            return ("93.184.216.34",) if len(questions) % 2 else ("127.0.0.1",)

        async def dial(addresses: tuple[str, ...], port: int, limit_seconds: float) -> Any:
            dialled.append(addresses)
            _, side = await asyncio.get_running_loop().create_connection(Side, "127.0.0.1", site.port)
            return side

        monkeypatch.setattr("sluice.ingest.egress.dial.dial", dial)
        site.put("/", b"outside")
        with EgressProxy(EgressSettings(ports=(80, canary.port)), resolver=alternating) as proxy:
            answers = [ask(proxy, "GET http://rebind.example/ HTTP/1.1\r\n{auth}\r\n") for _ in range(40)]
        assert len(questions) == 40
        assert dialled == [("93.184.216.34",)] * 20
        assert sum(answer.endswith(b"outside") for answer in answers) == 20
        assert sum(b"X-Sluice-Refused: address" in answer for answer in answers) == 20
        assert canary.connections == 0

    def test_no_known_spelling_of_an_inner_address_reaches_the_canary(self, canary: Canary, site: Any) -> None:
        """Published payloads, as they stand and with the canary's port, straight and by redirect."""
        payloads = _payloads(canary.port)

        async def hostile(host: str, port: int) -> tuple[str, ...]:
            return ("127.0.0.1",)

        settings = EgressSettings(allow=(site.address,), ports=(80, 443, canary.port))
        with EgressProxy(settings, resolver=hostile) as proxy:
            fetcher = Fetcher(proxy.url, user_agent="test")
            for payload in payloads:
                site.put("/go", b"", 302, Location=_visible(payload))
                for attempt in (payload, site.url("/go")) if "://" in _visible(payload) else (payload,):
                    with pytest.raises((InvalidInput, PolicyRefused)):
                        fetcher.fetch(attempt, limits=FetchLimits(timeout_seconds=5))
                _refused_raw(proxy, payload)
        assert canary.connections == 0


def _payloads(port: int) -> list[str]:
    listed = URLS / "ssrf_payloads.txt"
    if not listed.is_file():
        pytest.skip("no ssrf_payloads.txt on this machine")
    straight = listed.read_text().split("\n")
    hosts = ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::]", "localhost"]
    cases = json.loads((URLS / "urltestdata.json").read_text())
    broken = [
        case["input"] for case in cases if isinstance(case, dict) and case.get("failure") and not case.get("base")
    ]
    return [text for text in straight if text.strip()] + [f"http://{host}:{port}/" for host in hosts] + broken


def _visible(payload: str) -> str:
    """What of a payload a header can carry."""
    return "".join(character for character in payload if "!" <= character <= "~")


def _refused_raw(proxy: EgressProxy, payload: str) -> None:
    """The same payload from a client that checks nothing."""
    answer = ask(proxy, f"GET {_visible(payload)} HTTP/1.1\r\n{{auth}}\r\n")
    assert answer.split(b" ")[1] in (b"400", b"403"), (payload, answer[:80])


class TestPurposes:
    """An exception for one of our own services is none for what strangers' pages ask for."""

    def test_an_entry_opens_its_address_for_its_purpose_alone(self, site: Any, refusals: list[Refusal]) -> None:
        site.put("/", b"results")
        with EgressProxy(EgressSettings(allow=(f"search={site.address}",)), on_refusal=refusals.append) as proxy:
            assert (
                Fetcher(proxy.url_for("search"), user_agent="t").exchange(site.url(), limits=LIMITS).body == b"results"
            )
            for url in (proxy.url_for("crawl"), proxy.url_for("rerank"), proxy.url):
                with pytest.raises(PolicyRefused) as caught:
                    Fetcher(url, user_agent="t").exchange(site.url(), limits=LIMITS)
                assert caught.value.rule == "egress"
        assert len(site.asked) == 1
        assert [refusal.port for refusal in refusals] == [site.port] * 3

    def test_a_page_cannot_lead_us_to_a_service_of_ours(self, site: Any, make_site: Any) -> None:
        engine = make_site()
        site.put("/", b"", 302, Location=engine.url("/search?q=x"))
        settings = EgressSettings(allow=(site.address, f"search={engine.address}"))
        with EgressProxy(settings) as proxy, pytest.raises(PolicyRefused):
            Fetcher(proxy.url, user_agent="t").fetch(site.url(), limits=LIMITS)
        assert engine.asked == []

    def test_an_entry_without_a_purpose_is_for_pages(self) -> None:
        rules = EgressRules(EgressSettings(allow=("a.example:8080", "search=b.example:8080", "crawl=b.example:8080")))
        assert rules.is_listed("a.example", 8080, "crawl")
        assert not rules.is_listed("a.example", 8080, "search")
        assert rules.is_listed("b.example", 8080, "crawl")
        assert rules.is_listed("b.example", 8080, "search")

    def test_a_purpose_cannot_be_claimed_with_the_secret_of_another(self, site: Any) -> None:
        with EgressProxy(EgressSettings(allow=(f"search={site.address}",))) as proxy:
            ours = urlsplit(proxy.url_for("crawl"))
            answer = ask(
                proxy,
                f"GET {site.url()} HTTP/1.1\r\nContent-Length: 1\r\n{{auth}}\r\nx",
                credentials=f"search:{ours.password}",
            )
        assert answer.startswith(b"HTTP/1.1 407")
        assert site.asked == []

    @pytest.mark.parametrize("entry", ["seach=127.0.0.1:80", "=127.0.0.1:80", "embed=127.0.0.1:80", "search=127.0.0.1"])
    def test_an_entry_that_is_none_is_refused_with_what_would_be_one(self, entry: str) -> None:
        with pytest.raises(ValidationError, match=r"search=127\.0\.0\.1:8888"):
            EgressSettings(allow=(entry,))

    @pytest.mark.parametrize(
        ("service", "entry", "purpose"),
        [
            ({"search": {"searxng_url": "http://127.0.0.1:8888/"}}, "127.0.0.1:8888", "search"),
            ({"search": {"searxng_url": "http://localhost"}}, "LOCALHOST:80", "search"),
            ({"rerank": {"provider": "http", "url": "https://127.0.0.1/v1", "model": "m"}}, "127.0.0.1:443", "rerank"),
        ],
    )
    def test_an_entry_for_a_service_must_say_what_it_is_for(self, service: Any, entry: str, purpose: str) -> None:
        with pytest.raises(InvalidSetting, match=f"{purpose}={entry}") as caught:
            Settings.model_validate({**service, "egress": {"allow": [entry]}})
        assert caught.value.field == "egress.allow"
        assert f"crawl={entry}" in caught.value.remedy
        Settings.model_validate({**service, "egress": {"allow": [f"{purpose}={entry}", f"crawl={entry}"]}})

    def test_search_and_pages_of_one_process_have_different_ways_out(self, site: Any, tmp_path: Path) -> None:
        site.put("/search", json.dumps({"results": [{"url": "https://a.example/", "title": "A"}]}))
        settings = {
            "data_dir": tmp_path,
            "broker_url": "redis://127.0.0.1:1",
            "search": {"enabled": True, "providers": ["searxng"], "searxng_url": site.url()},
            "crawl": {"enabled": True, "render": "never"},
            "egress": {"allow": [f"search={site.address}"]},
        }
        context = Context(Settings.model_validate(settings))
        try:
            query = SearchQuery("q", "en", 1, SearchFilters(), date(2024, 1, 1))
            providers: Any = context.search_web.keywords["providers"]  # type: ignore[attr-defined]
            assert len(providers[0].search(query).results) == 1
            with pytest.raises(PolicyRefused):
                context.fetcher("crawl").fetch(site.url("/page"), limits=LIMITS)
        finally:
            context.close()
        assert [path.partition("?")[0] for path in site.paths()] == ["/search"]


class TestLimits:
    def test_a_body_that_is_announced_too_large_is_refused_before_it_is_sent(
        self, site: Any, refusals: list[Refusal]
    ) -> None:
        site.put("/", b"x" * 5_000)
        settings = EgressSettings(allow=(site.address,))
        limits = EgressLimits(max_response_bytes=1_000)
        with EgressProxy(settings, limits=limits, on_refusal=refusals.append) as proxy:
            answer = ask(proxy, f"GET {site.url()} HTTP/1.1\r\n{{auth}}\r\n")
        assert b"X-Sluice-Refused: bytes" in answer
        assert [refusal.rule for refusal in refusals] == ["bytes"]

    def test_an_endless_body_is_cut(self, site: Any, refusals: list[Refusal]) -> None:
        def endless(handler: Any) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                handler.wfile.write(b"x" * 65_536)

        site.call("/", endless)
        settings = EgressSettings(allow=(site.address,))
        limits = EgressLimits(max_response_bytes=1_000_000)
        with (
            EgressProxy(settings, limits=limits, on_refusal=refusals.append) as proxy,
            httpx.Client(proxy=proxy.url) as client,
            pytest.raises(httpx.TransportError),
        ):
            client.get(site.url())
        assert [refusal.rule for refusal in refusals] == ["bytes"]

    def test_a_site_that_falls_silent_is_given_up(self, site: Any) -> None:
        released = threading.Event()
        site.call("/", lambda handler: released.wait(10))
        with EgressProxy(EgressSettings(allow=(site.address,)), limits=EgressLimits(idle_timeout_seconds=0.2)) as proxy:
            started = time.monotonic()
            answer = ask(proxy, f"GET {site.url()} HTTP/1.1\r\n{{auth}}\r\n")
            released.set()
        assert answer.startswith(b"HTTP/1.1 504 ")
        assert time.monotonic() - started < 5

    def test_a_silent_tunnel_is_cut(self, site: Any) -> None:
        with EgressProxy(EgressSettings(allow=(site.address,)), limits=EgressLimits(idle_timeout_seconds=0.2)) as proxy:
            try:
                answer = ask(proxy, f"CONNECT {site.address} HTTP/1.1\r\n{{auth}}\r\n")
            except ConnectionResetError:
                return
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"

    def test_failures_on_the_way_have_their_own_statuses(self) -> None:
        async def unknown(host: str, port: int) -> tuple[str, ...]:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")

        async def endless(host: str, port: int) -> tuple[str, ...]:
            await asyncio.sleep(60)
            return ()

        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        with EgressProxy(EgressSettings(allow=(f"127.0.0.1:{port}",)), resolver=unknown) as proxy:
            assert b" 502 Failed connect" in ask(proxy, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n{{auth}}\r\n")
            assert b" 502 Failed name not found" in ask(proxy, "GET http://no.example/ HTTP/1.1\r\n{auth}\r\n")
        with EgressProxy(EgressSettings(), limits=EgressLimits(connect_timeout_seconds=0.1), resolver=endless) as proxy:
            assert b" 504 Failed connect timeout" in ask(proxy, "CONNECT slow.example:443 HTTP/1.1\r\n{auth}\r\n")

    def test_a_site_that_speaks_no_http_is_a_failure(self, site: Any, proxy: EgressProxy) -> None:
        site.call("/", lambda handler: handler.wfile.write(b"SSH-2.0-OpenSSH\r\n\r\n"))
        assert b" 502 Failed" in ask(proxy, f"GET {site.url()} HTTP/1.1\r\n{{auth}}\r\n")

    def test_connections_beyond_the_limit_are_told_to_come_back(self, site: Any) -> None:
        settings, limits = (
            EgressSettings(allow=(site.address,)),
            EgressLimits(max_connections=1, connect_timeout_seconds=0.2),
        )
        with (
            EgressProxy(settings, limits=limits) as proxy,
            socket.create_connection(("127.0.0.1", urlsplit(proxy.url).port)) as held,
        ):
            address = urlsplit(proxy.url)
            secret = b64encode(f"{address.username}:{address.password}".encode()).decode()
            held.sendall(f"CONNECT {site.address} HTTP/1.1\r\nProxy-Authorization: Basic {secret}\r\n\r\n".encode())
            assert b" 200 " in held.recv(1_000)
            assert b" 503 " in ask(proxy, f"CONNECT {site.address} HTTP/1.1\r\n{{auth}}\r\n")

    def test_announcements_without_end_are_cut(self, site: Any, proxy: EgressProxy) -> None:
        def announcing(handler: Any) -> None:
            while True:
                handler.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: <" + b"x" * 30_000 + b">\r\n\r\n")

        site.call("/", announcing)
        with contextlib.suppress(ConnectionResetError):
            assert len(ask(proxy, f"GET {site.url()} HTTP/1.1\r\n{{auth}}\r\n")) < 1_000_000

    def test_a_length_beyond_all_measure_is_no_http(self, site: Any, proxy: EgressProxy) -> None:
        site.call(
            "/", lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\n" % (b"9" * 5_000))
        )
        assert b" 502 Failed" in ask(proxy, f"GET {site.url()} HTTP/1.1\r\n{{auth}}\r\n")

    def test_a_name_that_no_name_server_could_hold_is_not_found(self, proxy: EgressProxy) -> None:
        assert b" 502 Failed name not found" in ask(proxy, f"CONNECT {'a' * 70}.example:443 HTTP/1.1\r\n{{auth}}\r\n")

    def test_silent_name_servers_hold_up_neither_other_names_nor_the_end(
        self, site: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answered, real = threading.Event(), socket.getaddrinfo

        def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
            if host == "slow.example":
                answered.wait(20)
            return real("127.0.0.1" if host == "quick.example" else host, *arguments, **options)

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        quick = f"quick.example:{site.port}"
        started = time.monotonic()
        with EgressProxy(EgressSettings(allow=(quick,)), limits=EgressLimits(connect_timeout_seconds=1.0)) as proxy:
            slow = [
                threading.Thread(target=ask, args=(proxy, "CONNECT slow.example:443 HTTP/1.1\r\n{auth}\r\n"))
                for _ in range(40)
            ]
            for thread in slow:
                thread.start()
            assert b" 404 " in ask(proxy, f"GET http://{quick}/ HTTP/1.1\r\n{{auth}}\r\n")
            for thread in slow:
                thread.join()
        answered.set()
        assert time.monotonic() - started < 10


class TestLife:
    def test_stopping_ends_open_connections_and_the_thread(self, site: Any) -> None:
        proxy = EgressProxy(EgressSettings(allow=(site.address,)))
        proxy.start()
        address = urlsplit(proxy.url)
        with socket.create_connection(("127.0.0.1", address.port or 0), timeout=30) as idle:
            proxy.stop()
            with contextlib.suppress(ConnectionResetError):
                assert idle.recv(1) == b""
        proxy.stop()
        assert not [thread for thread in threading.enumerate() if thread.name == "egress" and thread.is_alive()]
        with pytest.raises(Unavailable):
            _ = proxy.url

    def test_the_secret_differs_each_time_and_stands_in_no_repr(self) -> None:
        with EgressProxy(EgressSettings()) as first, EgressProxy(EgressSettings()) as second:
            secrets = {urlsplit(proxy.url).password for proxy in (first, second)}
            assert len(secrets) == 2
            assert not any(secret in repr(first) for secret in secrets if secret)


def test_normalisation_does_not_hide_an_address_from_the_proxy() -> None:
    assert canonical_host(urlsplit(normalise_url("http://0x7f.1/")).hostname or "") == "127.0.0.1"
