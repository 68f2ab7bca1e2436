"""`sluice-mcp`: the tools over stdio, for hosts that start a program. It is a client of a running server."""

from __future__ import annotations

import argparse
import asyncio
import logging
from importlib.metadata import version
from typing import Any

LONGEST_WAIT_SECONDS = 2.0
"""Longest wait of a tool before it tries again what may be tried again; the agent is told of a longer one."""


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
        from opentelemetry import propagate

        from sluice_client.mcp.tools import make_server
    except ImportError as error:
        raise SystemExit(f"{error.name} is not installed: pip install 'sluice-client[mcp]' brings it") from error
    from sluice_client import AsyncSluiceClient

    class Traced(AsyncSluiceClient):
        """Passes the trace of a call on to the server."""

        def _request(self, call: Any) -> dict[str, Any]:
            request = super()._request(call)
            propagate.inject(request["headers"])
            return request

    async with Traced(url, longest_wait_seconds=LONGEST_WAIT_SECONDS) as client:
        await make_server(client, version=version("sluice-client")).run_stdio_async()


if __name__ == "__main__":
    main()
