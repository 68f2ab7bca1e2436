"""`sluice-mcp`: the tools over stdio, for hosts that start a program. It is a client of a running server."""

from __future__ import annotations

import argparse
import asyncio
import logging
from importlib.metadata import version


def main() -> None:
    """Serve the tools over stdin and stdout until stdin ends."""
    told = argparse.ArgumentParser(
        prog="sluice-mcp", description="Tools of Sluice for agents, by MCP over stdio. Its key is SLUICE_API_KEY."
    )
    told.add_argument("--url", help="by default SLUICE_URL, else http://127.0.0.1:8080")
    told.add_argument("--version", action="version", version=version("sluice-client"))
    arguments = told.parse_args()
    logging.basicConfig(level=logging.WARNING)
    try:
        asyncio.run(_serve(arguments.url))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


async def _serve(url: str | None) -> None:
    try:
        from sluice_client.mcp.tools import make_server
    except ImportError as error:
        raise SystemExit(f"{error.name} is not installed: pip install 'sluice-client[mcp]' brings it") from error
    from sluice_client import AsyncSluiceClient

    async with AsyncSluiceClient(url) as client:
        server = make_server(lambda: client, version=version("sluice-client"))
        await server.run_stdio_async()


if __name__ == "__main__":
    main()
