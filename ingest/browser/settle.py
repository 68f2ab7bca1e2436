"""Waits until a page no longer changes: until two looks are equal, never for a fixed time.

A look counts the elements and the text of the tree. A page has settled once it is parsed, two looks in a row agree,
and no request that its text may depend on is under way or was made between them. A page with little text is looked at
for longer: it may be a shell whose script only begins. A page that has text and polls for ever is not waited for, and
one that never rests is taken as it stands at the ceiling.

A consent wall keeps a page from being drawn and loaded, so one try is made at dismissing it: only where something that
looks like one lies over the page, only by a button that is known or says so, refusing before accepting, and never by a
form: nothing is sent that a reader would have to answer for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sluice.contracts.errors import PolicyRefused
from sluice.ingest.browser.page_content import SCRIPTS, IsolatedWorld
from sluice.ingest.browser.page_guard import PageGuard

LOOK_SECONDS = 0.1
"""Between two looks. A framework's re-renders follow one another within a few frames (16 ms)."""
THIN_CHARACTERS = 200
"""Fewer are a shell, or a page that has hardly anything to say."""
THIN_SECONDS = 0.6
"""How long a thin page must be still; timers that fill one are set to half a second at most."""
POLL_SECONDS = 2.0
"""How long a page that has text must be still to be taken although a request of its is under way."""
CEILING_SECONDS = 5.0
"""How long a page may take to settle: its tickers and polls may go on for ever."""

_LOOK = """
(() => {{
  const nodes = document.getElementsByTagName("*").length;
  const text = nodes > {most} || !document.body ? 0 : document.body.textContent.length;
  return [document.readyState !== "loading", nodes, text];
}})()
"""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look saw."""

    parsed: bool
    nodes: int
    characters: int
    requests: int

    @property
    def is_thin(self) -> bool:
        """Whether there is too little text to be sure that this is the page."""
        return self.characters < THIN_CHARACTERS


async def settle(world: IsolatedWorld, guard: PageGuard, *, max_nodes: int, ceiling_seconds: float) -> None:
    """Return once the page is at rest, or at the ceiling.

    Raises:
        PolicyRefused: rule `nodes`: its tree has more than `max_nodes` elements.
    """

    async def look() -> Look | None:
        return await _look(world, guard, max_nodes)

    try:
        async with asyncio.timeout(ceiling_seconds):
            await _watch(look, guard)
    except TimeoutError:
        await require_small(world, max_nodes)


async def require_small(world: IsolatedWorld, max_nodes: int) -> None:
    """Refuse a tree of more than `max_nodes` elements, before anything is built of it.

    Raises:
        PolicyRefused: rule `nodes`.
    """
    nodes = await world.evaluate('document.getElementsByTagName("*").length')
    if isinstance(nodes, int):
        _require_few(nodes, max_nodes)


async def _watch(look: Callable[[], Awaitable[Look | None]], guard: PageGuard) -> None:
    clock = asyncio.get_running_loop().time
    seen, still_since = await look(), clock()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = await look()
        if now is None or now != seen:
            seen, still_since = now, clock()
        elif now.parsed and clock() - still_since >= _stillness_seconds(now, guard):
            return


def _stillness_seconds(look: Look, guard: PageGuard) -> float:
    """How long the page must have been as it is."""
    if guard.is_quiet:
        return THIN_SECONDS if look.is_thin else 0.0
    return CEILING_SECONDS if look.is_thin else POLL_SECONDS


async def _look(world: IsolatedWorld, guard: PageGuard, max_nodes: int) -> Look | None:
    seen = await world.evaluate(_LOOK.format(most=max_nodes))
    if not isinstance(seen, list):
        return None
    parsed, nodes, characters = seen
    _require_few(nodes, max_nodes)
    return Look(bool(parsed), int(nodes), int(characters), guard.made)


def _require_few(nodes: int, max_nodes: int) -> None:
    if nodes > max_nodes:
        raise PolicyRefused("nodes", f"a page of {nodes} elements; {max_nodes} are allowed")


async def dismiss_consent(world: IsolatedWorld) -> bool:
    """Press the button of a consent wall that lies over the page; whether there was one."""
    return await world.evaluate(SCRIPTS.joinpath("dismiss_consent.js").read_text("utf-8")) is True
