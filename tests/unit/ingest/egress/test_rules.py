"""What is refused by name, network or policy, although its address may be globally routable."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from base64 import b64encode
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import ValidationError

from sluice.contracts.errors import PolicyRefused
from sluice.ingest.egress.proxy import EgressProxy, EgressRules
from sluice.ingest.egress.rules import (
    FRESH_SECONDS,
    OwnNetworks,
    canonical_host,
    check_address,
    is_special_name,
    require_open,
)
from sluice.ingest.settings import EgressSettings


def answer_of(proxy: EgressProxy, target: str) -> bytes:
    """The proxy's answer to a CONNECT."""
    parts = urlsplit(proxy.url)
    secret = b64encode(f"{parts.username}:{parts.password}".encode()).decode()
    with socket.create_connection(("127.0.0.1", parts.port or 0), timeout=10) as connection:
        connection.sendall(f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Basic {secret}\r\n\r\n".encode())
        return connection.recv(4_096)


class TestNames:
    NEVER = (
        *("localhost", "a.localhost", "LOCALHOST.", "nas", "com", "printer.local", "metadata.google.internal"),
        *("router.home.arpa", "home.arpa", "x.onion", "a.test", "a.invalid", "a.alt", "intranet"),
    )

    @pytest.mark.parametrize("host", NEVER)
    def test_names_that_are_not_of_the_public_web_are_refused_before_anybody_is_asked(self, host: str) -> None:
        asked: list[str] = []

        async def resolver(name: str, port: int) -> tuple[str, ...]:
            asked.append(name)
            return ("93.184.216.34",)

        with EgressProxy(EgressSettings(), resolver=resolver) as proxy:
            assert b"X-Sluice-Refused: host" in answer_of(proxy, f"{host}:443")
        assert asked == []

    @pytest.mark.parametrize(
        "host", ["example.com", "localhost.example", "test.de", "93.184.216.34", "::1", "arpa.com"]
    )
    def test_others_are_not(self, host: str) -> None:
        assert not is_special_name(host)

    def test_the_owner_may_name_one(self) -> None:
        rules = EgressRules(EgressSettings(allow=("wiki.internal:80", "search=searxng:8888")))
        assert rules.check_host("wiki.internal", 80) is None
        assert rules.check_host("searxng", 8888, "search") is None
        for host, port in (("wiki.internal", 443), ("searxng", 8888), ("other.internal", 80)):
            refusal = rules.check_host(host, port)
            assert refusal is not None
            assert refusal.rule == "host"

    def test_names_are_looked_up_without_search_domains_unless_the_owner_wrote_them(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        real = socket.getaddrinfo

        def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
            if host == "127.0.0.1":
                return real(host, *arguments, **options)
            asked.append(host)
            raise socket.gaierror(socket.EAI_NONAME, "unknown")

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        with EgressProxy(EgressSettings(allow=("searxng:8888",))) as proxy:
            assert b" 502 " in answer_of(proxy, "searxng:8888")
            assert b" 502 " in answer_of(proxy, "www.example.com:443")
            assert b" 502 " in answer_of(proxy, "www.example.com.:443")
        assert asked == ["searxng", "www.example.com.", "www.example.com."]

    def test_a_host_beyond_all_length_is_none(self) -> None:
        assert canonical_host("a." * 600 + "example") is None


class TestNat64:
    # The examples of RFC 6052, 2.4, with 10.0.0.33 in the place of 192.0.2.33.
    @pytest.mark.parametrize(
        ("prefix", "address"),
        [
            ("2a00:db8::/32", "2a00:db8:a00:21::"),
            ("2a00:db8:100::/40", "2a00:db8:10a:0:21::"),
            ("2a00:db8:122::/48", "2a00:db8:122:a00:0:2100::"),
            ("2a00:db8:122:300::/56", "2a00:db8:122:30a:0:21::"),
            ("2a00:db8:122:344::/64", "2a00:db8:122:344:a:0:2100::"),
            ("2a00:db8:122:344::/96", "2a00:db8:122:344::a00:21"),
        ],
    )
    def test_the_address_behind_a_prefix_of_the_network_is_judged(self, prefix: str, address: str) -> None:
        assert check_address(address) is None
        rules = EgressRules(EgressSettings(nat64_prefixes=(prefix,), own_networks="allow"))
        refusal = rules.check_addresses("a.example", 80, (address,))
        assert refusal is not None
        assert "carries 10.0.0.33" in refusal.detail

    def test_a_public_address_behind_it_may_be_reached_although_the_prefix_is_private(self) -> None:
        rules = EgressRules(EgressSettings(nat64_prefixes=("fd00:64::/96",), own_networks="allow"))
        assert rules.check_addresses("a.example", 80, ("fd00:64::808:808",)) is None
        assert rules.check_addresses("a.example", 80, ("fd00:65::808:808",)) is not None

    @pytest.mark.parametrize("prefix", ["2001:db8::/33", "10.0.0.0/8", "nonsense", "2001:db8::1/64"])
    def test_what_cannot_be_such_a_prefix_is_a_wrong_setting(self, prefix: str) -> None:
        with pytest.raises(ValidationError, match="nat64_prefixes"):
            EgressSettings(nat64_prefixes=(prefix,))


ROUTE = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t01D8B85D\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000B85D\t01D8B85D\t0003\t0\t0\t0\t0000FFFF\t0\t0\t0
eth0\t00D8B85D\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
wg0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0
wg0\t00000908\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""
FIB_TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
        +-- 93.184.216.0/24 2 0 1
           |-- 93.184.216.0
              /24 link UNICAST
           |-- 93.184.216.34
              /32 host LOCAL
           |-- 93.184.216.255
              /32 link BROADCAST
     |-- 8.8.4.0
        /24 host LOCAL
"""
IF_INET6 = "26064700000000000000000000000005 02 80 00 80     eth0\n"
IPV6_ROUTE = """\
26064700000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
26064700000000000000000000000000 20 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000100 00000001 00000000 00000003     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 00000400 00000003 00000000 00000001     eth0
"""


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for name, text in {"route": ROUTE, "fib_trie": FIB_TRIE, "if_inet6": IF_INET6, "ipv6_route": IPV6_ROUTE}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


class TestOwnNetworks:
    @pytest.mark.parametrize(
        "address",
        ["93.184.216.34", "93.184.216.99", "8.8.4.7", "2606:4700::5", "2606:4700::abcd", "::ffff:93.184.216.1"],
    )
    def test_our_own_addresses_and_our_neighbours_are_refused_although_global(self, tables: Path, address: str) -> None:
        assert check_address(address) is None
        refusal = EgressRules(EgressSettings(), OwnNetworks(tables)).check_addresses("a.example", 443, (address,))
        assert refusal is not None
        assert refusal.rule == "address"
        assert "a network of this machine" in refusal.detail

    @pytest.mark.parametrize("address", ["93.184.217.1", "9.9.9.9", "8.9.1.1", "2606:4700:1::5", "2606:4701::1"])
    def test_what_lies_behind_a_gateway_or_a_tunnel_is_not_ours(self, tables: Path, address: str) -> None:
        rules = EgressRules(EgressSettings(), OwnNetworks(tables))
        assert rules.check_addresses("a.example", 443, (address,)) is None

    def test_the_owner_may_open_them_all_or_one(self, tables: Path) -> None:
        networks = OwnNetworks(tables)
        for settings in (EgressSettings(own_networks="allow"), EgressSettings(allow=("a.example:443",))):
            assert EgressRules(settings, networks).check_addresses("a.example", 443, ("93.184.216.99",)) is None

    def test_the_tables_are_read_again_when_they_are_stale(self, tables: Path) -> None:
        now = 100.0
        networks = OwnNetworks(tables, clock=lambda: now)
        assert networks.holding(ip_address("2606:4700::5"))
        (tables / "if_inet6").write_text("")
        (tables / "ipv6_route").unlink()
        assert networks.holding(ip_address("2606:4700::5"))
        now += FRESH_SECONDS
        assert networks.holding(ip_address("2606:4700::5")) is None

    def test_where_there_are_no_tables_nothing_is_ours(self, tmp_path: Path) -> None:
        assert OwnNetworks(tmp_path / "nowhere").networks() == ()

    def test_the_kernels_own_tables_are_understood(self) -> None:
        """In a network namespace with two interfaces of our own."""
        if shutil.which("unshare") is None or shutil.which("ip") is None:
            pytest.skip("no unshare or ip on this machine to make a network with")
        commands = (
            "ip link add v0 type veth peer name v1 && ip link set lo up && ip link set v0 up && ip link set v1 up"
            " && ip addr add 93.184.216.34/24 dev v0 && ip -6 addr add 2606:4700::5/64 dev v0 nodad"
        )
        ask = (
            "from ipaddress import ip_address as a; from sluice.ingest.egress.rules import OwnNetworks; o = OwnNetworks();"
            "print([bool(o.holding(a(t))) for t in ('93.184.216.34', '93.184.216.7', '93.184.217.7', '127.9.9.9',"
            " '2606:4700::5', '2606:4700::77', '2606:4700:0:1::1')])"
        )
        shell = f'{commands} && exec "$0" -c "$1"'
        made = subprocess.run(
            ["unshare", "-rn", "sh", "-c", shell, sys.executable, ask], capture_output=True, text=True, timeout=30
        )
        if made.returncode and "ModuleNotFound" not in made.stderr and "Traceback" not in made.stderr:
            pytest.skip(f"no network namespace with interfaces is to be had: {made.stderr.strip()}")
        assert made.stdout.strip() == "[True, True, False, True, True, True, False]", made.stderr


NO_WAY_OUT = """
import socket, sys, threading
from urllib.parse import urlsplit
from base64 import b64encode
sys.modules["uvloop"] = None  # the hook sees the sockets of Python's own loop only
from sluice.contracts.errors import PolicyRefused
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.settings import EgressSettings

seen = []
proxy_thread = []

def hook(event, arguments):
    if event.startswith("socket.") and threading.current_thread().name in ("egress", "resolve"):
        seen.append((event, arguments))

sys.addaudithook(hook)
policy, target = sys.argv[1:]
with EgressProxy(EgressSettings(policy=policy, allow=(target,))) as proxy:
    try:
        urls = [proxy.url, proxy.open("crawl").url]
    except PolicyRefused:
        urls = [proxy.url]
    assert (policy == "deny") == (len(urls) == 1), "no crawl gets an account where nothing may go out"
    for url in urls:
        parts = urlsplit(url)
        secret = b64encode(f"{parts.username}:{parts.password}".encode()).decode()
        for asked in (target, "www.example.com:443", "93.184.216.34:443"):
            with socket.create_connection(("127.0.0.1", parts.port), timeout=10) as connection:
                head = f"CONNECT {asked} HTTP/1.1\\r\\nProxy-Authorization: Basic {secret}\\r\\n\\r\\n"
                connection.sendall(head.encode())
                assert b"X-Sluice-Refused: policy" in connection.recv(4_096) or policy != "deny"
internet = [event for event, arguments in seen if event == "socket.__new__" and arguments[1] == socket.AF_INET]
others = {event for event, _ in seen} - {"socket.__new__"}
print(len(internet), sorted(others))
"""


class TestPolicy:
    def test_deny_opens_no_socket_but_the_listener_and_looks_no_name_up(self, site: Any) -> None:
        def child(policy: str) -> str:
            command = [sys.executable, "-c", NO_WAY_OUT, policy, site.address]
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()

        listener_and_accepted = "4 ['socket.bind']"  # one, and three clients
        assert child("deny") == listener_and_accepted
        assert child("listed") != listener_and_accepted, "the hook must see what another policy opens"

    def test_deny_beats_every_entry(self, site: Any) -> None:
        settings = EgressSettings(policy="deny", allow=(site.address,), allow_domains=("example.com",))
        refusal = EgressRules(settings).check_host("127.0.0.1", site.port)
        assert refusal is not None
        assert refusal.rule == "policy"
        with pytest.raises(PolicyRefused, match=r"egress\.policy"):
            require_open(settings)

    def test_listed_opens_what_is_listed(self) -> None:
        settings = EgressSettings(policy="listed", allow=("wiki.internal:80",), allow_domains=("example.com",))
        rules = EgressRules(settings)
        assert rules.check_host("www.example.com", 443) is None
        assert rules.check_host("wiki.internal", 80) is None
        refusal = rules.check_host("example.org", 443)
        assert refusal is not None
        assert refusal.rule == "domain"
        require_open(settings)

    def test_listed_with_nothing_listed_opens_nothing(self) -> None:
        assert EgressRules(EgressSettings(policy="listed")).check_host("example.com", 443) is not None
