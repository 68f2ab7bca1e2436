"""The networks that this machine stands in: its own addresses, and its neighbours'.

An address of ours may be globally routable, and so may a whole network that we are on: an IPv6 one nearly always is.
What listens there trusts its neighbours, and a page must not speak in our name. The kernel's tables under `/proc/net`
tell (proc(5)); they are read again when they are ten seconds old, as addresses come and go. Where there are no such
tables nothing is known, and nothing is held for our own.

What no table tells is not known: a public address that a router elsewhere translates to ours.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

FRESH_SECONDS = 10.0
SHORTEST_PREFIX = {4: 8, 6: 16}
"""By version of IP. What is larger is no network of neighbours, but the way to the internet (a tunnel that takes
half of it)."""

_GATEWAY_OR_REJECT = 0x0002 | 0x0200  # RTF_GATEWAY, RTF_REJECT in linux/route.h and ipv6_route.h
_TRIE_LINE = re.compile(r"\s*(?:\|-- (?P<address>[\d.]+)|/(?P<length>\d+) host LOCAL)")


class OwnNetworks:
    """What the kernel's tables in `folder` say, at most `FRESH_SECONDS` old. `clock` counts seconds."""

    def __init__(self, folder: Path = Path("/proc/net"), clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._networks: tuple[Network, ...] = ()
        self._stale_at = float("-inf")

    def holding(self, address: Address) -> Network | None:
        """The network of ours that an address is in, or None."""
        return next((network for network in self.networks() if address in network), None)

    def networks(self) -> tuple[Network, ...]:
        """Every address of ours as a network of one, and every network that holds one and has no gateway before it."""
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
    """What the kernel takes for its own: single addresses, and networks of which each address is."""
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
    """The kernel prints the four octets as one number of its own byte order."""
    return struct.pack("=I", int(text, 16))
