"""Reads a page in the browser: its HTML as shown, the response that it came from, its picture.

Our scripts run inside a strange page in an isolated world, where the page's own scripts have changed nothing.

A page is identified by its response, whatever its scripts show as its address: a script may put any address of its
origin into the address bar (`history.replaceState`), navigate to one that answers without a document (status 204, a
download), or fill the page from a `blob:` address. None of this changes which response the shown document came from.
`DocumentResponses` finds that response: Chromium gives each document that it loads an identifier, which the
response carries too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import CDPSession, FloatRect, Page
from playwright.async_api import Error as PlaywrightError

WORLD = "sluice"


class IsolatedWorld:
    """The isolated world in the page's main frame, reached over a DevTools session."""

    def __init__(self, devtools: CDPSession, frame_id: str) -> None:
        self._devtools = devtools
        self._frame_id = frame_id

    async def evaluate(self, script: str) -> Any:
        """Evaluate `script` and return its value; None if a navigation took the frame away meanwhile.

        Raises PlaywrightError if the page or the browser is gone.
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


MAX_DOCUMENTS = 50
"""Most documents of one page that are remembered, the latest ones; a page that navigates more often is not at rest."""


@dataclass(frozen=True, slots=True)
class DocumentResponse:
    """The response that a document was made from. `headers` have names in lower case, one line per header sent."""

    url: str
    status: int
    headers: dict[str, str]


class DocumentResponses:
    """Remembers the responses to one page's own navigations. Create and start it before the page navigates."""

    def __init__(self, devtools: CDPSession, frame_id: str) -> None:
        self._devtools = devtools
        self._frame_id = frame_id
        self._by_loader: dict[str, DocumentResponse] = {}
        devtools.on("Network.responseReceived", self._received)

    async def start(self) -> None:
        """Have the browser report responses; it buffers no bodies for us."""
        await self._devtools.send("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})

    def stop(self) -> None:
        """Stop listening."""
        self._devtools.remove_listener("Network.responseReceived", self._received)

    async def current_loader(self) -> str:
        """Return the identifier of the document shown now; every document has another, even at the same address."""
        tree = await self._devtools.send("Page.getFrameTree")
        return str(tree["frameTree"]["frame"]["loaderId"])

    def of_loader(self, loader: str) -> DocumentResponse | None:
        """Return the response that the document `loader` came from; None if no site sent it (`blob:`, error page)."""
        return self._by_loader.get(loader)

    def _received(self, event: dict[str, Any]) -> None:
        response = event["response"]
        if event["type"] != "Document" or event.get("frameId") != self._frame_id:
            return
        if urlsplit(response["url"]).scheme not in {"http", "https"}:
            return
        if len(self._by_loader) >= MAX_DOCUMENTS:
            del self._by_loader[next(iter(self._by_loader))]
        headers = _in_lower_case(response["headers"])
        self._by_loader[event["loaderId"]] = DocumentResponse(response["url"], int(response["status"]), headers)


def _in_lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    """Key the headers by lower-case name; lines of one name stay apart, whatever their case."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        found[key] = f"{found[key]}\n{value}" if key in found else value
    return found


SCRIPTS = files("sluice.ingest.browser").joinpath("scripts")


def page_as_shown(limit: int) -> str:
    """Return the script that yields the page as shown, at most `limit` characters."""
    return SCRIPTS.joinpath("page_as_shown.js").read_text("utf-8").replace("LIMIT", str(limit))


MAX_SCREENSHOT_BYTES = 5_000_000
MAX_HEIGHT_PIXELS = 8_000
"""Some ten screens; Chromium holds four bytes per pixel while it draws."""


async def take_screenshot(page: Page, *, within_seconds: float) -> bytes | None:
    """Return a PNG of the page from its top, at most `MAX_HEIGHT_PIXELS` high.

    Shows only the window if the whole is larger than `MAX_SCREENSHOT_BYTES`. Returns None if that is too large as well,
    or the browser could not draw it in `within_seconds`: a missing picture never fails the page.
    """
    milliseconds = max(1.0, within_seconds * 1_000 / 2)
    window = page.viewport_size or {"width": 1_280, "height": 720}
    for height in (MAX_HEIGHT_PIXELS, window["height"]):
        area = FloatRect(x=0, y=0, width=window["width"], height=height)
        try:
            picture = await page.screenshot(clip=area, full_page=True, timeout=milliseconds, animations="disabled")
        except PlaywrightError:
            return None
        if len(picture) <= MAX_SCREENSHOT_BYTES:
            return picture
    return None
