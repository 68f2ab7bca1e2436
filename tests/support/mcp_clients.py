"""Clients of the door for agents: the official one in each era and over stdio, and bare messages over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from sluice.ledger.ledger import Ledger
from sluice.workers.settings import Settings

MODERN, OLDER = "2026-07-28", "2025-11-25"
ERAS = (MODERN, "legacy")
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
INITIALIZE = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
STDIO = [sys.executable, "-m", "sluice_client.mcp.stdio"]


def environment(address: str, key: str = "") -> dict[str, str]:
    """That of a process of `sluice-mcp`."""
    folder = Path(__file__).parents[2] / "clients/python"
    return {**os.environ, "SLUICE_URL": address, "SLUICE_API_KEY": key, "PYTHONPATH": str(folder)}


@asynccontextmanager
async def connected(address: str, era: str, key: str = "", **options: Any) -> AsyncIterator[Client]:
    """A client over HTTP, or with the era `stdio` over a process of `sluice-mcp`."""
    if era == "stdio":
        run = StdioServerParameters(command=STDIO[0], args=STDIO[1:], env=environment(address, key))
        async with Client(run, **options) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{address}/mcp", http_client=http), mode=era, **options) as client,
    ):
        yield client


def call_of(tool: str, arguments: dict[str, Any], era: str = OLDER) -> tuple[dict[str, Any], dict[str, str]]:
    """The message that calls a tool, and the heads that go with it."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    heads = {**ACCEPT, "MCP-Protocol-Version": era}
    if era == MODERN:
        named = {"protocolVersion": MODERN, "clientCapabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        params["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in named.items()}
        heads |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}, heads


def without_sessions(settings: Settings) -> Settings:
    return settings.model_copy(update={"mcp": settings.mcp.model_copy(update={"stateless": True})})


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)


def answer_in(response: httpx2.Response) -> dict[str, Any]:
    """The message in a response, be it JSON or the first of a stream."""
    text = response.text
    found: dict[str, Any] = json.loads(text.split("data: ", 1)[-1].splitlines()[0])
    return found


async def begun(ledger: Ledger, query: str | None = None) -> str:
    """The newest run's id, as soon as there is one, or one with this question."""
    for _ in range(800):
        found = await asyncio.to_thread(ledger.runs, 1)
        if found and query in (None, found[0].query):
            return found[0].run_id
        await asyncio.sleep(0.05)
    raise AssertionError("no run began")


async def until_ended(ledger: Ledger, run_id: str) -> None:
    for _ in range(150):
        if await asyncio.to_thread(ledger.status_of, run_id) == "cancelled":
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{run_id} is {ledger.status_of(run_id)}")
