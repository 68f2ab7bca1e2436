"""HTTP/1.1 messages with h11: requests to the egress proxy or through its tunnel, and responses.

Promises: a request is one request, whatever its address and headers contain; the proxy's secret goes to the
proxy alone; no error shows the value of a header, which may be a key. A response's head ends within 64 KiB, interim
ones before it included; a response that is not HTTP, or whose length is ambiguous, is `Malformed`; one that
ends before its length says is a ConnectionError; data after its end is ignored; the framing of the body (chunk
sizes, extensions, trailers) is bounded and never becomes a field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import ada_url
import h11

from sluice.contracts.errors import InvalidInput
from sluice.ingest.http.decompress import OFFERED
from sluice.ingest.url import ProxyAddress

MAX_HEAD_BYTES = 65_536
"""Largest response head, together with the interim ones before it; servers stay under 16 KiB."""
MAX_INTERIM_RESPONSES = 8
"""Most 1xx responses before the real one; sites send one at most."""
MAX_FRAMING_BYTES = 524_288
"""Most bytes of a body that are not content. Chunks of one byte have five of them each; well-meaning servers send some
thousand bytes at a time."""
_START = b"HTTP/"
_BLANK_LINE = re.compile(rb"\n\r?\n")
_LENIENT = re.compile(rb"\n[ \t]|(?<!\r)\n|\ncontent-length:[^\n]*,", re.IGNORECASE)
"""Syntax in a head that h11 accepts but others may read differently: folded lines, a line feed without carriage return,
a list of lengths. The egress proxy refuses the same."""


class Malformed(ValueError):
    """The peer sent no HTTP/1.1 response, or an ambiguous one."""


class Response:
    """The response to the request that `exchange` has sent: its head at once, its body by `body`.

    `receive` returns the next bytes, and nothing once the peer has ended. `fields` have lower-case names and keep the
    order they were sent in. Raises Malformed as above, and ConnectionError if the peer ends before the head is whole.
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
        """Return the first value of a field, by its lower-case name."""
        return next((value for field, value in self.fields if field == name), None)

    def all(self, name: str) -> list[str]:
        """Return every value of a field, by its lower-case name."""
        return [value for field, value in self.fields if field == name]

    @property
    def length(self) -> int | None:
        """The declared length of the body, in bytes; None if only its end tells, or there is no body."""
        length = self.first("content-length")
        return None if length is None or self.status in {204, 304} else int(length)

    def body(self) -> Iterator[bytes]:
        """Yield the body in pieces, unframed; call it once. Raises Malformed, or ConnectionError if it is truncated."""
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
        """Raise Malformed if one of the `heads`, the interim ones first, is ambiguous."""
        ends_at = 0
        for _ in range(heads):
            blank = _BLANK_LINE.search(self._head, ends_at)
            ends_at = blank.end() if blank else len(self._head)
        if _LENIENT.search(self._head, 0, ends_at):
            raise Malformed("a header that is folded, ends without CR LF, or lists lengths")
        self._head.clear()

    def _take(self, ended: str) -> bytes:
        """Return the next bytes. Raises ConnectionError, with the message `ended`, if the peer has ended too early."""
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


_FIELD_VALUE = re.compile(r"(?:[\x21-\x7e\x80-\xff]+(?:[\t\x20]+[\x21-\x7e\x80-\xff]+)*)?")


Message = tuple[bytes, h11.Connection]
"""A request in wire format, and the state of the exchange, by which the response to it is read."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the address `url`, split into its parts.

    `host` has no brackets, `authority` names a port only if it is not the scheme's default, `path` includes the query.
    """

    url: str
    is_secure: bool
    host: str
    port: int
    authority: str
    path: str
    method: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None = field(default=None, repr=False)

    @classmethod
    def to(cls, url: str, method: str, headers: Mapping[str, str], content: bytes | None = None) -> Request:
        """Return a request to `url`; headers without a value are left out. Raises InvalidInput unless it is http(s)."""
        try:
            parsed = ada_url.URL(url)
        except (ValueError, UnicodeError) as error:
            raise InvalidInput("url", f"{url[:200]!r} is not a URL", "an absolute http or https address") from error
        protocol = parsed.protocol
        if protocol not in {"http:", "https:"}:
            raise InvalidInput("url", f"scheme {protocol.rstrip(':')!r}", "use http or https")
        return cls(
            url=url,
            is_secure=protocol == "https:",
            host=parsed.hostname.strip("[]").rstrip("."),
            port=int(parsed.port or 443),
            authority=parsed.host,
            path=parsed.pathname + parsed.search,
            method=method,
            headers=headers,
            content=content,
        )

    def message(self, user_agent: str, proxy: ProxyAddress) -> Message:
        """Return the whole request: for the site if a tunnel leads there, else for the proxy, which forwards it.

        Raises InvalidInput if a header has a value that no header can carry.
        """
        target = self.path if self.is_secure else f"http://{self.authority}{self.path}"
        ours = {"Host": self.authority, "User-Agent": user_agent, "Accept-Encoding": OFFERED}
        authorization = {} if self.is_secure else proxy.headers
        length = {} if self.content is None else {"Content-Length": str(len(self.content))}
        fields = {**ours, **self.headers, **length, **authorization, "Connection": "close"}
        return _message(self.method, target, fields, self.content)

    def tunnel_message(self, proxy: ProxyAddress) -> Message:
        """Return the request for a tunnel to the site."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        target = f"{host}:{self.port}"
        return _message("CONNECT", target, {"Host": target, **proxy.headers})


def is_field_value(text: str) -> bool:
    """Return whether a header can carry `text` (RFC 9110, 5.5)."""
    return _FIELD_VALUE.fullmatch(text) is not None


def _message(method: str, target: str, fields: Mapping[str, str], content: bytes | None = None) -> Message:
    for name, value in fields.items():
        if not is_field_value(value):
            raise InvalidInput(name, "holds what no header can carry", "printable characters of Latin-1")
    exchange = h11.Connection(h11.CLIENT, max_incomplete_event_size=2 * MAX_FRAMING_BYTES)
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items() if value]
    try:
        head = exchange.send(h11.Request(method=method, target=target, headers=headers))
        body = exchange.send(h11.Data(content)) if content else None
        exchange.send(h11.EndOfMessage())
    except h11.LocalProtocolError as error:
        raise InvalidInput("request", f"cannot be sent: {error}") from error
    return (head or b"") + (body or b""), exchange
