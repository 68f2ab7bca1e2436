"""Bulk replays of dead letters, as far as a caller may see them: those of its corpora alone."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.contracts.errors import NotFound
from sluice.contracts.operations.dead_letters import OperatorAction, ReplayPlan, ReplayRequest, ReplayView
from sluice.ledger.ledger import Ledger
from sluice.workers.service.caller import Caller

_PAGE = 100


class ReplayDesk:
    """The bulk replays of one instance. Every method on one raises `NotFound` where it is not the caller's to see."""

    def __init__(self, ledger: Ledger) -> None:
        self._replays = ledger.replays

    def plan(self, asked: ReplayRequest, caller: Caller) -> ReplayPlan:
        """What the replay would do; changes nothing."""
        return self._replays.plan(caller.narrowed(asked.filter), force=asked.force)

    def begin(self, asked: ReplayRequest, caller: Caller) -> ReplayView:
        """Begin it, over the letters of the caller's corpora."""
        return self._replays.begin(asked.model_copy(update={"filter": caller.narrowed(asked.filter)}), caller.owner)

    def latest(self, caller: Caller, limit: int, before: str | None) -> list[ReplayView]:
        """The newest first; `before` is the last id of the page before."""
        shown: list[ReplayView] = []
        while page := self._replays.latest(_PAGE, before):
            shown += [view for view in page if _may_see(caller, view)]
            if len(shown) >= limit:
                break
            before = page[-1].id
        return shown[:limit]

    def one(self, replay_id: str, caller: Caller) -> ReplayView:
        """How far it is."""
        view = self._replays.show(replay_id)
        if not _may_see(caller, view):
            raise NotFound(f"no replay {replay_id}")
        return view

    def actions(self, replay_id: str, caller: Caller) -> Sequence[OperatorAction]:
        """What operators did with it, in order."""
        self.one(replay_id, caller)
        return self._replays.actions(replay_id)

    def pause(self, replay_id: str, caller: Caller, note: str) -> ReplayView:
        """Bring back no more letters until `resume`. Raises `Conflict` when it is not running."""
        self.one(replay_id, caller)
        return self._replays.pause(replay_id, caller.owner, note)

    def resume(self, replay_id: str, caller: Caller, note: str) -> ReplayView:
        """Go on. Raises `Conflict` when it is not paused."""
        self.one(replay_id, caller)
        return self._replays.resume(replay_id, caller.owner, note)

    def abort(self, replay_id: str, caller: Caller, note: str) -> ReplayView:
        """Bring back no more letters, for good. Raises `Conflict` when it has ended."""
        self.one(replay_id, caller)
        return self._replays.abort(replay_id, caller.owner, note)


def _may_see(caller: Caller, view: ReplayView) -> bool:
    corpora = view.filter.corpora
    return caller.corpora is None or (corpora is not None and caller.corpora.issuperset(corpora))
