"""The proxy of the owner's network, where nothing leaves but through it.

It is asked for a tunnel (CONNECT, RFC 9110, 9.3.6) to an address that was judged here, and never for a name: what it
dials is what was checked. So names must be known to this machine's resolver. Its password stands in no error.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from sluice.contracts.errors import InvalidSetting
from sluice.ingest.egress.http_heads import BadHead, Failed, parse_response
from sluice.ingest.egress.side import Side

FIELD = "egress.upstream_proxy_url"


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where it listens, and as whom we come."""

    host: str
    port: int
    credentials: bytes | None = field(default=None, repr=False)
    """As Basic authentication wants them (RFC 7617)."""

    async def open_tunnel(self, proxy: Side, address: str, port: int, limit_seconds: float) -> Side:
        """Ask for a tunnel over a connection to the proxy. Returns that connection, which from now on is the site's.

        Raises:
            Failed: it refuses, breaks off, or speaks no HTTP. TimeoutError: it does not answer in time.
        """
        authority = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        if self.credentials is not None:
            lines.append(f"Proxy-Authorization: Basic {b64encode(self.credentials).decode()}")
        proxy.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        try:
            async with asyncio.timeout(limit_seconds):
                raw = await proxy.read_head()
            status = parse_response(raw).status if raw is not None else 0
        except (BadHead, ConnectionError) as error:
            raise self.failed(str(error) or type(error).__name__) from error
        if not 200 <= status < 300:
            raise self.failed(f"answers {status}" if status else "closes the connection")
        return proxy

    def failed(self, why: str) -> Failed:
        """The failure of this proxy, by its address."""
        return Failed(502, f"upstream proxy {self.host}:{self.port}: {why}")


def read_upstream(url: str) -> Upstream:
    """The proxy of a URL, `http://user:password@proxy.corp:3128`.

    Raises:
        InvalidSetting: it is not such a URL. What it says is not repeated, as it may hold a password.
    """
    remedy = "for instance http://user:password@proxy.corp:3128"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 3128
    except ValueError:
        raise InvalidSetting(FIELD, "is not the URL of a proxy", remedy) from None  # it would repeat the URL
    if parts.scheme != "http" or not host or parts.path not in ("", "/"):
        raise InvalidSetting(FIELD, "is not the http:// address of a proxy", remedy)
    if parts.username is None:
        return Upstream(host, port)
    return Upstream(host, port, f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode())
