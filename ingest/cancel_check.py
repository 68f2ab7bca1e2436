"""Cancellation of long work: whatever waits or loops asks on its way whether it may go on.

A run may be cancelled, or its event claimed by another worker, while a site is slow. Long work is therefore handed a
`CancelCheck` and calls it before each step and, while it waits, every `LOOK_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Callable

CancelCheck = Callable[[], None]
"""Returns while the calling thread's work may go on; raises once it may not."""

LOOK_SECONDS = 0.25


def never_cancelled() -> None:
    """The check of work that cannot be cancelled."""
