"""A request to the browser for one page, and its result. Importing this loads no browser."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """What one page may take."""

    timeout_seconds: float
    """From its turn to its HTML; waiting for a turn may take as long again."""
    max_bytes: int
    """Of its HTML, in UTF-8."""
    within_seconds: float = math.inf
    """Waiting and rendering together."""
    max_nodes: int = 200_000
    """Elements of its tree."""
    max_requests: int = 300
    """Requests that it may make, its own included."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page after its scripts ran.

    `final_url`, `status` and `headers` (as in `Fetched`) are those of the response that its document came from; what
    scripts show as its address is not told.
    """

    html: str
    final_url: str
    status: int
    headers: dict[str, str]
    requests: int = 1
    """How many requests the page made, its own included."""
    screenshot: bytes | None = None
    """A PNG of the page, where one was asked for and could be had."""


PreRequestHook = Callable[[str], None]
"""Asked before a further address is navigated to; it may block, and what it raises ends the page."""


def nothing(url: str) -> None:
    """Let the page go wherever it goes."""


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """What to render and the limits that hold for it."""

    url: str
    proxy_url: str
    user_agent: str
    limits: RenderLimits
    pre_request: PreRequestHook = nothing
    screenshot: bool = False
    run_id: str = ""
    """The run that asks; only pages of one run, and of one site, may come after one another in a context."""

    def within(self, seconds: float) -> RenderRequest:
        """The same with a time limit of `seconds`."""
        return replace(self, limits=replace(self.limits, timeout_seconds=seconds))
