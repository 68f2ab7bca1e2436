"""A reader's view that does not follow the corpus."""

from __future__ import annotations

from sluice.contracts.errors import Unavailable
from sluice.index.generations.view import View


class FixedView:
    """In place of a `Follower`: always serves one view. The owner of the view closes it."""

    fallback_reason: str | None = None

    def __init__(self, view: View | None) -> None:
        self._view = view

    def latest(self) -> View | None:
        """The one view."""
        return self._view

    def reload(self) -> View | None:
        """The one view."""
        return self._view

    def covering(self, journal_offset: int, timeout_seconds: float) -> View | None:
        """The one view. Raises `Unavailable` when it does not cover the offset."""
        covered = self._view.journal_offset if self._view else 0
        if covered < journal_offset:
            raise Unavailable(f"the pinned view covers journal offset {covered}, not {journal_offset}")
        return self._view

    def close(self) -> None:
        """Does nothing: the view is not its own."""
