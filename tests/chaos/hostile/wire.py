"""What really leaves: every first packet to an address that nobody may reach, seen on the wire itself.

A listener that nothing reached proves little about ports without one. This looks at the loopback device, which in a
world of its own (`tests.chaos.hostile.world`) carries every packet to every address there is.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

ETH_P_ALL = 3
SO_ATTACH_FILTER = 26
SO_RCVBUFFORCE = 33
SOL_PACKET = 263
PACKET_STATISTICS = 6
PACKET_OUTGOING = 4
SNAPPED_BYTES = 128

_FILTER = (
    # Classic BPF over Ethernet frames: TCP with SYN and without ACK, UDP; nothing else.
    (0x28, 0, 0, 12),  # 0 half word: the protocol of the frame
    (0x15, 0, 7, 0x0800),  # 1 IPv4, else 9
    (0x30, 0, 0, 23),  # 2 its protocol
    (0x15, 9, 0, 17),  # 3 UDP: take (13)
    (0x15, 0, 9, 6),  # 4 TCP, else drop (14)
    (0xB1, 0, 0, 14),  # 5 the length of its head
    (0x50, 0, 0, 27),  # 6 the flags of TCP
    (0x54, 0, 0, 0x12),  # 7 SYN and ACK
    (0x15, 4, 5, 0x02),  # 8 SYN alone: take, else drop
    (0x15, 0, 4, 0x86DD),  # 9 IPv6, else drop
    (0x30, 0, 0, 20),  # 10 its next header
    (0x15, 1, 0, 17),  # 11 UDP: take
    (0x15, 2, 1, 6),  # 12 TCP: look at its flags (15), else drop
    (0x06, 0, 0, SNAPPED_BYTES),  # 13 take
    (0x06, 0, 0, 0),  # 14 drop
    (0x30, 0, 0, 14 + 40 + 13),  # 15 the flags of TCP after an IPv6 head without extensions
    (0x54, 0, 0, 0x12),  # 16
    (0x15, 0, 1, 0x02),  # 17
    (0x06, 0, 0, SNAPPED_BYTES),  # 18 take
    (0x06, 0, 0, 0),  # 19 drop
)

_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_GLOBAL_UNICAST = IPv6Network("2000::/3")


@dataclass(frozen=True, slots=True)
class Packet:
    """The first packet of a connection, or a datagram. Where it goes, and where it comes from."""

    protocol: str
    address: str
    port: int
    source: tuple[str, int]


class Wire:
    """Watches the loopback device from `__enter__` to `__exit__`. `known` are our own endpoints, by address and port."""

    def __init__(self, known: Collection[tuple[str, int]]) -> None:
        self.known = set(known)
        self.seen = 0
        """Packets of any kind that passed the filter: a wire that saw none was not watched."""
        self._forbidden: list[Packet] = []
        self._guard = threading.Lock()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32_000_000)
        self._program = _attach(self._socket)
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.2)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="wire", daemon=True)

    def __enter__(self) -> Wire:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._socket.close()

    def take(self) -> list[Packet]:
        """The packets to forbidden addresses since the last call."""
        with self._guard:
            taken, self._forbidden = self._forbidden, []
        return taken

    def dropped(self) -> int:
        """Packets that the kernel could not hand over: with any, nothing is proven."""
        _, dropped = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        return int(dropped)

    def _watch(self) -> None:
        while not self._ends.is_set():
            try:
                frame, sender = self._socket.recvfrom(SNAPPED_BYTES)
            except TimeoutError:
                continue
            if sender[2] == PACKET_OUTGOING:
                continue  # each packet passes the device twice: out and in
            self._note(_packet(frame))

    def _note(self, packet: Packet) -> None:
        with self._guard:
            self.seen += 1
            is_ours = (packet.address, packet.port) in self.known or packet.source in self.known  # an answer of ours
            if not is_ours and is_forbidden(packet.address):
                self._forbidden.append(packet)


def is_forbidden(address: str) -> bool:
    """Whether no crawl may reach `address`: it, or an IPv4 address that it carries, is not of the public internet.

    Written apart from the rules under test, so that they are not judged by themselves.
    """
    parsed = ip_address(address)
    if isinstance(parsed, IPv4Address):
        return not parsed.is_global or parsed.is_multicast
    carried = _carried(parsed)
    if carried:
        return any(is_forbidden(str(one)) for one in carried)
    return parsed not in _GLOBAL_UNICAST or not parsed.is_global


def _carried(address: IPv6Address) -> tuple[IPv4Address, ...]:
    packed = address.packed
    if address.ipv4_mapped or address in _NAT64 or not any(packed[:12]):
        return (IPv4Address(packed[12:]),)
    if address in _SIX_TO_FOUR:
        return (IPv4Address(packed[2:6]),)
    if address in _TEREDO:
        return IPv4Address(packed[4:8]), IPv4Address(bytes(byte ^ 0xFF for byte in packed[12:]))
    return ()


def _packet(frame: bytes) -> Packet:
    if frame[12:14] == b"\x08\x00":
        family, at, size, start, protocol = socket.AF_INET, 26, 4, 14 + 4 * (frame[14] & 15), frame[23]
    else:
        family, at, size, start, protocol = socket.AF_INET6, 22, 16, 54, frame[20]
    source, address = (socket.inet_ntop(family, frame[begin : begin + size]) for begin in (at, at + size))
    from_port, port = (int.from_bytes(frame[begin : begin + 2], "big") for begin in (start, start + 2))
    return Packet("udp" if protocol == 17 else "tcp", address, port, (source, from_port))


def _attach(watched: socket.socket) -> ctypes.Array[ctypes.c_char]:
    """Give the filter to the kernel; the buffer that holds it."""
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in _FILTER))
    head = struct.pack("HL", len(_FILTER), ctypes.addressof(program))
    watched.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, head)
    return program
