"""Decompression that stops at a ceiling, whatever the body claims to hold: gzip, deflate, Brotli, Zstandard.

A thousand bytes of any of them can hold a million. So each is unpacked piece by piece, and unpacking stops once the
pieces exceed the limit: a bomb costs its ceiling in memory, and its decoder's window. If encodings are stacked, the
ceiling holds for the output of each.

Data after a complete stream that begins no further one is ignored, as in browsers; only Brotli's library cannot
tell it from a broken body, so there it is refused. A truncated body is refused in any encoding."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import brotli
import zstandard

OFFERED = "gzip, deflate, br, zstd"
"""Supported encodings, as an Accept-Encoding."""
MAX_ENCODINGS = 2
"""Most stacked encodings; one more is a server's mistake behind another server's."""

_PIECE_BYTES = 65_536
_MAX_STREAMS = 1_000
"""Most streams in one body: each costs a decoder and may be empty. Blocked gzip, with the most streams of all, has 16
to a megabyte of text."""
_ZSTD_WINDOW_BYTES = 8_388_608
"""Largest window of a decoder (RFC 9659, 3)."""
_ZSTD_INPUT_BYTES = 128
"""Input per step: 4 bytes of input are 128 KiB at most (RFC 8878, 3.1.1.2), so these are 4 MiB."""
_ZLIB_INPUT_BYTES = 4_096
"""Input per step: deflate packs 1,032 bytes at most into one, so these are 4 MiB."""
_GZIP_OR_ZLIB = 47
_RAW_DEFLATE = -15


class UnknownEncoding(ValueError):
    """A content encoding that was never offered, or a body that is not in it; the error's text names it."""


class Inflater:
    """Collects a body sent as `encoding` (a Content-Encoding value), up to `max_bytes` decompressed.

    Raises UnknownEncoding if the encoding is not offered, too many are stacked, or the body does not match it.
    """

    def __init__(self, encoding: str, max_bytes: int) -> None:
        names = [name.strip().lower() for name in encoding.split(",")]
        names = [name for name in names if name not in {"", "identity"}]
        if len(names) > MAX_ENCODINGS or not _DECODERS.keys() >= set(names):
            raise UnknownEncoding(f"the content encoding {encoding.strip()[:40]!r}")
        self._decoders = [_DECODERS[name]() for name in reversed(names)]  # they are named in the order of packing
        self._unpacked_bytes = [0] * len(names)
        self._max_bytes = max_bytes
        self._context = bytearray()
        self._has_begun = False
        self.full = False

    @property
    def body(self) -> bytes:
        """The bytes collected so far."""
        return bytes(self._context)

    def feed(self, chunk: bytes) -> None:
        """Add received bytes. Sets `full` if they exceed the limit; nothing is added from then on."""
        if self.full:
            return
        self._has_begun = self._has_begun or bool(chunk)
        for piece in self._unpack(chunk, 0):
            room = self._max_bytes - len(self._context)
            self._context += piece[:room]
            if len(piece) > room:
                self.full = True
                return

    def finish(self) -> None:
        """Raise UnknownEncoding if the body is truncated. A body without a single byte is empty in any encoding."""
        for decoder in self._decoders if self._has_begun else ():
            decoder.finish()

    def _unpack(self, data: bytes, step: int) -> Iterator[bytes]:
        if step == len(self._decoders):
            yield data
            return
        for piece in self._decoders[step].feed(data):
            self._unpacked_bytes[step] += len(piece)
            yield from self._unpack(piece, step + 1)
            if self._unpacked_bytes[step] > self._max_bytes:
                self.full = True
                return


class _Streams:
    """Streams of one format, one after the other.

    `begin` gets the first `start_bytes` of a stream and returns its decoder, which takes `input_bytes` per step, as it
    cannot be stopped within one; after the first stream only data that starts with one of `follows` is another.
    """

    def __init__(
        self,
        name: str,
        begin: Callable[[bytes], Any],
        *,
        start_bytes: int,
        input_bytes: int,
        follows: tuple[bytes, ...] = (),
    ) -> None:
        self._name = name
        self._begin = begin
        self._start_bytes = start_bytes
        self._input_bytes = input_bytes
        self._follows = follows
        self._start = b""
        self._decoder: Any = None
        self._begun = 0
        self._is_over = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Unpack `data` lazily, in pieces of at most 4 MiB.

        Raises UnknownEncoding, and so does `finish` if the body is truncated.
        """
        rest = memoryview(data)
        while rest and not self._is_over:
            if self._decoder is None:
                rest = memoryview(self._begin_stream(bytes(rest)))
                continue
            step, rest = rest[: self._input_bytes], rest[self._input_bytes :]
            try:
                yield self._decoder.decompress(step)
            except (zlib.error, zstandard.ZstdError) as error:
                raise UnknownEncoding(f"a body that is not {self._name}") from error
            if self._decoder.eof:
                rest = memoryview(self._decoder.unused_data + bytes(rest))
                self._decoder = None

    def finish(self) -> None:
        """Check that the last stream is complete."""
        if self._decoder is not None or not self._begun:
            raise UnknownEncoding(f"a body that breaks off within {self._name}")

    def _begin_stream(self, data: bytes) -> bytes:
        """Return the bytes to feed to the next stream; empty if there is none, or its start is incomplete."""
        self._start += data
        if len(self._start) < self._start_bytes:
            return b""
        start, self._start = self._start, b""
        if self._begun and not start.startswith(self._follows):
            self._is_over = True
            return b""
        self._begun += 1
        if self._begun > _MAX_STREAMS:
            raise UnknownEncoding(f"a body of more than {_MAX_STREAMS} streams of {self._name}")
        self._decoder = self._begin(start)
        return start


class _Brotli:
    def __init__(self) -> None:
        self._engine = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        piece = self._process(data)
        yield piece
        while piece or not self._engine.can_accept_more_data():  # it may hold output back though all input is taken
            piece = self._process(b"")
            yield piece

    def finish(self) -> None:
        if not self._engine.is_finished():
            raise UnknownEncoding("a body that breaks off within br")

    def _process(self, data: bytes) -> bytes:
        try:
            return bytes(self._engine.process(data, output_buffer_limit=_PIECE_BYTES))
        except brotli.error as error:
            raise UnknownEncoding("a body that is not br") from error


def _zlib(name: str, window_bits: Callable[[bytes], int], follows: tuple[bytes, ...] = ()) -> _Streams:
    def begin(start: bytes) -> Any:
        return zlib.decompressobj(window_bits(start))

    return _Streams(name, begin, start_bytes=2, input_bytes=_ZLIB_INPUT_BYTES, follows=follows)


def _gzip() -> _Streams:
    """Return a decoder for gzip (RFC 1952) of any number of members; zlib's frame (RFC 1950) is accepted too."""
    return _zlib("gzip", lambda start: _GZIP_OR_ZLIB, (b"\x1f\x8b",))


def _deflate() -> _Streams:
    """Return a decoder for deflate in zlib's frame (RFC 1950), or without it (RFC 1951), as some servers send it."""
    return _zlib("deflate", _deflate_window_bits)


def _deflate_window_bits(start: bytes) -> int:
    """Detect zlib's frame by its first two bytes: method 8, and a multiple of 31."""
    framed = start[0] & 0x0F == 8 and int.from_bytes(start[:2], "big") % 31 == 0
    return _GZIP_OR_ZLIB if framed else _RAW_DEFLATE


def _zstd() -> _Streams:
    """Return a decoder for Zstandard (RFC 8878) of any number of frames, skippable ones among them."""
    engine = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    return _Streams(
        "zstd",
        lambda start: engine.decompressobj(write_size=_PIECE_BYTES),
        start_bytes=4,
        input_bytes=_ZSTD_INPUT_BYTES,
        follows=_ZSTD_STARTS,
    )


_ZSTD_STARTS = (b"\x28\xb5\x2f\xfd", *(bytes((0x50 + kind, 0x2A, 0x4D, 0x18)) for kind in range(16)))
_DECODERS: dict[str, Callable[[], _Streams | _Brotli]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _Brotli,
    "zstd": _zstd,
}
