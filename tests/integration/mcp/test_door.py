"""The door for agents, over real HTTP by the official client, in both eras of the protocol, and on stdio."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import ApiKeys
from tests.support.served import served
from tests.support.valkey import Valkey

ERAS = ("2026-07-28", "legacy")
Connect = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def connected(address: str, era: str, key: str = "") -> AsyncIterator[Client]:
    """A client over HTTP, or with the era `stdio` over a process of `sluice-mcp`."""
    if era == "stdio":
        folder = Path(__file__).parents[3] / "clients/python"
        told = {**os.environ, "SLUICE_URL": address, "SLUICE_API_KEY": key, "PYTHONPATH": str(folder)}
        run = StdioServerParameters(command=sys.executable, args=["-m", "sluice_client.mcp.stdio"], env=told)
        async with Client(run) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{address}/mcp", http_client=http), mode=era) as client,
    ):
        yield client


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)


@pytest.mark.parametrize("era", [*ERAS, "stdio"])
def test_twelve_tools_and_an_answer_that_takes_longer(valkey: Valkey, era: str) -> None:
    async def story(address: str) -> None:
        async with connected(address, era) as client:
            assert len((await client.list_tools()).tools) == 12
            asked = await client.call_tool("sluice_ask", {"question": "what is a lease?", "wait_seconds": 0})
            assert not asked.is_error, text_of(asked)
            told = asked.structured_content
            assert told["status"] == "open"
            assert told["run_id"] in text_of(asked)
            assert "sluice_get_run" in told["next_step"]
            again = await client.call_tool("sluice_ask", {"query": "what is a lease?", "wait_seconds": 0})
            assert again.structured_content["run_id"] == told["run_id"], "a call alike is one run"
            run = await client.call_tool("sluice_get_run", {"run_id": told["run_id"]})
            assert run.structured_content["query"] == "what is a lease?"
            listed = await client.call_tool("sluice_list", {"what": "runs"})
            assert [one["run_id"] for one in listed.structured_content["data"]] == [told["run_id"]]

    with served(valkey.settings) as address:
        asyncio.run(story(address))


@pytest.mark.parametrize("era", [*ERAS, "stdio"])
def test_a_cancelled_call_ends_its_run_in_the_ledger(valkey: Valkey, era: str) -> None:
    async def story(address: str) -> None:
        async with connected(address, era) as client:
            call = client.call_tool("sluice_ask", {"query": "what is a claim?", "wait_seconds": 40})
            asked = asyncio.create_task(call)
            run_id = await begun(ledger)
            await asyncio.sleep(0.5)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            await until_ended(ledger, run_id)
            again = await client.call_tool("sluice_ask", {"query": "what is a claim?", "wait_seconds": 0})
            assert again.structured_content["run_id"] != run_id, "a cancelled run is nobody's answer"

    with served(valkey.settings) as address, Ledger(valkey.settings.ledger_location) as ledger:
        asyncio.run(story(address))


@pytest.mark.parametrize("era", ERAS)
def test_another_call_that_waits_keeps_the_run(valkey: Valkey, era: str) -> None:
    async def story(address: str) -> None:
        async with connected(address, era) as one, connected(address, era) as other:
            calls = [
                asyncio.create_task(client.call_tool("sluice_ask", {"query": "what is a fence?", "wait_seconds": wait}))
                for client, wait in ((one, 40), (other, 3))
            ]
            run_id = await begun(ledger)
            await asyncio.sleep(1)
            calls[0].cancel()
            told = (await calls[1]).structured_content
            assert (told["run_id"], told["status"]) == (run_id, "open")
            assert ledger.status_of(run_id) == "open"

    with served(valkey.settings) as address, Ledger(valkey.settings.ledger_location) as ledger:
        asyncio.run(story(address))


def test_a_call_whose_own_time_runs_out_ends_its_run(valkey: Valkey) -> None:
    async def story(address: str) -> None:
        async with connected(address, "2026-07-28") as client:
            asked = {"query": "what is a heartbeat?", "wait_seconds": 40}
            with pytest.raises(Exception, match=r"[Tt]imed out"):
                await client.call_tool("sluice_ask", asked, read_timeout_seconds=2)
            await until_ended(ledger, await begun(ledger))

    with served(valkey.settings) as address, Ledger(valkey.settings.ledger_location) as ledger:
        asyncio.run(story(address))


def test_keys_corpora_and_sessions(valkey: Valkey) -> None:
    with Ledger(valkey.settings.ledger_location) as ledger:
        keys = ApiKeys(ledger)
        docs, other = (keys.create(name, "agent", [name])[1] for name in ("docs", "other"))

    async def story(address: str) -> None:
        for era in ERAS:
            async with connected(address, era, docs) as one, connected(address, era, other) as two:
                asked = [
                    client.call_tool("sluice_ask", {"query": f"what is {n}?", "corpus": corpus, "wait_seconds": 0})
                    for n in range(16)
                    for client, corpus in ((one, "docs"), (two, "other"))
                ]
                answers = await asyncio.gather(*asked)
                assert not any(one.is_error for one in answers), [text_of(one) for one in answers if one.is_error][:1]
                refused = await one.call_tool("sluice_ask", {"query": "what?", "corpus": "other"})
                assert refused.is_error
                assert "may not touch corpus 'other'" in text_of(refused)
                hidden = await one.call_tool("sluice_get_run", {"run_id": answers[1].structured_content["run_id"]})
                assert hidden.is_error
                assert "no run" in text_of(hidden)
                removal = await one.call_tool("sluice_forget", {"corpus": "docs", "url": "https://a.example/"})
                assert "role operator" in text_of(removal)

    with served(valkey.settings) as address:
        with httpx2.Client(base_url=address, timeout=30) as http:
            begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
            assert http.post("/mcp", json=begin, headers=ACCEPT).status_code == 401
            assert http.get("/mcp", headers=ACCEPT).status_code == 401
            of_docs, of_other = ({**ACCEPT, "Authorization": f"Bearer {key}"} for key in (docs, other))
            assert http.post("/mcp", json=begin, headers={**of_docs, "Host": "evil.example"}).status_code == 403
            opened = http.post("/mcp", json=begin, headers=of_docs)
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            assert http.post("/mcp", json=ping, headers={**of_other, **session}).status_code == 404
            assert http.delete("/mcp", headers={**of_other, **session}).status_code == 404
            assert http.post("/mcp", json=ping, headers={**of_docs, **session}).status_code == 200
            assert http.get("/.well-known/oauth-protected-resource").status_code == 404
        asyncio.run(story(address))


ACCEPT = {"Accept": "application/json, text/event-stream"}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def test_a_door_that_keeps_no_sessions_or_is_off(valkey: Valkey) -> None:
    stateless = valkey.settings.model_copy(update={"mcp": valkey.settings.mcp.model_copy(update={"stateless": True})})
    with served(stateless) as address, httpx2.Client(base_url=address, timeout=30) as http:
        refused = http.get("/mcp", headers=ACCEPT)
        assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")
    off = valkey.settings.model_copy(update={"mcp": valkey.settings.mcp.model_copy(update={"enabled": False})})
    with served(off) as address, httpx2.Client(base_url=address, timeout=30) as http:
        assert http.post("/mcp", json={}, headers=ACCEPT).status_code == 404


WRONG = {
    "sluice_ask": {"query": "x", "max_tokens": "many"},
    "sluice_query": {"query": "x", "top_k": 500},
    "sluice_read_document": {"document_id": "a", "start_line": 0},
    "sluice_list": {"what": "everything"},
    "sluice_get_run": {"run_id": "run_none"},
    "sluice_add_documents": {"documents": [{"title": "nothing"}]},
    "sluice_forget": {"url": "https://a.example", "document_id": "b"},
    "sluice_feedback": {"run_id": "run_none", "outcome": "fine"},
    "sluice_remember": {"project": "p", "feature": "f", "text": "t"},
    "sluice_recall": {"project": "p", "feature": "f", "max_tokens": 1},
    "sluice_graph_neighbours": {"node": "a", "edge_types": ["NEAR"]},
    "sluice_graph_query": {"cypher": "DELETE everything"},
}


@pytest.mark.parametrize("era", [ERAS[0], "stdio"])
def test_wrong_unknown_and_missing_arguments_are_named(valkey: Valkey, era: str) -> None:
    async def story(address: str) -> None:
        async with connected(address, era) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == list(WRONG)
            for name, wrong in WRONG.items():
                told = await client.call_tool(name, wrong)
                assert told.is_error, name
                assert text_of(told) != f"Error executing tool {name}", name
                unknown = await client.call_tool(name, {**wrong, "corpse": "x"})
                assert "unknown argument 'corpse'" in text_of(unknown), name
                assert "It takes " in text_of(unknown)
                for argument in tools[name].input_schema.get("required", ()):
                    assert f"'{argument}' is missing" in text_of(await client.call_tool(name, {})), name

    with served(valkey.settings) as address:
        asyncio.run(story(address))


def test_the_list_of_tools_is_short(valkey: Valkey) -> None:
    async def story(address: str) -> None:
        async with connected(address, ERAS[0]) as client:
            listed = [
                one.model_dump(mode="json", by_alias=True, exclude_none=True)
                for one in (await client.list_tools()).tools
            ]
            bare = [{name: value for name, value in one.items() if name != "outputSchema"} for one in listed]
            assert len(json.dumps(bare, separators=(",", ":"))) / 4 <= 2_500
            assert "anyOf" not in json.dumps([one["inputSchema"] for one in listed])

    with served(valkey.settings) as address:
        asyncio.run(story(address))


async def begun(ledger: Ledger) -> str:
    """The newest run's id, as soon as there is one."""
    for _ in range(400):
        if found := await asyncio.to_thread(ledger.runs, 1):
            return found[0].run_id
        await asyncio.sleep(0.05)
    raise AssertionError("no run began")


async def until_ended(ledger: Ledger, run_id: str) -> None:
    for _ in range(100):
        if await asyncio.to_thread(ledger.status_of, run_id) == "cancelled":
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{run_id} is {ledger.status_of(run_id)}")
