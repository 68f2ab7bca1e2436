"""Rules of egress: checks on names, ports and addresses, without a socket.

`EgressRules` judges a host and port before its name is resolved, and then every address that the name resolves to.
An address is refused unless it is globally routable by the IANA special-purpose registries (RFC 6890 and
successors); the same holds for every IPv4 address embedded in an IPv6 address (RFC 4291, 6052, 3056, 4380, 5214).
Names that never belong to the public web (RFC 6761, 6762, 7686, 8375, 9476) are refused before any look-up.

The networks of this machine (`OwnNetworks`) are refused too, although their addresses may be global, as those of an
IPv6 network nearly always are: services there trust their neighbours, and a page must not speak in our name. The
networks come from the kernel's tables under `/proc/net` (proc(5)), read again when they are ten seconds old, as
addresses come and go. Without these tables no network counts as our own; a public address that a router elsewhere
translates to ours is in no table.
"""

from __future__ import annotations

import re
import socket
import struct
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

import ada_url

from sluice.contracts.errors import PolicyRefused
from sluice.ingest.settings import EgressSettings, Purpose
from sluice.ingest.url import within_domains

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

FRESH_SECONDS = 10.0
SHORTEST_PREFIX = {4: 8, 6: 16}
"""Shortest prefix by IP version. A larger network holds no neighbours; it is the way to the internet (a tunnel that
takes half of it)."""

_GATEWAY_OR_REJECT = 0x0002 | 0x0200  # RTF_GATEWAY, RTF_REJECT in linux/route.h and ipv6_route.h
_TRIE_LINE = re.compile(r"\s*(?:\|-- (?P<address>[\d.]+)|/(?P<length>\d+) host LOCAL)")


class OwnNetworks:
    """Networks from the kernel's tables in `folder`, at most `FRESH_SECONDS` old. `clock` returns seconds."""

    def __init__(self, folder: Path = Path("/proc/net"), clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._networks: tuple[Network, ...] = ()
        self._stale_at = float("-inf")

    def holding(self, address: Address) -> Network | None:
        """Return our network that contains `address`, or None."""
        return next((network for network in self.networks() if address in network), None)

    def networks(self) -> tuple[Network, ...]:
        """Return our addresses, each a network of one, and each network without a gateway that holds one of them."""
        now = self._clock()
        if now >= self._stale_at:
            self._networks = (*self._ipv4(), *self._ipv6())
            self._stale_at = now + FRESH_SECONDS
        return self._networks

    def _ipv4(self) -> Iterator[IPv4Network]:
        local = set(_local_ipv4(self._read("fib_trie")))
        yield from local
        addresses = {network.network_address for network in local if network.prefixlen == 32}
        for line in self._read("route").splitlines()[1:]:
            _, destination, _, flags, _, _, _, mask, *_ = line.split()
            route = IPv4Network((_octets(destination), socket.inet_ntoa(_octets(mask))), strict=False)
            if _is_neighbourhood(route, int(flags, 16), addresses):
                yield route

    def _ipv6(self) -> Iterator[IPv6Network]:
        addresses = {IPv6Address(bytes.fromhex(line.split()[0])) for line in self._read("if_inet6").splitlines()}
        yield from map(IPv6Network, addresses)
        for line in self._read("ipv6_route").splitlines():
            destination, length, _, _, _, _, _, _, flags, _ = line.split()
            route = IPv6Network((bytes.fromhex(destination), int(length, 16)))
            if _is_neighbourhood(route, int(flags, 16), addresses):
                yield route

    def _read(self, table: str) -> str:
        try:
            return (self._folder / table).read_text()
        except OSError:  # not Linux, or IPv6 is switched off
            return ""


def _local_ipv4(trie: str) -> Iterator[IPv4Network]:
    """Yield the kernel's local addresses: single ones, and networks that are local as a whole."""
    address = ""
    for match in filter(None, map(_TRIE_LINE.match, trie.splitlines())):
        address = match["address"] or address
        if match["length"] and int(match["length"]) >= SHORTEST_PREFIX[4]:
            yield IPv4Network(f"{address}/{match['length']}")


def _is_neighbourhood(route: Network, flags: int, ours: set[IPv4Address] | set[IPv6Address]) -> bool:
    if flags & _GATEWAY_OR_REJECT or route.prefixlen < SHORTEST_PREFIX[route.version]:
        return False
    return any(address in route for address in ours)


def _octets(text: str) -> bytes:
    """Convert four octets, which the kernel prints as one number in its own byte order."""
    return struct.pack("=I", int(text, 16))


MAX_HOST_LENGTH = 1_000
"""Most characters before the conversion to ASCII; a name has 253 of those."""
CLOSED = "egress.policy is deny"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refused request: its target, the rule, the reason in one sentence, and its purpose and run."""

    host: str
    port: int
    rule: str
    detail: str
    purpose: Purpose = "crawl"
    run_id: str = ""


class EgressRules:
    """The owner's rules for host names, ports and addresses."""

    def __init__(self, settings: EgressSettings, own_networks: OwnNetworks | None = None) -> None:
        self._settings = settings
        self._allowed = frozenset(map(_split_entry, (*settings.allow, *settings.allow_services)))
        self._nat64 = (NAT64, *map(IPv6Network, settings.nat64_prefixes))
        self._own_networks = own_networks or OwnNetworks()

    def check_host(self, host: str, port: int, purpose: Purpose = "crawl") -> Refusal | None:
        """Return the reason to refuse `host` and `port`, or None. Rules: `policy`, `host`, `domain`, `port`."""
        name = canonical_host(host)
        if self._settings.policy == "deny":
            return Refusal(name or host, port, "policy", CLOSED)
        if name is None:
            return Refusal(host, port, "host", "not a host name or address")
        if within_domains(name, self._settings.deny_domains):
            return Refusal(name, port, "domain", f"{name} is on the list of denied domains")
        if (purpose, name, port) in self._allowed:
            return None
        if is_special_name(name):
            return Refusal(name, port, "host", f"{name} is no name of the public web")
        if self._is_unlisted(name):
            return Refusal(name, port, "domain", f"{name} is not on the list of allowed domains")
        if port not in self._settings.ports:
            return Refusal(name, port, "port", f"port {port} is not open")
        return None

    def is_listed(self, host: str, port: int, purpose: Purpose) -> bool:
        """Return whether `host:port` is an exception for the purpose, so that its address need not be global."""
        return (purpose, canonical_host(host), port) in self._allowed

    def wants_its_own_name(self, host: str, port: int, purpose: Purpose) -> bool:
        """Return whether a tunnel to `host` may lead to that host's site alone: it was allowed by its name."""
        only_listed = bool(self._settings.allow_domains) or self._settings.policy == "listed"
        return only_listed and not self.is_listed(host, port, purpose)

    def check_addresses(
        self, host: str, port: int, addresses: tuple[str, ...], purpose: Purpose = "crawl"
    ) -> Refusal | None:
        """Return the reason not to dial the addresses of `host`, or None: one bad one refuses all."""
        if not addresses:
            return Refusal(host, port, "address", f"{host} has no address")
        if self.is_listed(host, port, purpose):
            return None
        problems = (self._address_problem(address) for address in addresses)
        problem = next((found for found in problems if found), None)
        return Refusal(host, port, "address", problem) if problem else None

    def _is_unlisted(self, name: str) -> bool:
        """Return whether a domain list applies and lacks the name."""
        domains = self._settings.allow_domains
        return bool(domains or self._settings.policy == "listed") and not within_domains(name, domains)

    def _address_problem(self, address: str) -> str | None:
        problem = check_address(address, self._nat64)
        if problem or self._settings.own_networks == "allow":
            return problem
        parsed = ip_address(address)
        inner = _embedded_ipv4(parsed, self._nat64) if isinstance(parsed, IPv6Address) else ()
        for reached in (parsed, *inner):
            network = self._own_networks.holding(reached)
            if network is not None:
                return f"{reached} is in {network}, a network of this machine"
        return None


def require_open(settings: EgressSettings) -> None:
    """Raise PolicyRefused (`egress`) if the policy is `deny`; call it before starting a proxy or a client of it."""
    if settings.policy == "deny":
        raise PolicyRefused("egress", CLOSED, "egress.policy")


def is_special_name(name: str) -> bool:
    """Return whether a name belongs to the local network, another name system or none: `nas`, `printer.local`.

    `name` is in the form of `canonical_host`; addresses are not names.
    """
    if ":" in name or name.replace(".", "").isdecimal():
        return False
    label = name.rpartition(".")[2]
    return label == name or label in _SPECIAL_LABELS or name.endswith(".home.arpa") or name == "home.arpa"


def check_address(address: str, nat64: tuple[IPv6Network, ...] = ()) -> str | None:
    """Return the reason why `address` is not globally routable, or None if it is.

    `nat64` are prefixes by which IPv4 is reached, beside the well-known one: only the address within counts.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return f"{address} is not an address"
    if isinstance(parsed, IPv4Address):
        return None if _is_global_ipv4(parsed) else f"{parsed} is not globally routable"
    prefixes = (NAT64, *nat64)
    for inner in _embedded_ipv4(parsed, prefixes):
        if not _is_global_ipv4(inner):
            return f"{parsed} carries {inner}, which is not globally routable"
    is_ipv4_inside = parsed.ipv4_mapped or any(parsed in prefix for prefix in prefixes)
    if parsed.scope_id is None and (is_ipv4_inside or _is_global_ipv6(parsed)):
        return None
    return f"{parsed} is not globally routable"


def unsaid_entry(allow: tuple[str, ...], url: str) -> str | None:
    """Return the entry of `egress.allow` that implicitly opens the address of `url` to pages, or None."""
    parts = urlsplit(url)
    address = canonical_host(parts.hostname or ""), parts.port or (443 if parts.scheme == "https" else 80)
    return next((entry for entry in allow if "=" not in entry and _split_entry(entry)[1:] == address), None)


@lru_cache(maxsize=1024)
def canonical_host(host: str) -> str | None:
    """Return `host` as a browser reads it (`0x7f.1` is `127.0.0.1`), unbracketed, no final dot; None if invalid."""
    if len(host) > MAX_HOST_LENGTH:
        return None
    text = f"[{host}]" if ":" in host and not host.startswith("[") else host
    if not text or any(character in text for character in "/\\?#@%\t\r\n "):
        return None
    try:
        parsed = ada_url.URL(f"http://{text}/")
    except (ValueError, UnicodeError):
        return None
    name: str = parsed.hostname.strip("[]").rstrip(".")
    return None if parsed.port or not name else name


_SPECIAL_LABELS = frozenset({"local", "internal", "localhost", "onion", "test", "invalid", "alt"})

NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")


@cache
def _special(kind: str) -> tuple[Network, ...]:
    """Return the networks of `special_networks.toml` of one kind, `ipv4` or `ipv6`."""
    tables = tomllib.loads(Path(__file__).with_name("special_networks.toml").read_text("utf-8"))
    return tuple(map(ip_network, tables[kind]))


def _is_global_ipv4(address: IPv4Address) -> bool:
    return address.is_global and not any(address in network for network in _special("ipv4"))


def _is_global_ipv6(address: IPv6Address) -> bool:
    return address in _GLOBAL_UNICAST and address.is_global and not any(address in one for one in _special("ipv6"))


def _embedded_ipv4(address: IPv6Address, nat64: tuple[IPv6Network, ...]) -> Iterator[IPv4Address]:
    """Yield every embedded IPv4 address: mapped, compatible, NAT64, 6to4, Teredo (server and client), ISATAP."""
    packed = address.packed
    if address.ipv4_mapped or (not any(packed[:12]) and int(address) > 1):
        yield IPv4Address(packed[12:])
    for prefix in nat64:
        if address in prefix:
            yield _behind_nat64(packed, prefix.prefixlen)
    if address.sixtofour:
        yield address.sixtofour
    yield from address.teredo or ()
    if packed[8:12] in (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe"):
        yield IPv4Address(packed[12:])


def _behind_nat64(packed: bytes, prefix_length: int) -> IPv4Address:
    """Return the IPv4 address after the prefix, skipping the reserved octet (RFC 6052, 2.2)."""
    octets = packed[prefix_length // 8 :]
    reserved_at = 8 - prefix_length // 8
    if 0 <= reserved_at <= 4:
        octets = octets[:reserved_at] + octets[reserved_at + 1 :]
    return IPv4Address(octets[:4])


def _split_entry(entry: str) -> tuple[str, str | None, int]:
    purpose, _, address = entry.rpartition("=")
    host, _, port = address.rpartition(":")
    return purpose or "crawl", canonical_host(host), int(port)
