"""Dead letters and their bulk replays, as far as a caller may see them, and what operators do with them.

A caller of some corpora sees and touches their letters alone; a letter that is no event is of no corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sluice.contracts.errors import InvalidInput, NotFound
from sluice.contracts.operations.dead_letters import (
    DeadLetterGroup,
    DeadLetterPage,
    DeadLetterSummary,
    DeadLetterView,
    OperatorAction,
    Purged,
    PurgeRequest,
    Replayed,
    ReplayPlan,
    ReplayRequest,
    ReplayView,
)
from sluice.ledger.ledger import Ledger
from sluice.workers.context import Context
from sluice.workers.service.caller import Caller


class DeadLetterDesk:
    """The dead letters of one instance. Every method that changes something records who did it and when.

    Every method on one letter raises `NotFound` for a letter that is not there or not the caller's to see, and
    `Conflict` where its state does not allow what is asked.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._letters = context.ledger.dead_letters

    def some(self, wanted: DeadLetterPage, caller: Caller) -> Sequence[DeadLetterSummary]:
        """Letters that meet every filter given, the latest first."""
        return self._letters.list(caller.narrowed(wanted))

    def groups(self, wanted: DeadLetterPage, caller: Caller) -> Sequence[DeadLetterGroup]:
        """Letters that failed alike, counted."""
        return self._letters.groups(caller.narrowed(wanted))

    def one(self, letter_id: str, caller: Caller) -> DeadLetterView:
        """One letter, whole."""
        letter = self._letters.show(letter_id)
        if not caller.may_see(letter.corpus):
            raise NotFound(f"no dead letter {letter_id}")
        return letter

    def edit(self, letter_id: str, payload: bytes, caller: Caller, note: str) -> DeadLetterView:
        """Put another payload in place.

        Raises:
            InvalidInput: it is no event.
        """
        self.one(letter_id, caller)
        return self._letters.edit(letter_id, payload, caller.owner, note)

    def replay(self, letter_id: str, caller: Caller, note: str, *, force: bool) -> Replayed:
        """Make its event ready again, and publish it."""
        self.one(letter_id, caller)
        event = self._letters.replay(letter_id, caller.owner, force=force, note=note)
        self._context.transport.publish([event])
        return Replayed(dead_letter_id=letter_id, event_id=event.id, run_id=event.run_id)

    def purge(self, letter_id: str, caller: Caller, note: str) -> Purged:
        """Empty one letter: its payload, stack and past payloads go, the facts stay."""
        self.one(letter_id, caller)
        self._letters.purge(letter_id, caller.owner, note)
        return Purged(matching=1, purged=1)

    def purge_all(self, asked: PurgeRequest, caller: Caller) -> Purged:
        """Empty many letters, or with `dry_run` count them.

        Raises:
            InvalidInput: the count to confirm is missing.
        """
        wanted = caller.narrowed(asked.filter)
        if asked.dry_run:
            return Purged(matching=self._letters.count_to_purge(wanted), purged=0)
        if asked.confirm is None:
            raise InvalidInput("confirm", "missing", "send the count that the same request with dry_run gave")
        return self._letters.purge_all(wanted, caller.owner, expected=asked.confirm, note=asked.note)


ReplayAction = Literal["pause", "resume", "abort"]
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

    def change(self, replay_id: str, action: ReplayAction, caller: Caller, note: str) -> ReplayView:
        """Pause it, go on with a paused one, or end it for good. Raises `Conflict` where its state forbids that."""
        self.one(replay_id, caller)
        act = {"pause": self._replays.pause, "resume": self._replays.resume, "abort": self._replays.abort}[action]
        return act(replay_id, caller.owner, note)


def _may_see(caller: Caller, view: ReplayView) -> bool:
    corpora = view.filter.corpora
    return caller.corpora is None or (corpora is not None and caller.corpora.issuperset(corpora))
