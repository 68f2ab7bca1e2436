"""A request to the browser for one page, and its result. Importing this loads no browser."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """The limits of one page."""

    timeout_seconds: float
    """From its turn to its HTML; waiting for a turn may take as long again."""
    max_bytes: int
    """Largest HTML, in UTF-8."""
    within_seconds: float = math.inf
    """Waiting and rendering together."""
    max_nodes: int = 200_000
    """Most elements in its tree."""
    max_requests: int = 300
    """Most requests it may make, its own included."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page after its scripts ran.

    `final_url`, `status` and `headers` (as in `Fetched`) are those of the response that its document came from, not the
    address that its scripts put into the address bar.
    """

    html: str
    final_url: str
    status: int
    headers: dict[str, str]
    requests: int = 1
    """Requests that the page made, its own included."""
    screenshot: bytes | None = None
    """A PNG of the page, if the request asks for one and it could be drawn."""


PreRequestHook = Callable[[str], None]
"""Called before the page navigates to a further address; it may block, and what it raises ends the page."""


def nothing(url: str) -> None:
    """Allow every navigation."""


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """A page to render, and its limits."""

    url: str
    proxy_url: str
    user_agent: str
    limits: RenderLimits
    pre_request: PreRequestHook = nothing
    screenshot: bool = False
    run_id: str = ""
    """The run that requests the page; only pages of one run and one site may share a context."""

    def within(self, seconds: float) -> RenderRequest:
        """Return the same request with a time limit of `seconds`."""
        return replace(self, limits=replace(self.limits, timeout_seconds=seconds))
