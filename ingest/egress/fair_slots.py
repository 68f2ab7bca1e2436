"""A bounded number of slots, of which every holder gets one before any holder gets the last.

Connections of the egress proxy and threads of its resolver are shared by crawls that do not know each other, and one
of them may be hostile. Promises:

1. No more slots are taken than there are, than one holder may have, and than may be for one target.
2. The last quarter is for holders who have none: a holder that takes all it can leaves some to the others.
3. A slot that comes free goes to the waiting holder with the fewest; among equals, to the one that came first.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class _Waiting:
    """A holder that waits for a slot."""

    holder: Hashable
    at_most: int
    target: Hashable
    granted: asyncio.Future[None]


class FairSlots:
    """`total` slots, at most `per_target` for one target. Belongs to one event loop."""

    def __init__(self, total: int, *, per_target: int | None = None) -> None:
        self._total = total
        self._reserved = total // 4
        self._per_target = per_target or total
        self._taken = 0
        self._held: Counter[Hashable] = Counter()
        self._targets: Counter[Hashable] = Counter()
        self._waiting: list[_Waiting] = []

    def held(self, holder: Hashable) -> int:
        """How many slots a holder has."""
        return self._held.get(holder, 0)

    def take_free(self, holder: Hashable, *, at_most: int, target: Hashable) -> bool:
        """Take a slot where no holder waits for one; False where there is none. What is taken is to be given back."""
        if self._waiting or not self._may(holder, at_most, target):
            return False
        self._count(holder, target, 1)
        return True

    async def take(self, holder: Hashable, *, at_most: int, target: Hashable) -> None:
        """Wait for a slot; `holder` has no more than `at_most` of them. What is taken is to be given back."""
        if self.take_free(holder, at_most=at_most, target=target):
            return
        wanted = _Waiting(holder, at_most, target, asyncio.get_running_loop().create_future())
        self._waiting.append(wanted)
        self._grant()
        try:
            await wanted.granted
        except asyncio.CancelledError:
            if wanted in self._waiting:
                self._waiting.remove(wanted)
            else:  # granted and given up at the same moment
                self.give(holder, target=target)
            raise

    def give(self, holder: Hashable, *, target: Hashable) -> None:
        """Give a slot back, and hand it on."""
        self._count(holder, target, -1)
        self._grant()

    def _grant(self) -> None:
        while admissible := [one for one in self._waiting if self._may(one.holder, one.at_most, one.target)]:
            next_one = min(admissible, key=lambda one: self.held(one.holder))
            self._waiting.remove(next_one)
            self._count(next_one.holder, next_one.target, 1)
            next_one.granted.set_result(None)

    def _may(self, holder: Hashable, at_most: int, target: Hashable) -> bool:
        held = self.held(holder)
        room = self._total - self._taken - (self._reserved if held else 0)
        return room > 0 and held < at_most and self._targets.get(target, 0) < self._per_target

    def _count(self, holder: Hashable, target: Hashable, change: int) -> None:
        self._taken += change
        for counts, key in ((self._held, holder), (self._targets, target)):
            counts[key] += change
            if not counts[key]:
                del counts[key]
