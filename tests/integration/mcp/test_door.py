"""The tools at the door for agents, over real HTTP by the official client in both eras of the protocol, and on stdio."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys

import httpx2
import pytest

from sluice.workers.settings import Settings
from tests.support.mcp_clients import ACCEPT, ERAS, MODERN, call_of, connected, text_of, without_sessions
from tests.support.served import Serve
from tests.support.valkey import Valkey


@pytest.mark.parametrize("era", [*ERAS, "stdio"])
def test_twelve_tools_and_an_answer_that_takes_longer(serve: Serve, era: str) -> None:
    async def story(address: str) -> None:
        async with connected(address, era) as client:
            assert len((await client.list_tools()).tools) == 12
            asked = await client.call_tool("sluice_ask", {"question": "what is a lease?", "wait_seconds": 0})
            assert not asked.is_error, text_of(asked)
            told = asked.structured_content
            assert told["status"] == "open"
            assert told["run_id"] in text_of(asked)
            assert told["next_steps"][0]["tool"] == "sluice_get_run"
            again = await client.call_tool("sluice_ask", {"query": "what is a lease?", "wait_seconds": 0})
            assert again.structured_content["run_id"] == told["run_id"], "a call alike is one run"
            run = await client.call_tool("sluice_get_run", {"run_id": told["run_id"]})
            assert run.structured_content["query"] == "what is a lease?"
            listed = await client.call_tool("sluice_list", {"what": "runs"})
            assert [one["run_id"] for one in listed.structured_content["data"]] == [told["run_id"]]

    with serve() as (address, _):
        asyncio.run(story(address))


WRONG = {
    "sluice_ask": {"query": "x", "max_tokens": "many"},
    "sluice_query": {"query": "x", "top_k": 500},
    "code_search": {"query": "x", "top_k": 0},
    "sluice_read_document": {"document_id": "a", "start_line": 0},
    "sluice_list": {"what": "everything"},
    "sluice_get_run": {"run_id": "run_none"},
    "sluice_add_documents": {"documents": [{"title": "nothing"}]},
    "sluice_forget": {"url": "https://a.example", "document_id": "b"},
    "sluice_feedback": {"run_id": "run_none", "outcome": "fine"},
    "sluice_remember": {"project": "p", "feature": "f", "text": "t"},
    "sluice_recall": {"project": "p", "feature": "f", "max_tokens": 1},
    "sluice_graph": {"cypher": "DELETE everything"},
}

NAMED = {
    "sluice_ask": "max_tokens: Input should be a valid integer",
    "sluice_query": "top_k: Input should be less than or equal to 50, not '500'",
    "code_search": "top_k: Input should be greater than or equal to 1",
    "sluice_read_document": "start_line: Input should be greater than or equal to 1",
    "sluice_list": "what: Input should be 'corpora', 'documents', 'runs' or 'prompts'",
    "sluice_get_run": "no run run_none; sluice_list shows what there is",
    "sluice_add_documents": "documents.0",
    "sluice_forget": "give exactly one of url, url_prefix, document_id, where, not 2",
    "sluice_feedback": "outcome: Input should be 'success', 'partial' or 'failure'",
    "sluice_remember": "'reason' is missing: a learning needs the reason",
    "sluice_recall": "max_tokens: Input should be greater than or equal to 50",
    "sluice_graph": "cypher: line 1, column 1: changes the graph",
}
"""What the answer to each of these calls says: the field, and what it takes."""


@pytest.mark.parametrize("era", [ERAS[0], "stdio"])
def test_wrong_unknown_and_missing_arguments_are_named(serve: Serve, era: str) -> None:
    async def story(address: str) -> None:
        async with connected(address, era) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == list(WRONG)
            for name, wrong in WRONG.items():
                told = await client.call_tool(name, wrong)
                assert told.is_error, name
                assert NAMED[name] in text_of(told), (name, text_of(told))
                unknown = await client.call_tool(name, {**wrong, "corpse": "x"})
                assert "unknown argument 'corpse'" in text_of(unknown), name
                assert "It takes " in text_of(unknown)
                for argument in tools[name].input_schema.get("required", ()):
                    assert f"'{argument}' is missing" in text_of(await client.call_tool(name, {})), name

    with serve() as (address, _):
        asyncio.run(story(address))


def test_the_list_of_tools_is_short(serve: Serve) -> None:
    async def story(address: str) -> None:
        async with connected(address, ERAS[0]) as client:
            listed = [
                one.model_dump(mode="json", by_alias=True, exclude_none=True)
                for one in (await client.list_tools()).tools
            ]
            bare = [{name: value for name, value in one.items() if name != "outputSchema"} for one in listed]
            assert len(json.dumps(bare, separators=(",", ":"))) / 4 <= 2_500
            assert "anyOf" not in json.dumps([one["inputSchema"] for one in listed])

    with serve() as (address, _):
        asyncio.run(story(address))


def test_a_door_that_keeps_no_sessions_or_is_off(serve: Serve) -> None:
    with serve(without_sessions) as (address, _), httpx2.Client(base_url=address, timeout=30) as sender:
        for method in ("GET", "DELETE"):
            refused = sender.request(method, "/mcp", headers=ACCEPT)
            assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")

    def closed(settings: Settings) -> Settings:
        return settings.model_copy(update={"mcp": settings.mcp.model_copy(update={"enabled": False})})

    with serve(closed) as (address, _), httpx2.Client(base_url=address, timeout=30) as sender:
        assert sender.post("/mcp", json={}, headers=ACCEPT).status_code == 404


LAZY = """
import sys
from starlette.testclient import TestClient
from sluice.api.app import make_api
from sluice.workers.settings import Settings
with TestClient(make_api(Settings(data_dir=sys.argv[1])), base_url="http://127.0.0.1:8080") as http:
    assert http.get("/livez").status_code == 200
    before = [name for name in sys.modules if name.partition(".")[0] in ("mcp", "mcp_types")]
    assert not before, before
    http.post("/mcp", json={}, headers={"Accept": "application/json, text/event-stream"})
    assert "mcp" in sys.modules
"""


def test_the_library_is_imported_by_the_first_request(valkey: Valkey) -> None:
    command = [sys.executable, "-c", LAZY, str(valkey.settings.data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]


def test_white_space_around_a_field_of_the_head_is_no_part_of_it(serve: Serve) -> None:
    message, heads = call_of("sluice_list", {"what": "prompts"}, MODERN)
    with serve() as (address, _):
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
        connection.request("POST", "/mcp", json.dumps(message), {**heads, "Mcp-Name": "  sluice_list  "})
        assert connection.getresponse().status == 200
        connection.close()
