"""One crawl's way out: a token of its own, caps of its own, and nothing that it does costs the others theirs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

import pytest

from sluice.contracts.errors import Unavailable
from sluice.ingest.egress.crawl_account import MAX_KINDS, MAX_WAITING_SHARE, EgressLimits
from sluice.ingest.egress.proxy import EgressAccount, EgressProxy, Refusal
from sluice.ingest.egress.serve_client import MAX_CHALLENGES, MAX_UNAUTHENTICATED
from sluice.ingest.settings import EgressSettings
from tests.support.waiting import until

RunProxy = Callable[..., EgressProxy]


def connect_to(url: str, target: str) -> tuple[socket.socket, bytes]:
    """A tunnel to `target` by the proxy of `url`, and the proxy's answer."""
    connection = socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=10)
    connection.sendall(f"CONNECT {target} HTTP/1.1\r\n{authorization(url)}\r\n".encode())
    return connection, connection.recv(4_096)


def get(url: str, target: str, more: str = "") -> bytes:
    """All that comes back for a GET of `target` by the proxy of `url`, up to where it breaks off."""
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=10) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\n{authorization(url)}{more}\r\n".encode())
        return all_of(connection)


def all_of(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65_536):
            received += chunk
    return received


def authorization(url: str) -> str:
    parts = urlsplit(url)
    return f"Proxy-Authorization: Basic {b64encode(f'{parts.username}:{parts.password}'.encode()).decode()}\r\n"


LIMITS = {field.name for field in fields(EgressLimits)}


def rules_of(account: EgressAccount) -> dict[str, int]:
    counts: dict[str, int] = {}
    for refusal, count in account.report().refusals:
        counts[refusal.rule] = counts.get(refusal.rule, 0) + count
    return counts


@pytest.fixture
def run_proxy(site: Any, refusals: list[Refusal]) -> Iterator[RunProxy]:
    """A proxy with settings of the test's, and the site as its exception."""
    with contextlib.ExitStack() as running:

        def run(*, resolver: Any = None, **settings: Any) -> EgressProxy:
            limits = EgressLimits(**{name: settings.pop(name) for name in LIMITS & settings.keys()})
            configured = EgressSettings(**{"allow": (site.address,), **settings})
            proxy = EgressProxy(configured, resolver=resolver, on_refusal=refusals.append, limits=limits)
            return running.enter_context(proxy)

        yield run


def endless(handler: Any) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"x" * 65_536)


class TestToken:
    def test_what_goes_out_by_an_account_is_counted_on_it(self, site: Any, run_proxy: RunProxy) -> None:
        site.put("/", b"x" * 5_000)
        proxy = run_proxy()
        with proxy.open("crawl", run_id="run-1") as account, proxy.open("crawl") as other:
            assert get(account.url, site.url()).endswith(b"x" * 5_000)
            connection, answer = connect_to(account.url, site.address)
            assert b" 200 " in answer
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            tunnelled = all_of(connection)
            connection.close()
        report = account.report()
        assert report.requests == 2
        assert report.hosts == ("127.0.0.1",)
        assert 10_000 < report.bytes_in < 11_000
        assert report.bytes_in > len(tunnelled)
        assert 60 < report.bytes_out < 500
        assert report.refusals == ()
        assert other.report().requests == 0

    def test_a_closed_account_opens_nothing_and_nothing_of_it_stays_open(self, site: Any, run_proxy: RunProxy) -> None:
        site.put("/", b"hello")
        proxy = run_proxy()
        account = proxy.open("crawl")
        tunnel, _ = connect_to(account.url, site.address)
        account.close()
        with tunnel:
            assert all_of(tunnel) == b""
        assert b" 407 " in get(account.url, site.url(), "Content-Length: 1\r\n")
        account.close()
        with proxy.open("crawl") as another:
            assert get(another.url, site.url()).endswith(b"hello")
        assert len(site.asked) == 1

    def test_the_token_of_one_account_is_none_for_another(self, site: Any, run_proxy: RunProxy) -> None:
        proxy = run_proxy()
        with proxy.open("crawl") as ours, proxy.open("search") as theirs:
            mixed = f"http://{urlsplit(theirs.url).username}:{urlsplit(ours.url).password}@x:{urlsplit(ours.url).port}"
            assert b" 407 " in get(mixed, site.url(), "Content-Length: 1\r\n")
        assert site.asked == []

    def test_an_account_is_for_its_purpose(self, site: Any, run_proxy: RunProxy) -> None:
        proxy = run_proxy(allow=(f"search={site.address}",))
        with proxy.open("search") as search, proxy.open("crawl", run_id="r") as crawl:
            assert b" 404 " in get(search.url, site.url())
            assert b" 403 " in get(crawl.url, site.url())
        ((refusal, _),) = crawl.report().refusals
        assert (refusal.purpose, refusal.run_id) == ("crawl", "r")

    def test_there_is_none_of_a_proxy_that_does_not_run(self) -> None:
        with pytest.raises(Unavailable):
            EgressProxy(EgressSettings()).open("crawl")

    def test_an_account_may_outlive_its_proxy(self) -> None:
        proxy = EgressProxy(EgressSettings())
        with proxy:
            account = proxy.open("crawl")
        account.close()
        assert account.report().requests == 0


class TestRefusals:
    def test_each_kind_is_told_once_and_counted(self, site: Any, run_proxy: RunProxy, refusals: list[Refusal]) -> None:
        with run_proxy().open("crawl", run_id="run-7") as account:
            for _ in range(5):
                get(account.url, "http://127.0.0.1:1/")
            get(account.url, "http://10.0.0.1/")
        assert [(refusal.rule, count) for refusal, count in account.report().refusals] == [("port", 5), ("address", 1)]
        assert [(refusal.host, refusal.run_id) for refusal in refusals] == [
            ("127.0.0.1", "run-7"),
            ("10.0.0.1", "run-7"),
        ]

    def test_a_page_cannot_make_the_report_grow(self, run_proxy: RunProxy, refusals: list[Refusal]) -> None:
        with run_proxy().open("crawl") as account:
            for number in range(MAX_KINDS + 20):
                get(account.url, f"http://10.0.0.{number}/")
            get(account.url, "http://10.0.0.1/")
        report = account.report()
        assert len(report.refusals) == len(refusals) == MAX_KINDS
        assert report.other_refusals == 20
        assert report.refusals[1][1] == 2

    def test_a_flood_on_a_standing_account_is_not_told_in_full(
        self, run_proxy: RunProxy, refusals: list[Refusal], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sluice.ingest.egress.crawl_account.STANDING_REFUSALS_PER_SECOND", 3)
        proxy = run_proxy()
        started = time.monotonic()
        for _ in range(40):
            assert b" 403 " in get(proxy.url, "http://10.0.0.1/")
        assert len(refusals) <= 3 * (int(time.monotonic() - started) + 2) < 40


class TestCaps:
    def test_requests_beyond_the_cap_are_refused(self, site: Any, run_proxy: RunProxy) -> None:
        with run_proxy(max_requests_per_crawl=3).open("crawl") as account:
            answers = [get(account.url, site.url()) for _ in range(5)]
        assert [b" 404 " in answer for answer in answers] == [True] * 3 + [False] * 2
        assert all(b"X-Sluice-Refused: requests" in answer for answer in answers[3:])
        assert len(site.asked) == 3

    def test_a_caller_may_lower_a_cap(self, site: Any, run_proxy: RunProxy) -> None:
        with run_proxy(max_requests_per_crawl=0).open("crawl") as account:
            assert b"X-Sluice-Refused: requests" in get(account.url, site.url())
        assert site.asked == []

    def test_bytes_beyond_the_cap_break_off_what_runs_and_refuse_what_follows(
        self, site: Any, run_proxy: RunProxy
    ) -> None:
        site.call("/endless", endless)
        site.put("/", b"small")
        with run_proxy(max_bytes_per_crawl=300_000).open("crawl") as account:
            assert len(get(account.url, site.url("/endless"))) <= 300_000
            assert b"X-Sluice-Refused: bytes" in get(account.url, site.url())
            assert b"X-Sluice-Refused: bytes" in get(account.url, "http://10.0.0.1/"), "before anything else is judged"
        assert rules_of(account) == {"bytes": 3}
        assert "/" not in site.paths()

    def test_bytes_of_all_its_connections_count_together(self, site: Any, run_proxy: RunProxy) -> None:
        site.put("/", b"x" * 40_000)
        with run_proxy().open("crawl", max_bytes=100_000) as account:
            answers = [get(account.url, site.url()) for _ in range(4)]
        assert [len(answer) > 40_000 for answer in answers] == [True, True, False, False]

    @pytest.mark.parametrize("upwards", [True, False])
    def test_a_tunnel_is_metered_in_both_directions(self, site: Any, run_proxy: RunProxy, *, upwards: bool) -> None:
        site.call("/", endless)
        with run_proxy().open("crawl", max_bytes=200_000) as account:
            connection, _ = connect_to(account.url, site.address)
            with connection, contextlib.suppress(ConnectionError):
                head = b"POST / HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n"  # the site reads as long as it is sent
                connection.sendall(head if upwards else b"GET / HTTP/1.1\r\n\r\n")
                while connection.send(b"x" * 65_536) if upwards else connection.recv(65_536):
                    pass
            until(lambda: rules_of(account))
            report = account.report()
        counted = report.bytes_out if upwards else report.bytes_in
        assert 100_000 < counted < 600_000
        assert rules_of(account) == {"bytes": 1}

    def test_only_so_many_different_hosts_are_looked_up(self, run_proxy: RunProxy) -> None:
        asked: list[str] = []

        async def nowhere(host: str, port: int) -> tuple[str, ...]:
            asked.append(host)
            raise socket.gaierror(socket.EAI_NONAME, "unknown")

        with run_proxy(resolver=nowhere, max_hosts_per_crawl=4).open("crawl") as account:
            answers = [get(account.url, f"http://a{number}.example/") for number in range(6)]
            assert b" 502 " in get(account.url, "http://a0.example/")
        assert [b" 502 " in answer for answer in answers] == [True] * 4 + [False] * 2
        assert b"X-Sluice-Refused: hosts" in answers[-1]
        assert asked == ["a0.example", "a1.example", "a2.example", "a3.example", "a0.example"]

    def test_connections_beyond_the_cap_wait_and_are_refused_at_last(self, site: Any, run_proxy: RunProxy) -> None:
        proxy = run_proxy(max_connections_per_crawl=2, connect_timeout_seconds=1.5)
        with proxy.open("crawl") as account, contextlib.ExitStack() as held:
            tunnels = [connect_to(account.url, site.address)[0] for _ in range(2)]
            for tunnel in tunnels:
                held.enter_context(tunnel)
            assert b"X-Sluice-Refused: connections" in get(account.url, site.url())
            threading.Timer(0.1, tunnels[0].close).start()
            assert b" 404 " in get(account.url, site.url())

    def test_only_so_many_may_wait_for_a_connection(self, site: Any, run_proxy: RunProxy) -> None:
        proxy = run_proxy(max_connections_per_crawl=1, connect_timeout_seconds=8)
        with proxy.open("crawl") as account, ThreadPoolExecutor(8) as pool:
            tunnel, _ = connect_to(account.url, site.address)
            with tunnel:
                waiting = [pool.submit(get, account.url, site.url()) for _ in range(MAX_WAITING_SHARE - 1)]
                until(lambda: account.report().requests == MAX_WAITING_SHARE)
                started = time.monotonic()
                assert b"X-Sluice-Refused: connections" in get(account.url, site.url())
                assert time.monotonic() - started < 4
            assert all(b" 404 " in future.result() for future in waiting)

    def test_a_connection_ends_in_time_however_busily_it_drips(self, site: Any, run_proxy: RunProxy) -> None:
        def drip(handler: Any) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            with contextlib.suppress(OSError):
                for _ in range(400):
                    handler.wfile.write(b"x")
                    time.sleep(0.05)

        site.call("/", drip)
        started = time.monotonic()
        with run_proxy(max_connection_seconds=0.5, idle_timeout_seconds=5).open("crawl") as account:
            assert 1 < len(get(account.url, site.url())) < 300
        assert time.monotonic() - started < 10
        assert rules_of(account) == {"time": 1}

    def test_one_host_has_so_many_connections_of_all_crawls_together(self, site: Any, run_proxy: RunProxy) -> None:
        proxy = run_proxy(max_connections_per_host=2, connect_timeout_seconds=0.3)
        with proxy.open("crawl") as one, proxy.open("crawl") as other:
            with connect_to(one.url, site.address)[0], connect_to(one.url, site.address)[0]:
                assert b" 503 Failed too many connections" in get(other.url, site.url())
            assert b" 404 " in get(other.url, site.url())


class TestFlow:
    def test_a_body_that_is_too_large_at_once_is_not_waited_for(self, site: Any, run_proxy: RunProxy) -> None:
        """It comes with its head, so the limit is reached before anybody waits for the answer."""
        site.put("/", b"thanks")
        with run_proxy().open("crawl", max_bytes=400) as account:
            body = "Content-Length: 3000\r\n\r\n" + "x" * 2_998
            assert b"X-Sluice-Refused: bytes" in get(account.url, site.url(), body)
        assert site.asked == []

    def test_a_client_that_does_not_read_is_not_read_for(self, site: Any, run_proxy: RunProxy) -> None:
        """What a site sends waits in the kernel, and not in our memory."""
        site.call("/", endless)
        with run_proxy(max_response_bytes=50_000_000).open("crawl") as account:
            connection, _ = connect_to(account.url, site.address)
            with connection:
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
                until(lambda: account.report().bytes_in > 100_000)
                _until_steady(lambda: account.report().bytes_in)
                waiting = account.report().bytes_in
                read = sum(len(connection.recv(65_536)) for _ in range(400))
                assert read > 400_000
                assert waiting < 20_000_000
                until(lambda: account.report().bytes_in > waiting)

    def test_a_large_body_arrives_whole_at_a_slow_reader(self, site: Any, run_proxy: RunProxy) -> None:
        body = bytes(range(256)) * 12_000
        site.put("/", body)
        with run_proxy().open("crawl") as account:
            connection = socket.create_connection(("127.0.0.1", urlsplit(account.url).port or 0), timeout=10)
            with connection:
                connection.sendall(f"GET {site.url()} HTTP/1.1\r\n{authorization(account.url)}\r\n".encode())
                time.sleep(0.2)
                assert all_of(connection).endswith(b"\r\n\r\n" + body)


class TestFairness:
    def test_a_greedy_crawl_leaves_the_others_their_connections(self, make_site: Any, run_proxy: RunProxy) -> None:
        """Two hold open all that they get; four more are served as if they were not there."""
        greedy, served = make_site(), make_site()
        served.put("/", b"served")
        allow = (greedy.address, served.address)
        proxy = run_proxy(
            allow=allow,
            max_connections=16,
            max_connections_per_host=16,
            max_connections_per_crawl=8,
            connect_timeout_seconds=2,
        )
        with contextlib.ExitStack() as opened, ThreadPoolExecutor(32) as pool:
            takers = [opened.enter_context(proxy.open("crawl")) for _ in range(2)]
            wanted = [pool.submit(connect_to, taker.url, greedy.address) for taker in takers for _ in range(12)]
            granted = [future.result() for future in wanted]
            for connection, _ in granted:
                opened.enter_context(connection)
            assert sum(b" 200 " in answer for _, answer in granted) == 12  # the last quarter is for others
            others = [opened.enter_context(proxy.open("crawl")) for _ in range(4)]
            answers = list(pool.map(lambda other: [get(other.url, served.url()) for _ in range(5)], others))
        assert all(answer.endswith(b"served") for crawl in answers for answer in crawl)

    def test_names_that_nobody_answers_for_hold_up_their_own_crawl_alone(
        self, site: Any, run_proxy: RunProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answered, real, silent = threading.Event(), socket.getaddrinfo, []

        def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
            if host.endswith(".silent.example."):
                silent.append(host)
                answered.wait(20)
            return real("127.0.0.1", *arguments, **options)

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        quick = f"quick.example:{site.port}"
        proxy = run_proxy(allow=(quick,), resolver_threads=8, max_connections=4, connect_timeout_seconds=4)
        with proxy.open("crawl") as hostile, ThreadPoolExecutor(24) as pool:
            slow = [pool.submit(get, hostile.url, f"http://n{number}.silent.example/") for number in range(20)]
            until(lambda: len(silent) >= 2)
            started = time.monotonic()
            for _ in range(4):
                with proxy.open("crawl") as other:
                    assert b" 404 " in get(other.url, f"http://{quick}/")
            assert time.monotonic() - started < 3.8  # before the slow ones are given up
            assert all(b" 504 " in future.result() for future in slow)
            assert len(silent) == 2, "a quarter of the threads, and no more of those that gave up"
            answered.set()

    def test_a_name_keeps_its_first_answer_within_an_account(self, site: Any, run_proxy: RunProxy) -> None:
        """An answer of a second that turns inside afterwards changes nothing; another crawl asks anew."""
        asked: list[str] = []

        async def turning(host: str, port: int) -> tuple[str, ...]:
            asked.append(host)
            await asyncio.sleep(0.05)
            return ("192.168.0.1",) if len(asked) == 1 else ("127.0.0.1",)

        proxy = run_proxy(resolver=turning)
        with proxy.open("crawl") as account, ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: get(account.url, "http://turning.example/"), range(12)))
        assert all(b"192.168.0.1 is not globally routable" in answer for answer in answers)
        assert len(asked) == 1
        with proxy.open("crawl") as account:
            assert b"127.0.0.1 is not" in get(account.url, "http://turning.example/")

    def test_closing_waits_for_no_name_server(self, run_proxy: RunProxy) -> None:
        async def silent(host: str, port: int) -> tuple[str, ...]:
            await asyncio.sleep(60)
            return ()

        proxy = run_proxy(resolver=silent, connect_timeout_seconds=30)
        account = proxy.open("crawl")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(get, account.url, "http://silent.example/")
            until(lambda: account.report().requests == 1)
            started = time.monotonic()
            account.close()
            assert waiting.result() == b""
        assert time.monotonic() - started < 5


class TestStrangers:
    def test_silent_connections_make_way_for_those_who_have_a_token(self, site: Any, run_proxy: RunProxy) -> None:
        proxy = run_proxy()
        port = urlsplit(proxy.url).port or 0
        with contextlib.ExitStack() as held, proxy.open("crawl") as account:
            silent = [
                held.enter_context(socket.create_connection(("127.0.0.1", port)))
                for _ in range(MAX_UNAUTHENTICATED + 20)
            ]
            assert b" 404 " in get(account.url, site.url())
            silent[0].settimeout(5)
            with contextlib.suppress(ConnectionResetError):
                assert silent[0].recv(1) == b""

    def test_nobody_may_guess_for_ever(self, site: Any, run_proxy: RunProxy) -> None:
        proxy = run_proxy()
        guess = f"GET {site.url()} HTTP/1.1\r\n{authorization('http://crawl:guess@x')}\r\n".encode()
        with socket.create_connection(("127.0.0.1", urlsplit(proxy.url).port or 0), timeout=30) as connection:
            connection.sendall(guess * (MAX_CHALLENGES + 5))
            assert all_of(connection).count(b" 407 ") == MAX_CHALLENGES

    def test_a_head_of_blanks_costs_no_more_than_its_bytes(self, site: Any, run_proxy: RunProxy) -> None:
        """A pattern that tries every end of the blanks takes a minute for these."""
        site.call("/", lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: a" + b" " * 60_000 + b"b\r\n\r\n"))
        started = time.monotonic()
        with run_proxy().open("crawl") as account:
            assert b" 200 " in get(account.url, site.url())
        assert time.monotonic() - started < 5


def _until_steady(figure: Callable[[], int]) -> None:
    """Until it is the same for a fifth of a second."""
    last = -1
    for _ in range(100):
        if figure() == last:
            return
        last = figure()
        time.sleep(0.2)
    raise AssertionError("it never stood still")
