"""PackStream version 1, read and written by its specification and without the driver's code."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple


class Structure(NamedTuple):
    tag: int
    fields: list[Any]


def pack(value: Any) -> bytes:
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return _integer(value)
        case float():
            return b"\xc1" + struct.pack(">d", value)
        case str():
            raw = value.encode()
            return _head(len(raw), 0x80, (0xD0, 0xD1, 0xD2)) + raw
        case bytes():
            return _head(len(value), None, (0xCC, 0xCD, 0xCE)) + value
        case Structure(tag, fields):
            return bytes((0xB0 | len(fields), tag)) + b"".join(map(pack, fields))
        case list() | tuple():
            return _head(len(value), 0x90, (0xD4, 0xD5, 0xD6)) + b"".join(map(pack, value))
        case dict():
            pairs = b"".join(pack(key) + pack(one) for key, one in value.items())
            return _head(len(value), 0xA0, (0xD8, 0xD9, 0xDA)) + pairs
    raise TypeError(f"no PackStream for {type(value)}")


def unpack(data: bytes) -> Any:
    return _Reader(data).value()


def _integer(value: int) -> bytes:
    if -0x10 <= value < 0x80:
        return struct.pack(">b", value)
    for marker, code, size in ((0xC8, ">b", 8), (0xC9, ">h", 16), (0xCA, ">i", 32), (0xCB, ">q", 64)):
        if -(1 << size - 1) <= value < 1 << size - 1:
            return bytes((marker,)) + struct.pack(code, value)
    raise OverflowError(value)


def _head(size: int, tiny: int | None, markers: tuple[int, int, int]) -> bytes:
    if tiny is not None and size < 16:
        return bytes((tiny | size,))
    for marker, code, bits in zip(markers, (">B", ">H", ">I"), (8, 16, 32), strict=True):
        if size < 1 << bits:
            return bytes((marker,)) + struct.pack(code, size)
    raise OverflowError(size)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def value(self) -> Any:
        marker = self._number(">B")
        low = marker & 0x0F
        match marker & 0xF0:
            case 0x80:
                return self._text(low)
            case 0x90:
                return self._list(low)
            case 0xA0:
                return self._map(low)
            case 0xB0:
                tag = self._number(">B")
                return Structure(tag, self._list(low))
        if marker < 0x80:
            return marker
        if marker >= 0xF0:
            return marker - 0x100
        plain = {0xC0: None, 0xC2: False, 0xC3: True}
        if marker in plain:
            return plain[marker]
        if marker == 0xC1:
            return self._number(">d")
        if 0xC8 <= marker <= 0xCB:
            return self._number((">b", ">h", ">i", ">q")[marker - 0xC8])
        sizes = (">B", ">H", ">I")
        for first, read in ((0xCC, self._take), (0xD0, self._text), (0xD4, self._list), (0xD8, self._map)):
            if first <= marker <= first + 2:
                return read(self._number(sizes[marker - first]))
        raise ValueError(f"no PackStream marker: {marker:#x}")

    def _number(self, code: str) -> Any:
        return struct.unpack(code, self._take(struct.calcsize(code)))[0]

    def _take(self, size: int) -> bytes:
        taken = self._data[self._place : self._place + size]
        self._place += size
        return taken

    def _text(self, size: int) -> str:
        return self._take(size).decode()

    def _list(self, size: int) -> list[Any]:
        return [self.value() for _ in range(size)]

    def _map(self, size: int) -> dict[str, Any]:
        return {self.value(): self.value() for _ in range(size)}
