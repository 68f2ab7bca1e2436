"""Where only a proxy of the owner's network leads out, it is given checked addresses, and its password stays ours."""

from __future__ import annotations

import base64
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from sluice.contracts.errors import InvalidSetting
from sluice.ingest.egress.crawl_account import EgressLimits
from sluice.ingest.egress.dial import read_upstream
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.settings import EgressSettings

PASSWORD = "s3cr3t p@ss"
PUBLIC = "93.184.216.34"


class CorporateProxy:
    """A CONNECT proxy on loopback that takes every target for `site`, and remembers what it was asked."""

    def __init__(self, site_port: int) -> None:
        self.site_port = site_port
        self.asked: list[bytes] = []
        self.answer = b"HTTP/1.1 200 OK\r\nVia: corp\r\n\r\n"
        self.is_silent = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def url(self, user: str = "bot:s3cr3t%20p%40ss@") -> SecretStr:
        return SecretStr(f"http://{user}127.0.0.1:{self.port}")

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1) or b"\r\n\r\n"
            self.asked.append(head)
            if self.is_silent:
                client.recv(1)
                return
            client.sendall(self.answer)
            if b" 200 " in self.answer:
                self._tunnel(client)

    def _tunnel(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self.site_port)) as site:
            up = threading.Thread(target=_pump, args=(client, site), daemon=True)
            up.start()
            _pump(site, client)

    def close(self) -> None:
        if self._thread.is_alive():
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65_536):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)


async def public(host: str, port: int) -> tuple[str, ...]:
    """Every name is a public one, but those of the inside."""
    return ("10.0.0.7",) if "inside" in host else (PUBLIC,)


@pytest.fixture
def corporate(site: Any) -> Iterator[CorporateProxy]:
    running = CorporateProxy(site.port)
    yield running
    running.close()


def through(corporate: CorporateProxy, **settings: Any) -> EgressProxy:
    configured = EgressSettings(upstream_proxy_url=corporate.url(), **settings)
    return EgressProxy(configured, resolver=public, limits=EgressLimits(connect_timeout_seconds=1.0))


def test_a_page_comes_by_the_address_that_was_checked_and_never_by_name(site: Any, corporate: CorporateProxy) -> None:
    site.put("/page", b"hello")
    with through(corporate) as proxy, proxy.open("crawl") as account, httpx.Client(proxy=account.url) as client:
        assert client.get("http://www.example.com/page").content == b"hello"
        report = account.report()
    (asked,) = corporate.asked
    assert asked.startswith(f"CONNECT {PUBLIC}:80 HTTP/1.1\r\n".encode())
    assert b"example" not in asked
    assert base64.b64encode(f"bot:{PASSWORD}".encode()) in asked
    assert site.asked[0].headers["host"] == "www.example.com"
    assert not site.asked[0].headers.keys() & {"proxy-authorization"}
    assert report.bytes_in > 5
    assert report.hosts == ("www.example.com",)


def test_tls_goes_through_it_too(tls_site: Any, trust: ssl.SSLContext) -> None:
    tls_site.put("/", b"secret")
    corporate = CorporateProxy(tls_site.port)
    trust.check_hostname = False
    with through(corporate) as proxy, httpx.Client(proxy=proxy.url, verify=trust) as client:
        assert client.get("https://www.example.com/").content == b"secret"
    corporate.close()
    assert corporate.asked[0].startswith(f"CONNECT {PUBLIC}:443 ".encode())


@pytest.mark.parametrize("url", ["http://inside.example/", "http://127.0.0.1/", "http://127.1/", "http://localhost/"])
def test_what_is_refused_without_it_is_refused_with_it(corporate: CorporateProxy, url: str) -> None:
    with through(corporate) as proxy, httpx.Client(proxy=proxy.url) as client:
        assert client.get(url).status_code == 403
    assert corporate.asked == []


def test_caps_hold_through_it(site: Any, corporate: CorporateProxy) -> None:
    site.put("/", b"x" * 50_000)
    with through(corporate) as proxy, proxy.open("crawl", max_bytes=60_000) as account:
        with httpx.Client(proxy=account.url) as client:
            assert len(client.get("http://www.example.com/").content) == 50_000
            with pytest.raises(httpx.TransportError):
                client.get("http://www.example.com/")
        assert [(refusal.rule, count) for refusal, count in account.report().refusals] == [("bytes", 1)]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "answers 407"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "answers 403"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the first line is not HTTP/1.1"),
        (b"", "closes the connection"),
    ],
)
def test_its_refusal_is_a_failure_by_its_name(corporate: CorporateProxy, answer: bytes, told: str) -> None:
    corporate.answer = answer
    with through(corporate) as proxy, httpx.Client(proxy=proxy.url) as client:
        failed = client.get("http://www.example.com/")
    assert failed.status_code == 502
    assert failed.headers["x-sluice-failed"] == f"upstream proxy 127.0.0.1:{corporate.port}: {told}"


def test_its_silence_and_its_absence_are_told_apart(corporate: CorporateProxy) -> None:
    corporate.is_silent = True
    with through(corporate) as proxy, httpx.Client(proxy=proxy.url) as client:
        silent = client.get("http://www.example.com/")
        assert (silent.status_code, silent.headers["x-sluice-failed"]) == (504, "connect timeout")
        corporate.close()
        gone = client.get("http://www.example.com/")
    assert gone.headers["x-sluice-failed"].startswith(f"upstream proxy 127.0.0.1:{corporate.port}: connect")


def test_its_password_stands_in_no_answer_log_or_repr(
    corporate: CorporateProxy, caplog: pytest.LogCaptureFixture
) -> None:
    corporate.answer = b"HTTP/1.1 407 No\r\n\r\n"
    told: list[str] = []
    with (
        caplog.at_level(logging.DEBUG),
        EgressProxy(
            EgressSettings(upstream_proxy_url=corporate.url()),
            resolver=public,
            on_refusal=lambda one: told.append(repr(one)),
        ) as proxy,
        httpx.Client(proxy=proxy.url) as client,
    ):
        answer = client.get("http://www.example.com/")
        client.get("http://127.0.0.1/")
    said = " ".join([answer.text, str(answer.headers), str(answer.reason_phrase), caplog.text, *told])
    said += repr(read_upstream(corporate.url().get_secret_value())) + repr(proxy)
    encoded = base64.b64encode(f"bot:{PASSWORD}".encode()).decode()
    assert not any(secret in said for secret in (PASSWORD, "s3cr3t", encoded))


@pytest.mark.parametrize(
    "url", ["https://proxy.corp:443", "socks5://proxy.corp", "proxy.corp:3128", "http://", "http://u:hush@proxy:port"]
)
def test_what_is_no_proxy_of_that_kind_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(InvalidSetting, match=r"egress\.upstream_proxy_url") as caught:
        EgressProxy(EgressSettings(upstream_proxy_url=SecretStr(url)))
    assert "hush" not in f"{caught.value} {caught.value.__cause__}"


def test_the_port_and_the_password_may_be_left_out() -> None:
    address = read_upstream("http://proxy.corp/").address
    assert (address.host, address.port, address.headers) == ("proxy.corp", 3128, {})
