"""Scripts of ours inside a strange page, in a world where the page's own scripts have changed nothing."""

from __future__ import annotations

from typing import Any

from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

WORLD = "sluice"


class IsolatedWorld:
    """The main frame of the page behind a DevTools session."""

    def __init__(self, devtools: CDPSession, frame_id: str) -> None:
        self._devtools = devtools
        self._frame_id = frame_id

    async def evaluate(self, script: str) -> Any:
        """What `script` gives; None when a navigation took the frame away meanwhile.

        Raises:
            PlaywrightError: the page or the browser is gone.
        """
        try:
            world = {"frameId": self._frame_id, "worldName": WORLD}
            context = await self._devtools.send("Page.createIsolatedWorld", world)
            answer = await self._devtools.send(
                "Runtime.evaluate",
                {"expression": script, "contextId": context["executionContextId"], "returnByValue": True},
            )
        except PlaywrightError as error:
            if "context" in error.message.lower() or "navigated" in error.message.lower():
                return None
            raise
        return answer["result"].get("value")
