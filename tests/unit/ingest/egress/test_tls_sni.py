"""Where only listed domains may be reached, a tunnel leads to the site that it was asked for."""

from __future__ import annotations

import socket
import ssl
import time
from base64 import b64encode
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ingest.egress.crawl_account import EgressAccount, EgressLimits
from sluice.ingest.egress.http_heads import RECORD_HEADER_BYTES, NoHello, record_length, server_name
from sluice.ingest.egress.proxy import EgressProxy, Refusal
from sluice.ingest.egress.side import Side, dial
from sluice.ingest.settings import EgressSettings


@cache
def hello_for(name: str | None) -> bytes:
    """What a TLS client says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("name", ["www.example.com", "a" * 60 + ".example", "xn--bcher-kva.example", None])
def test_the_name_of_a_handshake_is_read(name: str | None) -> None:
    hello = hello_for(name)
    assert record_length(hello[:RECORD_HEADER_BYTES]) == len(hello)
    assert server_name(hello) == name


def test_what_is_cut_short_is_no_hello() -> None:
    hello = hello_for("www.example.com")
    for length in range(RECORD_HEADER_BYTES, len(hello)):
        try:
            assert server_name(hello[:length]) in ("www.example.com", None)
        except NoHello:
            continue
    with pytest.raises(NoHello):
        server_name(hello[:60])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_name_that_is_not_ascii_is_no_hello() -> None:
    with pytest.raises(NoHello):
        server_name(hello_for("www.example.com").replace(b"example.com", b"example.co\xfe"))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@given(st.binary(max_size=300), st.integers(0, 600))
def test_no_bytes_break_the_reading(noise: bytes, at: int) -> None:
    hello = hello_for("www.example.com")
    for content in (noise, hello[:at] + noise, hello[:at] + noise + hello[at + len(noise) :]):
        try:
            record_length(content)
            server_name(content)
        except NoHello:
            continue


class TestTunnels:
    @pytest.fixture
    def everywhere(self, tls_site: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Every judged address is the site."""

        async def here(addresses: tuple[str, ...], port: int, limit_seconds: float) -> Side:
            return await dial(("127.0.0.1",), tls_site.port, limit_seconds)

        monkeypatch.setattr("sluice.ingest.egress.dial.dial", here)
        tls_site.put("/", b"secret")
        return tls_site

    @pytest.mark.parametrize(
        ("configured", "named", "is_let_out"),
        [
            ({"allow_domains": ("example.com",)}, "www.example.com", True),
            ({"allow_domains": ("example.com",)}, "WWW.Example.com", True),
            ({"allow_domains": ("example.com",)}, "other.example.com", False),
            ({"allow_domains": ("example.com",)}, "fronted.example.org", False),
            ({"allow_domains": ("example.com",)}, None, False),
            ({"policy": "listed", "allow": ("www.example.com:443",)}, "fronted.example.org", True),
            ({}, "fronted.example.org", True),
        ],
    )
    def test_with_a_list_a_tunnel_must_name_its_own_site(
        self, everywhere: Any, trust: ssl.SSLContext, configured: Any, named: str | None, *, is_let_out: bool
    ) -> None:
        trust.check_hostname = False
        with (
            EgressProxy(EgressSettings(**configured), resolver=public) as proxy,
            proxy.open("crawl") as account,
            tunnel(account) as connection,
        ):
            answer = _page_within(connection, trust, named)
            refused = [refusal.rule for refusal, _ in account.report().refusals]
        assert answer.endswith(b"secret") is is_let_out
        assert refused == ([] if is_let_out else ["domain"])

    def test_nothing_of_another_protocol_reaches_the_site(self, everywhere: Any) -> None:
        refused: list[Refusal] = []
        ours = EgressSettings(allow_domains=("example.com",))
        with (
            EgressProxy(ours, resolver=public, on_refusal=refused.append) as proxy,
            proxy.open("crawl") as account,
            tunnel(account) as connection,
        ):
            connection.sendall(b"GET /plain HTTP/1.1\r\nHost: www.example.org\r\n\r\n")
            assert _rest(connection) == b""
            assert account.report().bytes_out == 0
        assert "no TLS" in refused[0].detail

    def test_a_handshake_that_never_comes_is_given_up(self, everywhere: Any) -> None:
        ours = EgressSettings(allow_domains=("example.com",))
        started = time.monotonic()
        with (
            EgressProxy(ours, resolver=public, limits=EgressLimits(idle_timeout_seconds=0.3)) as proxy,
            proxy.open("crawl") as account,
            tunnel(account) as connection,
        ):
            connection.sendall(hello_for("www.example.com")[:50])
            assert _rest(connection) == b""
        assert time.monotonic() - started < 10


async def public(host: str, port: int) -> tuple[str, ...]:
    return ("93.184.216.34",)


def tunnel(account: EgressAccount) -> socket.socket:
    parts = urlsplit(account.url)
    secret = b64encode(f"{parts.username}:{parts.password}".encode()).decode()
    connection = socket.create_connection(("127.0.0.1", parts.port or 0), timeout=10)
    connection.sendall(f"CONNECT www.example.com:443 HTTP/1.1\r\nProxy-Authorization: Basic {secret}\r\n\r\n".encode())
    assert b" 200 " in connection.recv(4_096)
    return connection


def _page_within(connection: socket.socket, trust: ssl.SSLContext, named: str | None) -> bytes:
    try:
        with trust.wrap_socket(connection, server_hostname=named) as secured:
            secured.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return b"".join(iter(lambda: secured.recv(65_536), b""))
    except (ConnectionError, ssl.SSLError):
        return b""


def _rest(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65_536)
    except ConnectionResetError:
        return b""
