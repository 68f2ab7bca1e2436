"""Parses the beginning of a connection for a forward proxy: HTTP/1.1 heads, and the name in a TLS handshake.

Heads are read and rewritten by RFC 9110, 7.6 and RFC 9112, 3.2: bytes in, values out. Promises: an ambiguous
head is refused (`BadHead`); hop-by-hop fields never pass; `Host` always names the target that was
judged; a site cannot send the proxy's own `X-Sluice-*` fields.

A tunnel is requested for one host; the first TLS message inside (RFC 8446, 4.1.2; RFC 6066, 3) names the host that
the server will serve. Where only listed domains may be reached the two must agree, or a server of many sites would
lead to all of them. The handshake is read without taking part in it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import ada_url

from sluice.ingest.egress.rules import Refusal

MAX_HEAD_BYTES = 65_536
"""Largest request or response head; browsers and servers stay under 16 KiB."""
MAX_LENGTH_DIGITS = 18
"""Most digits of a Content-Length: an exabyte."""

_FIELDS = re.compile(r"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r\n)*")
_FIELD = re.compile(r"([^:]+):[ \t]*([^\r\n]*)\r\n")
_REQUEST_LINE = re.compile(r"([A-Z]{1,16}) (\S+) HTTP/1\.[01]")
_STATUS_LINE = re.compile(r"HTTP/1\.[01] ([1-5]\d\d)(?: .*)?")
_HOP_BY_HOP = frozenset(
    [
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "upgrade"),
    ]
)
MALFORMED_RESPONSE = "malformed_response"
"""Mark of the proxy's answer in place of a site's malformed one; `ingest.http.fetch` uses it as the rule."""


class BadHead(Exception):
    """A head that is not HTTP/1.1 or could be read in two ways."""


class CutShort(BadHead):
    """A head that is incomplete because the connection ended."""


class Failed(Exception):
    """The site could not be reached: the status to answer with, and the reason in a few words."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


class Refused(Exception):
    """A rule forbids the request."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.detail)


@dataclass(frozen=True, slots=True)
class Head:
    """The start line and the fields of a message, in order, names as they were sent."""

    start_line: str
    fields: tuple[tuple[str, str], ...]
    firsts: Mapping[str, str]
    """First value of each field, by its lower-case name."""

    @property
    def method(self) -> str:
        """The method of a request."""
        return self.start_line.split(" ", 1)[0]

    @property
    def status(self) -> int:
        """The status of a response."""
        return int(self.start_line.split(" ", 2)[1])

    @property
    def has_body(self) -> bool:
        """Whether a request announces a body."""
        return self.firsts.get("transfer-encoding") is not None or self.firsts.get("content-length") not in (None, "0")


@dataclass(frozen=True, slots=True)
class Target:
    """Destination of a request; `path` is empty for a tunnel."""

    host: str
    port: int
    path: str = ""
    authority: str = ""


def parse_request(raw: bytes) -> Head:
    """Parse a request's head, empty line included. Raises BadHead: not HTTP/1.1, or of ambiguous length of the body."""
    return _parse_head(raw, _REQUEST_LINE)


def parse_response(raw: bytes) -> Head:
    """Parse a response's head, as `parse_request`."""
    return _parse_head(raw, _STATUS_LINE)


def read_target(head: Head) -> Target:
    """Return the target of a proxy request.

    Raises BadHead if it is neither `host:port` (CONNECT) nor an absolute URL, Refused (`scheme`) if not http.
    """
    target = head.start_line.split(" ")[1]
    if head.method == "CONNECT":
        host, _, port = target.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise BadHead("CONNECT needs host:port")
        return Target(host.strip("[]"), int(port))
    try:
        url = ada_url.URL(target)
    except (ValueError, UnicodeError) as error:
        raise BadHead("the target is not an absolute URL") from error
    scheme = url.protocol.rstrip(":")
    if scheme != "http":
        raise Refused(Refusal(url.hostname, 0, "scheme", f"{scheme} does not leave here; use http, or CONNECT"))
    return Target(url.hostname.strip("[]"), int(url.port or 80), url.pathname + url.search, url.host)


def request_head(head: Head, target: Target) -> bytes:
    """Return the head for the site: origin form, our `Host`, the connection closed afterwards."""
    kept = [(name, value) for name, value in _end_to_end(head) if name.lower() != "host"]
    fields = [("Host", target.authority), *kept, ("Connection", "close")]
    return _encode(f"{head.method} {target.path} HTTP/1.1", fields)


def response_head(head: Head) -> bytes:
    """Return the head for the client, the connection closed afterwards."""
    kept = [(name, value) for name, value in _end_to_end(head) if not name.lower().startswith("x-sluice-")]
    fields = kept if head.status < 200 else [*kept, ("Connection", "close")]
    return _encode(head.start_line, fields)


def request_body_length(head: Head) -> int | None:
    """Return the bytes of the body after a request head, or None if only the body itself tells (chunks)."""
    if head.firsts.get("transfer-encoding") is not None:
        return None
    return int(head.firsts.get("content-length") or 0)


def body_length(head: Head, method: str) -> int | None:
    """Return the bytes of the body after a response head (RFC 9112, 6.3), or None if only its end tells."""
    if method == "HEAD" or head.status in {204, 304} or head.status < 200:
        return 0
    length = head.firsts.get("content-length")
    return int(length) if length is not None else None


def answer(status: int, reason: str, fields: Mapping[str, str], body: str, *, keep_open: bool = False) -> bytes:
    """Return a response of the proxy's own."""
    content = (body + "\n").encode() if body else b""
    length = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(content))}
    closing = {} if keep_open else {"Connection": "close"}
    all_fields = [(name, _printable(value)) for name, value in {**fields, **length, **closing}.items()]
    return _encode(f"HTTP/1.1 {status} {_printable(reason)}", all_fields) + content


def _parse_head(raw: bytes, start: re.Pattern[str]) -> Head:
    start_line, _, lines = raw[:-2].decode("latin-1").partition("\r\n")
    if start.fullmatch(start_line) is None:
        raise BadHead("the first line is not HTTP/1.1")
    if _FIELDS.fullmatch(lines) is None:
        raise BadHead("a header line is not name: value")
    fields = tuple((name, value.rstrip(" \t")) for name, value in _FIELD.findall(lines))
    head = Head(start_line, fields, {name.lower(): value for name, value in reversed(fields)})
    _refuse_two_lengths(head)
    return head


def _refuse_two_lengths(head: Head) -> None:
    """Refuse two readings of a body's length, by which requests are smuggled (RFC 9112, 6.3)."""
    if "content-length" not in head.firsts:
        return
    lengths = {value for name, value in head.fields if name.lower() == "content-length"}
    are_lengths = all(one.isdecimal() and len(one) <= MAX_LENGTH_DIGITS for one in lengths)
    if len(lengths) > 1 or "transfer-encoding" in head.firsts or not are_lengths:
        raise BadHead("the length of the body is ambiguous")


def _end_to_end(head: Head) -> list[tuple[str, str]]:
    left_out = _HOP_BY_HOP
    if "connection" in head.firsts:
        listed = (value for name, value in head.fields if name.lower() == "connection")
        left_out = left_out.union(token.strip().lower() for value in listed for token in value.split(","))
    return [(name, value) for name, value in head.fields if name.lower() not in left_out]


def _encode(start_line: str, fields: list[tuple[str, str]]) -> bytes:
    lines = [start_line, *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _printable(text: str) -> str:
    return "".join(character if " " <= character <= "~" else "?" for character in text)[:300]


MAX_HELLO_BYTES = 16_384 + 5
"""One record with its header (RFC 8446, 5.1); browsers send under two thousand bytes."""
RECORD_HEADER_BYTES = 5

_HANDSHAKE = 22


class NoHello(ValueError):
    """Not a whole TLS client hello in one record."""


def record_length(start: bytes) -> int:
    """Return the bytes of the first record with its header, from its first five. Raises NoHello if that is not TLS."""
    if len(start) < RECORD_HEADER_BYTES or start[0] != _HANDSHAKE or start[1] != 3:
        raise NoHello("not a TLS handshake")
    length = RECORD_HEADER_BYTES + int.from_bytes(start[3:5])
    if length > MAX_HELLO_BYTES:
        raise NoHello("a record larger than TLS allows")
    return length


def server_name(record: bytes) -> str | None:
    """Return the host name that the client requests, or None. Raises NoHello if the record is no whole client hello.

    OpenSSL reads it, as the beginning of a handshake that ends once the name is known. A name that is not ASCII is
    no hello either; `ssl` then also reports its failed decoding on standard error.
    """
    named: list[str | None] = []

    def stop(_: ssl.SSLSocket | ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> ssl.AlertDescription:
        named.append(name)
        return ssl.ALERT_DESCRIPTION_CLOSE_NOTIFY

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = stop
    incoming = ssl.MemoryBIO()
    incoming.write(record)
    try:
        context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True).do_handshake()
    except ssl.SSLError as error:
        if not named:
            raise NoHello(f"no whole client hello ({error.reason or 'cut short'})") from error
    return named[0]
