"""Which response each document of a page came from: by that a page is known, whatever its scripts show as its address.

A script may put any address of its origin into the address bar (`history.replaceState`), navigate to one that answers
without a document (status 204, a download), or fill the page from a `blob:` address. None of this changes which
response the document that is shown came from, and that is what `DocumentResponses` tells: Chromium gives each document
that it loads an identifier, which the response bears too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import CDPSession

MAX_DOCUMENTS = 50
"""Documents of one page that are remembered, the last ones; a page that navigates more often is not at rest."""


@dataclass(frozen=True, slots=True)
class DocumentResponse:
    """The response that a document was made from. `headers` are in lower case, one line for each that was sent."""

    url: str
    status: int
    headers: dict[str, str]


class DocumentResponses:
    """Remembers the responses to one page's own navigations. Made and started before the page goes anywhere."""

    def __init__(self, devtools: CDPSession, frame_id: str) -> None:
        self._devtools = devtools
        self._frame_id = frame_id
        self._by_loader: dict[str, DocumentResponse] = {}
        devtools.on("Network.responseReceived", self._received)

    async def start(self) -> None:
        """Have the browser tell of responses; it keeps no bodies for us."""
        await self._devtools.send("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})

    def stop(self) -> None:
        """Listen no longer."""
        self._devtools.remove_listener("Network.responseReceived", self._received)

    async def current_loader(self) -> str:
        """The identifier of the document that is shown now; another document, even of the same address, has another."""
        tree = await self._devtools.send("Page.getFrameTree")
        return str(tree["frameTree"]["frame"]["loaderId"])

    def of_loader(self, loader: str) -> DocumentResponse | None:
        """The response that the document `loader` came from; None where no site sent it (`blob:`, an error page)."""
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
    """The headers by their names in lower case; lines of one name stay apart, whatever case each was written in."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        found[key] = f"{found[key]}\n{value}" if key in found else value
    return found
