"""A server of tools over MCP, as a process: `python -m tests.support.mcp_server` over pipes, with a port over HTTP."""

from __future__ import annotations

import os
import sys

from mcp.server import MCPServer

server = MCPServer("shop", version="1.2")


@server.tool()
def add_to_cart(item: str, count: int = 1) -> str:
    """Put an item into the cart."""
    return f"{count} {item}"


@server.tool()
def pay(card: str) -> str:
    """Pay with `Cart.pay`."""
    return card


def main() -> None:
    """Serve over HTTP where a port is given, else over pipes; with `SEEN` in the environment tell what it holds."""
    if "--crash" in sys.argv:
        raise SystemExit("secret of the server's own log")
    if seen := os.environ.get("SEEN"):

        @server.tool(name=f"seen_{seen}_{'HIDDEN' in os.environ}")
        def _seen() -> str:
            """What came with the environment."""
            return ""

    if ports := [one for one in sys.argv[1:] if one.isdigit()]:
        server.run("streamable-http", host="127.0.0.1", port=int(ports[0]))
    server.run("stdio")


if __name__ == "__main__":
    main()
