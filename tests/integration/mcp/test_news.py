"""A host that subscribes to a run hears when it is finished and when its answer is stale: in both eras."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp.client.subscriptions import ResourceUpdated

from tests.support.ledger_story import STALE, answered
from tests.support.mcp_clients import ERAS, MODERN, connected
from tests.support.served import Serve


@pytest.mark.parametrize("era", [*ERAS, "stdio"])
def test_a_stale_answer_is_told_to_who_subscribes_to_its_run(serve: Serve, era: str) -> None:
    async def story(address: str) -> None:
        run_id = await asyncio.to_thread(answered, ledger)
        uri, updates = f"sluice://runs/{run_id}", asyncio.Queue[Any]()

        async def heard(message: Any) -> None:
            if getattr(message, "method", "") == "notifications/resources/updated":
                await updates.put(str(message.params.uri))

        async with asyncio.timeout(60):
            if era == "legacy":
                async with connected(address, era, message_handler=heard) as client:
                    await client.subscribe_resource(uri)
                    assert await updates.get() == uri, "it is finished"
                    await asyncio.to_thread(ledger.tell_stale, run_id, (STALE,))
                    assert await updates.get() == uri
                    await client.unsubscribe_resource(uri)
            else:
                async with connected(address, era) as client, client.listen(resource_subscriptions=[uri]) as news:
                    assert isinstance(await anext(news), ResourceUpdated)
                    await asyncio.to_thread(ledger.tell_stale, run_id, (STALE,))
                    told = await anext(news)
                    assert isinstance(told, ResourceUpdated)
                    assert str(told.uri) == uri

    with serve() as (address, ledger):
        asyncio.run(story(address))


def test_a_run_that_the_caller_may_not_see_has_no_news(serve: Serve) -> None:
    async def story(address: str) -> None:
        async with connected(address, MODERN) as client:
            async with client.listen(resource_subscriptions=["sluice://runs/run_none", "sluice://corpora"]) as news:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(news), 2)
            assert (await client.read_resource("sluice://corpora")).contents

    with serve() as (address, _):
        asyncio.run(story(address))
