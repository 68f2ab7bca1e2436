"""One HTTP/1.1 response, read piece by piece (RFC 9112), by a parser in C.

Promises: a head ends within 64 KiB, interim ones before it included; a response whose length could be read in two
ways is `Malformed`; one that ends before its length says is a ConnectionError; what comes after its end is not looked
at; what frames the body (chunk sizes, extensions, trailers) is bounded and never becomes a field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httptools

MAX_HEAD_BYTES = 65_536
"""Of a response head, together with the interim ones before it; servers stay under 16 KiB."""
MAX_INTERIM_RESPONSES = 8
"""Responses of the 1xx kind before the real one; sites send one at most."""
MAX_FRAMING_BYTES = 1_048_576
"""Of all that comes with a body and is not content. Chunks of one byte have five of these for each; servers that mean
it well send some thousand at a time."""


class Malformed(ValueError):
    """What arrived is no response of HTTP/1.1, or one that could be understood in two ways."""


class Response:
    """The response to a request of `method`: its head at once, its body by `body`.

    `receive` returns what arrived next, and nothing once the peer has ended. `fields` have lower-case names and
    stand in the order they were sent in.

    Raises:
        Malformed: as above. ConnectionError: the peer ended before the head was whole.
    """

    def __init__(self, receive: Callable[[], bytes], method: str) -> None:
        self._receive = receive
        self._message = _Message()
        head_bytes = 0
        while not self._message.has_head:
            if head_bytes > MAX_HEAD_BYTES:
                raise Malformed(f"a head larger than {MAX_HEAD_BYTES} bytes")
            received = receive()
            if not received:
                raise ConnectionError(
                    "the connection ended inside a head" if head_bytes else "closed without a response"
                )
            head_bytes += len(received)
            self._message.feed(received)
        self.status = self._message.status
        self.reason = self._message.reason.decode("latin-1").strip()
        self.fields = tuple((_text(name).lower(), _text(value)) for name, value in self._message.fields)
        self._is_bodiless = method == "HEAD" or self.status in {204, 304}
        self._ends_with_connection = self._read_framing()

    def first(self, name: str) -> str | None:
        """The first value of a field, by its lower-case name."""
        return next((value for field, value in self.fields if field == name), None)

    def all(self, name: str) -> list[str]:
        """Every value of a field, by its lower-case name."""
        return [value for field, value in self.fields if field == name]

    @property
    def length(self) -> int | None:
        """How many bytes the body claims to have; None where only its end will tell."""
        if self._is_bodiless:
            return 0
        length = self.first("content-length")
        return None if length is None else int(length)

    def body(self) -> Iterator[bytes]:
        """The body as it was sent, in pieces, without what frames it. To be asked for once.

        Raises:
            Malformed: it is not framed as it claims. ConnectionError: it breaks off.
        """
        framing_bytes = 0
        while not self._is_bodiless:
            yield self._message.take()
            if self._message.is_whole:
                return
            received = self._receive()
            if not received:
                if self._ends_with_connection:
                    return
                raise ConnectionError("the connection ended inside the body")
            self._message.feed(received)
            framing_bytes += len(received) - self._message.content_bytes
            if framing_bytes > MAX_FRAMING_BYTES:
                raise Malformed(f"more than {MAX_FRAMING_BYTES} bytes of framing around the body")

    def _read_framing(self) -> bool:
        """Whether the body ends with the connection; the parser has refused two lengths (RFC 9112, 6.3)."""
        codings = [coding.lower() for coding in self.all("transfer-encoding")]
        if codings and codings != ["chunked"]:
            raise Malformed("a transfer coding that was never offered")
        return not codings and self.length is None


class _Message:
    """What the parser found: of the first response that is not interim, and of nothing after it."""

    def __init__(self) -> None:
        self.status = 0
        self.reason = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.has_head = False
        self.is_whole = False
        self._content: list[bytes] = []
        self._interim = 0
        self._parser = httptools.HttpResponseParser(self)

    @property
    def content_bytes(self) -> int:
        """Of the content that was not taken yet."""
        return sum(map(len, self._content))

    def take(self) -> bytes:
        """The content that came since the last time."""
        taken, self._content = b"".join(self._content), []
        return taken

    def feed(self, data: bytes) -> None:
        """Read on. Raises Malformed."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.is_whole:
                raise Malformed(f"not an HTTP response: {error or type(error).__name__}") from error
        if self._interim > MAX_INTERIM_RESPONSES:
            raise Malformed("interim responses without end")

    def on_status(self, part: bytes) -> None:
        """The parser's: a part of the reason phrase."""
        if not self.has_head:
            self.reason += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser's: a field of the head, or of the trailer."""
        if not self.has_head:
            self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        """The parser's: the end of a head."""
        if self.has_head:
            return
        self.status = self._parser.get_status_code()
        self.has_head = not 100 <= self.status < 200
        if not self.has_head:
            self._interim += 1
            self.reason, self.fields = b"", []

    def on_body(self, content: bytes) -> None:
        """The parser's: content."""
        if not self.is_whole:
            self._content.append(content)

    def on_message_complete(self) -> None:
        """The parser's: the end of a message."""
        self.is_whole = self.has_head


def _text(field: bytes) -> str:
    return field.decode("latin-1")
