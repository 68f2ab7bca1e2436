"""What becomes of a run whose call is given up: the ledger is asked, over real HTTP and stdio, in each era.

An older host that vanishes without a word from a session leaves its run to its deadline, and one without sessions
cannot say that it cancels: the protocol has no way there.
"""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from sluice.ledger.ledger import Ledger
from tests.support.mcp_clients import (
    ACCEPT,
    ERAS,
    INITIALIZE,
    MODERN,
    STDIO,
    begun,
    call_of,
    connected,
    environment,
    text_of,
    until_ended,
    without_sessions,
)
from tests.support.served import Serve

QUESTION = {"query": "what is a claim?", "wait_seconds": 40}
ENDS = {
    **{(MODERN, how): True for how in ("cancel", "time-out", "drop")},
    ("stateful", "cancel"): True,
    ("stateful", "time-out"): True,
    ("stateful", "drop"): False,
    ("stateless", "cancel"): False,
    ("stateless", "time-out"): False,
    ("stateless", "drop"): True,
    **{("stdio", how): True for how in ("cancel", "time-out", "drop")},
}
GOES_ON_SECONDS = 3.0


@pytest.mark.parametrize(("era", "how"), ENDS)
def test_a_call_that_is_given_up_ends_its_run_in_the_ledger(serve: Serve, era: str, how: str) -> None:
    async def story(address: str) -> None:
        if how == "drop":
            await dropped(address, era, ledger)
        else:
            await given_up(address, "legacy" if era.startswith("state") else era, how, ledger)

    async def given_up(address: str, era: str, how: str, ledger: Ledger) -> None:
        async with connected(address, era) as client:
            seconds = 3.0 if how == "time-out" else None
            asked = asyncio.create_task(client.call_tool("sluice_ask", QUESTION, read_timeout_seconds=seconds))
            run_id = await begun(ledger)
            if how == "cancel":
                await asyncio.sleep(0.5)
                asked.cancel()
            with pytest.raises(asyncio.CancelledError if how == "cancel" else Exception):
                await asked
            await judged(ledger, run_id)
            if ENDS[case]:
                again = await client.call_tool("sluice_ask", {**QUESTION, "wait_seconds": 0})
                assert again.structured_content["run_id"] != run_id, "a cancelled run is nobody's answer"

    async def dropped(address: str, era: str, ledger: Ledger) -> None:
        if era == "stdio":
            command = STDIO
            pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
            process = await asyncio.create_subprocess_exec(*command, env=environment(address), **pipes)
            first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            for message in (first, ready, call_of("sluice_ask", QUESTION)[0]):
                process.stdin.write(json.dumps(message).encode() + b"\n")
            run_id = await begun(ledger)
            await asyncio.sleep(0.5)
            process.stdin.close()
            await judged(ledger, run_id)
            await asyncio.wait_for(process.wait(), 20)
            return
        async with httpx2.AsyncClient(base_url=address, timeout=60) as http:
            message, heads = call_of("sluice_ask", QUESTION, MODERN if era == MODERN else "2025-11-25")
            if era == "stateful":
                first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
                opened = await http.post("/mcp", json=first, headers=ACCEPT)
                heads["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
                await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=heads)
            asked = asyncio.create_task(http.post("/mcp", json=message, headers=heads))
            run_id = await begun(ledger)
            await asyncio.sleep(0.5)
            asked.cancel()
        await judged(ledger, run_id)

    async def judged(ledger: Ledger, run_id: str) -> None:
        if ENDS[case]:
            await until_ended(ledger, run_id)
        else:
            await asyncio.sleep(GOES_ON_SECONDS)
            assert ledger.status_of(run_id) == "open"

    case = (era, how)
    with serve(without_sessions if era == "stateless" else None) as (address, ledger):
        asyncio.run(story(address))


@pytest.mark.parametrize("era", ERAS)
def test_another_call_that_waits_keeps_the_run(serve: Serve, era: str) -> None:
    async def story(address: str) -> None:
        async with connected(address, era) as one, connected(address, era) as other:
            calls = [
                asyncio.create_task(client.call_tool("sluice_ask", {"query": "what is a fence?", "wait_seconds": wait}))
                for client, wait in ((one, 40), (other, 8))
            ]
            run_id = await begun(ledger)
            await asyncio.sleep(3)  # the other call waits by then too
            calls[0].cancel()
            result = await calls[1]
            assert not result.is_error, text_of(result)
            assert (result.structured_content["run_id"], result.structured_content["status"]) == (run_id, "open")
            assert ledger.status_of(run_id) == "open"

    with serve() as (address, ledger):
        asyncio.run(story(address))
