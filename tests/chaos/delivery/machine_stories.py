"""The shortest sequences that broke a law once, each told as a story: what was found stays found.

Each takes an empty world and makes things happen; whoever breaks a law on the way raises `Broken`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.chaos.delivery.machine_world import Emit, Intent, Seam, World

Story = Callable[[World], None]

_PAGE = Emit("page", 1)
_ONE_PAGE = Emit("page", 1, keyed=True)


def handed_back(world: World) -> None:
    """A claim is handed back long after its turn; a lane that joins then gets no more than its share."""
    _crawls(world, 9, "local")
    held = world.receive("crawl", 0)
    assert held is not None
    world.go_on(held, Intent(), 1)
    _works(world, 5)
    world.end(held.process, died=False)
    world.bury(0)
    _crawls(world, 4, "key_a")
    _works(world, 6)


def cancelled(world: World) -> None:
    """A key cancels what it has in line; what it asks for next need not wait for the turns that it gave up."""
    _crawls(world, 5, "local")
    _crawls(world, 5, "key_a")
    world.cancel(1)
    _crawls(world, 1, "key_a")
    _works(world, 4)


def dropped(world: World) -> None:
    """Links that were found before are dropped; the lane that found them again has lost no turn by it."""
    _crawls(world, 1, "key_a")
    _works(world, 1, Intent(emits=(_ONE_PAGE, _ONE_PAGE, _ONE_PAGE, _ONE_PAGE, _PAGE)))
    _crawls(world, 8, "local")
    _works(world, 8)


def woken_together(world: World) -> None:
    """The retries of two lanes wake at once; the lanes take turns, and do not stand one behind the other."""
    _crawls(world, 4, "local")
    _crawls(world, 4, "key_a")
    _works(world, 8, Intent("retry"))
    world.clock.passes(1.0)
    world.tick(0)
    _works(world, 4)


def beaten_in_time(world: World) -> None:
    """A heartbeat comes after the reconciler saw the lease run out and before it acts; the claim still stands."""
    _crawls(world, 1, "local")
    held = world.receive("crawl", 0)
    assert held is not None
    world.go_on(held, Intent(), 1)
    world.clock.passes(2 * world.settings.lease_seconds)
    world.tick(0, Seam(2, lambda: world.beat(held)))


STORIES: tuple[Story, ...] = (handed_back, cancelled, dropped, woken_together, beaten_in_time)


def _crawls(world: World, pages: int, owner: str) -> None:
    world.begin("crawl", [_PAGE] * pages, owner=owner, corpus="docs", ceilings="none")


def _works(world: World, times: int, intent: Intent = Intent()) -> None:  # noqa: B008 - a frozen value
    for _ in range(times):
        hand = world.receive("crawl", 0)
        assert hand is not None
        world.finish(hand, intent)
