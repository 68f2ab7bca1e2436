"""A name server of our own: what a name means is written in it, and may change from one question to the next.

anything.org            93.184.216.34
ip-7f000001.…           that IPv4 address, in hexadecimal
six-…32 digits…         that IPv6 address
both-0a000001.…         a public address and that one, in one answer
chain-0a000001.…        three aliases, then that address
turn-7f000001.…         public when asked first, then in turn that address and the public one
late-7f000001.…         public when asked first, that address ever after
mapped-7f000001.…       public as A; as AAAA that address, mapped into IPv6
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections import Counter
from ipaddress import IPv4Address

A, CNAME, AAAA = 1, 5, 28
PUBLIC = "93.184.216.34"
SILENT = "93.184.216.35"
"""As public as the other; who connects there gets no byte."""
SILENT_NAME = "silent."
CHAIN = 3
_TTL_SECONDS = 0

Record = tuple[str, int, bytes]
"""The name that it is about, its type, its data."""


class Names:
    """Answers on 127.0.0.53 from `__enter__` to `__exit__`. `asked` counts questions for an A record by name."""

    def __init__(self, address: str = "127.0.0.53") -> None:
        self.endpoint = (address, 53)
        self.asked: Counter[str] = Counter()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._serve, name="names", daemon=True)

    def __enter__(self) -> Names:
        self._socket.bind(self.endpoint)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self.endpoint)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            question, sender = self._socket.recvfrom(512)
            if not question:
                return
            self._socket.sendto(self._reply(question), sender)

    def _reply(self, question: bytes) -> bytes:
        name, end = _read_name(question)
        kind = int.from_bytes(question[end : end + 2], "big")
        if kind == A:
            self.asked[name] += 1
        records = [_record(*one) for one in answer(name, kind, self.asked[name])]
        head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, len(records), 0, 0)
        return head + question[12 : end + 4] + b"".join(records)


def answer(name: str, kind: int, times: int) -> list[Record]:
    """What `name` means to who asks the `times`-th time."""
    form, _, rest = name.partition("-")
    digits = rest.partition(".")[0]
    if name.startswith(SILENT_NAME):
        return _address(name, kind, SILENT)
    if form == "six" and len(digits) == 32:
        return [(name, AAAA, bytes.fromhex(digits))] if kind == AAAA else []
    if form not in _FORMS or len(digits) != 8:
        return _address(name, kind, PUBLIC)
    inner = str(IPv4Address(bytes.fromhex(digits)))
    if form == "mapped" and kind == AAAA:
        return [(name, AAAA, bytes(10) + b"\xff\xff" + bytes.fromhex(digits))]
    if form == "chain":
        return _chain(name, kind, inner)
    if form == "both":
        return _address(name, kind, PUBLIC) + _address(name, kind, inner)
    return _address(name, kind, inner if _is_inner(form, times) else PUBLIC)


_FORMS = frozenset({"ip", "both", "chain", "turn", "late", "mapped"})


def _is_inner(form: str, times: int) -> bool:
    return form == "ip" or (form == "turn" and times % 2 == 0) or (form == "late" and times > 1)


def _address(name: str, kind: int, address: str) -> list[Record]:
    return [(name, A, socket.inet_aton(address))] if kind == A else []


def _chain(name: str, kind: int, address: str) -> list[Record]:
    hops = [name, *(f"hop{number}.{name}" for number in range(CHAIN))]
    aliases: list[Record] = [(here, CNAME, _write_name(there)) for here, there in itertools.pairwise(hops)]
    return aliases + _address(hops[-1], kind, address)


def _read_name(question: bytes) -> tuple[str, int]:
    """The name asked for, in lower case, and where it ends."""
    labels, at = [], 12
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode("latin-1"))
        at += 1 + length
    return ".".join(labels).lower(), at + 1


def _write_name(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode("latin-1") for label in name.split(".")) + b"\0"


def _record(name: str, kind: int, data: bytes) -> bytes:
    return _write_name(name) + struct.pack(">HHIH", kind, 1, _TTL_SECONDS, len(data)) + data
