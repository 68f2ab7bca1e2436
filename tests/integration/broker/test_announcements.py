"""What waits for announcements stops listening when it is told to, whatever the connection is at."""

from __future__ import annotations

import asyncio

from sluice.workers.service.runs import Announcements
from tests.support.valkey import Valkey


def test_listening_stops_even_while_the_connection_is_being_opened(valkey: Valkey) -> None:
    async def start_and_stop() -> None:
        for step in range(60):
            announcements = Announcements(valkey.settings)
            announcements.start()
            await asyncio.sleep(step * 0.0001)
            await asyncio.wait_for(announcements.stop(), timeout=30)

    asyncio.run(start_and_stop())
