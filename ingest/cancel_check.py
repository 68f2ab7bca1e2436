"""Whether work is still wanted: long work asks on its way, and whoever gave it may end it by raising.

A run may be cancelled, or its work taken over, while a site is slow. So whatever waits or loops is handed a `Wanted`
and calls it before each step, and while it waits, every `LOOK_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Callable

Wanted = Callable[[], None]
"""Returns while the work of the calling thread is wanted; raises when it is not."""

LOOK_SECONDS = 0.25


def always() -> None:
    """Work that nobody can call off."""
