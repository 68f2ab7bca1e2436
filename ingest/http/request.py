"""HTTP/1.1 requests as they go to the egress proxy, or to a site through its tunnel (RFC 9112, 3).

Promises: a request is one request, whatever stands in its address and its headers; the proxy's secret goes to the
proxy alone; no error shows the value of a header, which may be a key.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import ada_url
import h11

from sluice.contracts.errors import InvalidInput
from sluice.ingest.http.decompress import OFFERED
from sluice.ingest.http.response import MAX_FRAMING_BYTES

_FIELD_VALUE = re.compile(r"(?:[\x21-\x7e\x80-\xff]+(?:[\t\x20]+[\x21-\x7e\x80-\xff]+)*)?")


@dataclass(frozen=True, slots=True)
class ProxyAddress:
    """Where the proxy listens, and the header that tells it who asks."""

    host: str
    port: int
    authorization: Mapping[str, str] = field(repr=False)

    @classmethod
    def at(cls, url: str) -> ProxyAddress:
        """The proxy at `url`.

        Raises:
            InvalidInput: it is not `http://user:password@host:port`. Does not show it.
        """
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme != "http" or not host or not port:
            raise InvalidInput("proxy_url", "is not the address of a proxy", "http://user:password@host:port")
        if parts.username is None:
            return cls(host, port, {})
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        return cls(host, port, {"Proxy-Authorization": "Basic " + base64.b64encode(credentials).decode()})


@dataclass(frozen=True, slots=True)
class Message:
    """A request as it goes over the wire; `exchange` reads the response to it."""

    data: bytes
    exchange: h11.Connection


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the address `url`, taken apart.

    `host` has no brackets, `authority` names a port only where it is not the scheme's own, `path` includes the query.
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
        """A request to `url`. Headers with no value are left out.

        Raises:
            InvalidInput: it is no http or https address.
        """
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
        """The whole request: to the site where a tunnel leads there, or else to the proxy, which takes it there.

        Raises:
            InvalidInput: a header has a value that no header can carry.
        """
        target = self.path if self.is_secure else f"http://{self.authority}{self.path}"
        ours = {"Host": self.authority, "User-Agent": user_agent, "Accept-Encoding": OFFERED}
        authorization = {} if self.is_secure else proxy.authorization
        length = {} if self.content is None else {"Content-Length": str(len(self.content))}
        fields = {**ours, **self.headers, **length, **authorization, "Connection": "close"}
        return _message(self.method, target, fields, self.content)

    def tunnel_message(self, proxy: ProxyAddress) -> Message:
        """What asks the proxy for a tunnel to the site."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        target = f"{host}:{self.port}"
        return _message("CONNECT", target, {"Host": target, **proxy.authorization})


def is_field_value(text: str) -> bool:
    """Whether a header can carry `text` (RFC 9110, 5.5)."""
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
    return Message((head or b"") + (body or b""), exchange)
