"""Keys at the door for agents: roles, corpora, sessions, rates; the id of a run and the trace that it belongs to."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import ApiKeys
from tests.support.mcp_clients import ACCEPT, ERAS, INITIALIZE, MODERN, answer_in, call_of, connected, text_of
from tests.support.served import Serve

CLIENTS, CALLS = 32, 5
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def keys_of(ledger: Ledger, address: str, *corpora: str) -> list[str]:
    """A key for each of the corpora, which are made."""
    keys = [ApiKeys(ledger).create(name, "agent", [name])[1] for name in corpora]
    for key, name in zip(keys, corpora, strict=True):
        httpx2.post(f"{address}/v1/corpora", json={"name": name}, headers=bearer(key)).raise_for_status()
    return keys


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("era", ERAS)
def test_each_of_many_clients_has_what_its_own_key_may_see(serve: Serve, era: str) -> None:
    async def story(address: str, keys: list[str]) -> None:
        async def calls(number: int) -> list[Any]:
            corpus, key = ("docs", "other")[number % 2], keys[number % 2]
            async with connected(address, era, key) as client:
                asked = [
                    client.call_tool(
                        "sluice_ask", {"query": f"what is {number}.{n}?", "corpus": corpus, "wait_seconds": 0}
                    )
                    for n in range(CALLS - 1)
                ]
                return [corpus, *await asyncio.gather(*asked, client.call_tool("sluice_list", {"what": "runs"}))]

        for corpus, *answers, listed in await asyncio.gather(*map(calls, range(CLIENTS))):
            assert not any(one.is_error for one in (*answers, listed)), [text_of(one) for one in answers]
            assert {one["corpus"] for one in listed.structured_content["data"]} <= {corpus}
        async with connected(address, era, keys[0]) as one:
            refused = await one.call_tool("sluice_ask", {"query": "what?", "corpus": "other"})
            assert "may not touch corpus 'other'" in text_of(refused)
            run_id = next(run.run_id for run in ledger.runs(200) if run.corpus == "other")
            assert "no run" in text_of(await one.call_tool("sluice_get_run", {"run_id": run_id}))
            removal = await one.call_tool("sluice_forget", {"corpus": "docs", "url": "https://a.example/"})
            assert "role operator" in text_of(removal)
        assert len(ledger.runs(500)) == CLIENTS * (CALLS - 1)

    with serve() as (address, ledger):
        asyncio.run(story(address, keys_of(ledger, address, "docs", "other")))


def test_a_session_is_its_own_keys_alone(serve: Serve) -> None:
    with serve() as (address, ledger), httpx2.Client(base_url=address, timeout=30) as http:
        docs, other = (
            {**ACCEPT, **bearer(ApiKeys(ledger).create(name, "agent", [name])[1])} for name in ("docs", "other")
        )
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for method, body in (("POST", begin), ("GET", None), ("DELETE", None)):
            assert http.request(method, "/mcp", json=body, headers=ACCEPT).status_code == 401
        assert http.post("/mcp", json=begin, headers={**docs, "Host": "evil.example"}).status_code == 403
        session = {"Mcp-Session-Id": http.post("/mcp", json=begin, headers=docs).headers["mcp-session-id"]}
        for method, body in (("POST", ping), ("GET", None), ("DELETE", None)):
            assert http.request(method, "/mcp", json=body, headers={**other, **session}).status_code == 404, method
        assert http.post("/mcp", json=ping, headers={**docs, **session}).status_code == 200
        assert http.delete("/mcp", headers={**docs, **session}).status_code == 200
        assert http.post("/mcp", json=ping, headers={**docs, **session}).status_code == 404
        assert http.get("/.well-known/oauth-protected-resource").status_code == 404


@pytest.mark.parametrize("era", ERAS)
def test_calls_count_in_a_keys_rate_and_one_too_many_says_when_to_come_back(serve: Serve, era: str) -> None:
    async def story(address: str, ledger: Ledger) -> None:
        _, key = ApiKeys(ledger).create("slow", "agent", [], requests_per_minute=6)
        async with connected(address, era, key) as client:
            told = [await client.call_tool("sluice_list", {"what": "runs"}) for _ in range(8)]
            assert not told[0].is_error
            refused = [text_of(one) for one in told if one.is_error]
            assert refused
            assert all("this key may send 6 requests a minute; trying again in" in one for one in refused)
            message, heads = call_of("sluice_list", {"what": "runs"}, MODERN)
            async with httpx2.AsyncClient(base_url=address) as http:
                counted = await http.post("/mcp", json=message, headers={**heads, **bearer(key)})
                assert "r=0" in counted.headers["RateLimit"]
                assert answer_in(counted)["result"]["isError"]
                assert (await http.get("/v1/runs", headers=bearer(key))).status_code == 429, "one bucket for both"

    with serve() as (address, ledger):
        asyncio.run(story(address, ledger))


@pytest.mark.parametrize("era", [*ERAS, "stdio"])
def test_a_run_belongs_to_the_trace_of_its_call(serve: Serve, era: str) -> None:
    async def story(address: str) -> None:
        async with connected(address, era) as client:
            asked = await client.call_tool(
                "sluice_ask",
                {"query": "why?", "wait_seconds": 0},
                meta={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"},
            )
            view = ledger.run(asked.structured_content["run_id"])
            assert (view.traceparent or "").split("-")[1] == TRACE

    with serve() as (address, ledger):
        asyncio.run(story(address))


def test_the_head_of_an_answer_names_its_run_and_its_request(serve: Serve) -> None:
    with serve() as (address, _ledger), httpx2.Client(base_url=address, timeout=30) as http:
        message, heads = call_of("sluice_ask", {"query": "why?", "wait_seconds": 0}, MODERN)
        answered = http.post("/mcp", json=message, headers={**heads, "X-Request-Id": "mine"})
        run_id = answer_in(answered)["result"]["structuredContent"]["run_id"]
        assert (answered.headers["Sluice-Run-Id"], answered.headers["X-Request-Id"]) == (run_id, "mine")
