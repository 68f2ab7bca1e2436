"""Figures that change while somebody looks: read once a second, rendered once, sent to all who watch.

Nothing is read while nobody watches. A fragment is sent only where it differs from the last one. It holds no attribute
of htmx: the guard strips those from a stream, as their nonce is not that of the page.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import structlog
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from sluice.api.access import instance_of
from sluice.api.console.frame import Visit, Visiting, pages, render
from sluice.contracts.errors import NotFound, Overloaded, SluiceError
from sluice.workers.service.instance import BROKER_ERRORS, Instance
from sluice.workers.service.runs import news_or_patience

log = structlog.get_logger(__name__)

SECONDS = 1.0
"""How often figures are read."""
READS_AT_ONCE = 4
"""Figures that are read side by side: the threads are those of all requests."""
SIGN_OF_LIFE_SECONDS = 15.0
KEY_SECONDS = 5.0
"""How often a stream looks whether its viewer's key is still in force."""
MOST_VIEWERS = 512
"""Streams of one process."""
AWAY = "<!-- away -->"
"""Stands before the last figures that could be read, in the fragment that says so."""
OVER = "over"
"""The event after which a stream ends for good; `ui.live` closes its connection then."""
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Reading = Callable[[Visit, Mapping[str, str]], Mapping[str, Any]]
"""Reads the values of a fragment, in a thread, by the stream's parameters."""
Needing = Callable[[Visit, Mapping[str, str]], object]
"""Raises `Forbidden` or `NotFound` for a visit that may not see the figures."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One kind of figures: how they are read, their template, and how often they change."""

    read: Reading
    template: str
    needs: Needing
    seconds: float = SECONDS


FIGURES: dict[str, Figures] = {}
"""Every kind, by the name that a stream asks for; pages add theirs by `streamed`."""


def streamed(name: str, template: str, *, needs: Needing, seconds: float = SECONDS) -> Callable[[Reading], Reading]:
    """Have a function read the figures that `/console/stream?page=name` sends, rendered by a template."""

    def added(read: Reading) -> Reading:
        FIGURES[name] = Figures(read, template, needs, seconds)
        return read

    return added


def whole_number(parameters: Mapping[str, str], name: str, most: int) -> int:
    """Return a parameter as a number from 1 to `most`; 1 for what is none."""
    told = parameters.get(name, "")[:9]
    return min(max(1, int(told)), most) if told.isdecimal() else 1


@dataclass(slots=True)
class Watched:
    """Figures that somebody watches: what is read for them, and the latest fragment."""

    figures: Figures
    visit: Visit
    parameters: Mapping[str, str]
    viewers: int = 0
    read_at: float = float("-inf")
    fragment: str = ""
    mark: str = ""
    """Names the fragment's content."""
    is_over: bool = False
    """Whether the figures change no more: the value `over` of the last reading."""
    good_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When the figures were last read."""


class Hub:
    """Reads and renders what is watched, once for all viewers. For one event loop."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._watched: dict[str, Watched] = {}
        self._reader: asyncio.Task[None] | None = None
        self.reads: Counter[str] = Counter()
        """Reads so far, by template."""
        self._at_once = asyncio.Semaphore(READS_AT_ONCE)

    async def stream(self, key: str, watched: Watched, seen: str) -> AsyncIterator[bytes]:
        """Yield each fragment as a message, the latest at once if it was not `seen`, until the process or the viewer's
        key is to end."""
        waiting, viewer = self._instance.announcements, watched.visit
        told_at = looked_at = time.monotonic()
        watched = self._watched.setdefault(key, watched)
        watched.viewers += 1
        try:
            with waiting.of(f"console:{key}") as news:
                if self._reader is None or self._reader.done():
                    self._reader = asyncio.create_task(self._read(), name="console")
                while not waiting.is_ending:
                    if watched.mark not in ("", seen):
                        seen, told_at = watched.mark, time.monotonic()
                        yield format_sse_event(data_str=watched.fragment, id=seen)
                    elif time.monotonic() - told_at > SIGN_OF_LIFE_SECONDS:
                        told_at = time.monotonic()
                        yield KEEPALIVE_COMMENT
                    if watched.is_over:
                        yield format_sse_event(data_str="", event=OVER)
                        return
                    if time.monotonic() - looked_at > KEY_SECONDS:
                        looked_at = time.monotonic()
                        if not await run_in_threadpool(self._instance.console.goes_on, viewer.visitor):
                            return
                    await news_or_patience(news, KEY_SECONDS)
        finally:
            watched.viewers -= 1
            if not watched.viewers:
                self._watched.pop(key, None)

    @property
    def viewers(self) -> int:
        """How many streams are open."""
        return sum(one.viewers for one in self._watched.values())

    async def _read(self) -> None:
        while self._watched and not self._instance.announcements.is_ending:
            began = time.monotonic()
            due = [
                one for one in self._watched.items() if began - one[1].read_at >= one[1].figures.seconds - SECONDS / 10
            ]
            await asyncio.gather(*(self._renew(key, watched, began) for key, watched in due))
            await asyncio.sleep(max(0.05, SECONDS - (time.monotonic() - began)))

    async def _renew(self, key: str, watched: Watched, began: float) -> None:
        async with self._at_once:
            watched.read_at = began
            self.reads[watched.figures.template] += 1
            fragment = await run_in_threadpool(_fragment, watched)
        mark = sha256(fragment.encode()).hexdigest()[:16]
        if fragment and (mark != watched.mark or watched.is_over):
            watched.fragment, watched.mark = fragment, mark
            self._instance.announcements.tell(f"console:{key}")


def _fragment(watched: Watched) -> str:
    try:
        values = watched.figures.read(watched.visit, watched.parameters)
        watched.good_at, watched.is_over = datetime.now(UTC), bool(values.get("over"))
        return render(None, watched.figures.template, **values)
    except (SluiceError, *BROKER_ERRORS) as error:
        if not watched.fragment:
            return ""  # the page itself shows what was seen before
        before = watched.fragment.partition(AWAY)[2] or watched.fragment
        return render(None, "away_figures.html", error=error, since=watched.good_at, before=before)
    except Exception as error:
        log.error("figures_failed", template=watched.figures.template, error=repr(error), exc_info=error)
        return watched.fragment


def hub_of(request: Request) -> Hub:
    """Return the process's hub."""
    state = request.app.state
    with suppress(AttributeError):
        known: Hub = state.hub
        return known
    state.hub = Hub(instance_of(request))
    made: Hub = state.hub
    return made


streams = pages()


@streams.get("/stream")
async def stream(visit: Visiting, page: str) -> Response:
    """Stream the figures of a page, to all who may see the same in one rendering."""
    figures = FIGURES.get(page)
    if figures is None:
        raise NotFound(f"there are no figures of {page[:100]!r}")
    hub, request = hub_of(visit.request), visit.request
    if hub.viewers >= MOST_VIEWERS:
        raise Overloaded(f"{MOST_VIEWERS} streams are open already: close a tab", 10.0)
    parameters = {name: value for name, value in request.query_params.items() if name != "page"}
    watched = Watched(figures, visit, parameters)
    await run_in_threadpool(figures.needs, visit, parameters)
    scope = sorted(visit.caller.corpora) if visit.caller.corpora is not None else "all"
    key = f"{page}?{sorted(parameters.items())}&{visit.caller.role} of {scope}"
    seen = request.headers.get("last-event-id", "")
    return StreamingResponse(hub.stream(key, watched, seen), media_type="text/event-stream", headers=STREAM_HEADERS)


ROUTERS = (streams,)
