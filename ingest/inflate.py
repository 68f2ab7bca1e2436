"""Decompression that stops at a ceiling, whatever the body claims to hold.

A thousand bytes of deflate can hold a million; each step here produces no more than what is still
allowed, so a bomb costs its ceiling in memory and nothing beyond.
"""

from __future__ import annotations

import zlib

_GZIP_OR_ZLIB = 47
_RAW_DEFLATE = -15


class UnknownEncoding(ValueError):
    """A content encoding that was never offered; named by the error's text."""


class Inflater:
    """Collects a body sent as `encoding` (a Content-Encoding value), up to `max_bytes` decompressed.

    Raises:
        UnknownEncoding: neither gzip nor deflate nor plain, several on top of one another, or a body that is
            not what it claims to be.
    """

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise UnknownEncoding(f"the content encoding {self._encoding[:40]!r}")
        self._compressed = self._encoding not in {"", "identity"}
        self._engine: zlib._Decompress | None = None
        self._start = bytearray()
        self._max_bytes = max_bytes
        self._parts = bytearray()
        self.full = False

    @property
    def body(self) -> bytes:
        """What was collected so far."""
        return bytes(self._parts)

    def feed(self, chunk: bytes) -> None:
        """Add what arrived. `full` is set where there was more than fits."""
        if self.full:
            return
        room = self._max_bytes - len(self._parts) + 1
        self._parts += self._inflate(chunk, room) if self._compressed else chunk[:room]
        if len(self._parts) > self._max_bytes:
            del self._parts[self._max_bytes :]
            self.full = True

    def _inflate(self, chunk: bytes, room: int) -> bytes:
        chunk, produced = self._begin(chunk), bytearray()
        while chunk and self._engine is not None and len(produced) < room:
            try:
                produced += self._engine.decompress(chunk, room - len(produced))
            except zlib.error as error:
                raise UnknownEncoding(f"a body that is not {self._encoding}") from error
            chunk = self._engine.unconsumed_tail
            if self._engine.eof:  # a gzip body may be several members, one after the other
                chunk = self._engine.unused_data
                self._engine = zlib.decompressobj(_GZIP_OR_ZLIB)
        return bytes(produced)

    def _begin(self, chunk: bytes) -> bytes:
        """Choose the engine by the first two bytes: some servers send deflate without its zlib frame."""
        if self._engine is not None:
            return chunk
        self._start += chunk
        if len(self._start) < 2:
            return b""
        framed = self._encoding != "deflate" or int.from_bytes(self._start[:2], "big") % 31 == 0
        self._engine = zlib.decompressobj(_GZIP_OR_ZLIB if framed else _RAW_DEFLATE)
        return bytes(self._start)
