"""The name in a TLS handshake's first message (RFC 8446, 4.1.2; RFC 6066, 3), read without taking part in it.

A tunnel was asked for one host; the first message inside says for which one the server will take it. Where only listed
domains may be reached the two must agree, or a server of many sites would lead to all of them.
"""

from __future__ import annotations

MAX_HELLO_BYTES = 16_384 + 5
"""One record with its header (RFC 8446, 5.1); browsers send under two thousand bytes."""
RECORD_HEADER_BYTES = 5

_HANDSHAKE = 22
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_HOST_NAME = 0


class NoHello(ValueError):
    """Not a whole TLS client hello in one record."""


def record_length(start: bytes) -> int:
    """Bytes of the first record with its header, by its first five bytes.

    Raises:
        NoHello: it is no TLS handshake.
    """
    if len(start) < RECORD_HEADER_BYTES or start[0] != _HANDSHAKE or start[1] != 3:
        raise NoHello("not a TLS handshake")
    length = RECORD_HEADER_BYTES + int.from_bytes(start[3:5])
    if length > MAX_HELLO_BYTES:
        raise NoHello("a record larger than TLS allows")
    return length


def server_name(record: bytes) -> str | None:
    """The host name that the client asks the server for, or None where it names none.

    Raises:
        NoHello: it is not a client hello, or not a whole one.
    """
    message = _Reader(record[RECORD_HEADER_BYTES:])
    if message.number(1) != _CLIENT_HELLO:
        raise NoHello("not a client hello")
    hello = message.part(3)
    hello.take(2 + 32)  # version, random
    for length_bytes in (1, 2, 1):  # session, cipher suites, compression
        hello.part(length_bytes)
    extensions = hello.part(2) if hello.left else _Reader(b"")
    while extensions.left:
        kind, content = extensions.number(2), extensions.part(2)
        if kind == _SERVER_NAME:
            return _first_host_name(content.part(2))
    return None


def _first_host_name(names: _Reader) -> str | None:
    while names.left:
        kind, name = names.number(1), names.part(2)
        if kind == _HOST_NAME:
            return name.take(name.left).decode("latin-1")
    return None


class _Reader:
    """Takes a message apart from its start."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise NoHello("a client hello that is cut short")
        self._at += count
        return self._content[self._at - count : self._at]

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count))

    def part(self, length_bytes: int) -> _Reader:
        return _Reader(self.take(self.number(length_bytes)))
