"""One HTTP/1.1 response, read piece by piece (RFC 9112) with h11.

Promises: a head ends within 64 KiB, interim ones before it included; a response that is no HTTP, or whose length could
be read in two ways, is `Malformed`; one that ends before its length says is a ConnectionError; what comes after its end
is not looked at; what frames the body (chunk sizes, extensions, trailers) is bounded and never becomes a field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import h11

MAX_HEAD_BYTES = 65_536
"""Of a response head, together with the interim ones before it; servers stay under 16 KiB."""
MAX_INTERIM_RESPONSES = 8
"""Responses of the 1xx kind before the real one; sites send one at most."""
MAX_FRAMING_BYTES = 524_288
"""Of all that comes with a body and is not content. Chunks of one byte have five of these for each; servers that mean
it well send some thousand at a time."""
_START = b"HTTP/"
_BLANK_LINE = re.compile(rb"\n\r?\n")
_LENIENT = re.compile(rb"\n[ \t]|(?<!\r)\n|\ncontent-length:[^\n]*,", re.IGNORECASE)
"""What h11 puts up with in a head, and others may read in another way: folded lines, lines that end with a line feed
alone, a list of lengths. The egress proxy refuses the same."""


class Malformed(ValueError):
    """What arrived is no response of HTTP/1.1, or one that could be understood in two ways."""


class Response:
    """The response to the request that `exchange` has sent: its head at once, its body by `body`.

    `receive` returns what arrived next, and nothing once the peer has ended. `fields` have lower-case names and
    stand in the order they were sent in.

    Raises:
        Malformed: as above. ConnectionError: the peer ended before the head was whole.
    """

    def __init__(self, receive: Callable[[], bytes], exchange: h11.Connection) -> None:
        self._receive = receive
        self._exchange = exchange
        self._received_bytes = 0
        self._content_bytes = 0
        self._has_ended = False
        self._ends_with_connection = False
        self._head = bytearray()
        head = self._read_head()
        self.status = head.status_code
        self.reason = head.reason.decode("latin-1").strip()
        self.fields = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers)
        if self.first("transfer-encoding") is not None and self.first("content-length") is not None:
            raise Malformed("Transfer-Encoding beside Content-Length: the length of the body is ambiguous")
        self._ends_with_connection = self.first("transfer-encoding") is None and self.length is None  # RFC 9112, 6.3

    def first(self, name: str) -> str | None:
        """The first value of a field, by its lower-case name."""
        return next((value for field, value in self.fields if field == name), None)

    def all(self, name: str) -> list[str]:
        """Every value of a field, by its lower-case name."""
        return [value for field, value in self.fields if field == name]

    @property
    def length(self) -> int | None:
        """How many bytes the body claims to have; None where only its end will tell, or where it has none."""
        length = self.first("content-length")
        return None if length is None or self.status in {204, 304} else int(length)

    def body(self) -> Iterator[bytes]:
        """The body as it was sent, in pieces, without what frames it. To be asked for once.

        Raises:
            Malformed: it is not framed as it claims. ConnectionError: it breaks off.
        """
        self._received_bytes = 0
        while True:
            pieces: list[bytes] = []
            while isinstance(event := self._next_event(), h11.Data):
                pieces.append(bytes(event.data))
            content = b"".join(pieces)
            self._content_bytes += len(content)
            yield content
            if event is not h11.NEED_DATA:
                return
            if self._received_bytes - self._content_bytes > MAX_FRAMING_BYTES:
                raise Malformed(f"more than {MAX_FRAMING_BYTES} bytes of framing around the body")
            self._take("the connection ended inside the body")

    def _read_head(self) -> h11.Response:
        interim = 0
        while not isinstance(event := self._next_event(), h11.Response):
            if isinstance(event, h11.InformationalResponse):
                interim += 1
                if interim > MAX_INTERIM_RESPONSES:
                    raise Malformed("interim responses without end")
                continue
            if self._received_bytes > MAX_HEAD_BYTES:
                raise Malformed(f"a head larger than {MAX_HEAD_BYTES} bytes")
            begun = self._received_bytes > 0
            self._head += self._take("the connection ended inside a head" if begun else "closed without a response")
            if self._head[: len(_START)] != _START[: len(self._head)]:
                raise Malformed(f"not an HTTP response: it begins with {bytes(self._head[:20])!r}")
        self._require_strict(heads=interim + 1)
        return event

    def _require_strict(self, heads: int) -> None:
        """Raise Malformed where one of so many heads, the interim ones first, could be read in two ways."""
        ends_at = 0
        for _ in range(heads):
            blank = _BLANK_LINE.search(self._head, ends_at)
            ends_at = blank.end() if blank else len(self._head)
        if _LENIENT.search(self._head, 0, ends_at):
            raise Malformed("a header that is folded, ends without CR LF, or lists lengths")
        self._head.clear()

    def _take(self, ended: str) -> bytes:
        """Take in what arrives next, and return it.

        Raises:
            ConnectionError: nothing more can come, and the response is not whole; says `ended`.
        """
        if self._has_ended:
            raise ConnectionError(ended)
        received = self._receive()
        self._has_ended = not received
        self._received_bytes += len(received)
        self._exchange.receive_data(received)
        if self._has_ended and not self._ends_with_connection:
            raise ConnectionError(ended)
        return received

    def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._exchange.next_event()
        except h11.RemoteProtocolError as error:
            raise Malformed(f"not an HTTP response: {error}") from error
