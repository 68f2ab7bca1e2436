"""Dead letters and their bulk replays, as far as a caller may see them, and operators' actions on them.

A caller of some corpora sees and touches their letters alone; a letter without an event has no corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sluice.contracts.errors import InvalidInput, NotFound
from sluice.contracts.operations import dead_letters as values
from sluice.workers.context import Context
from sluice.workers.service.callers import Caller

_PAGE = 100


class DeadLetterDesk:
    """The dead letters of one instance, and their bulk replays. Every change records who made it and when.

    Every method on one letter or replay raises `NotFound` if it does not exist or the caller may not see it, and
    `Conflict` if its state does not allow the change.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._letters, self._replays = context.ledger.dead_letters, context.ledger.replays

    def some(self, wanted: values.DeadLetterPage, caller: Caller) -> Sequence[values.DeadLetterSummary]:
        """Return letters that meet every given filter, the latest first."""
        return self._letters.list(caller.narrowed(wanted))

    def groups(self, wanted: values.DeadLetterPage, caller: Caller) -> Sequence[values.DeadLetterGroup]:
        """Count letters that failed alike."""
        return self._letters.groups(caller.narrowed(wanted))

    def one(self, letter_id: str, caller: Caller) -> values.DeadLetterView:
        """Return one letter, whole."""
        letter = self._letters.show(letter_id)
        if not caller.may_see(letter.corpus):
            raise NotFound(f"no dead letter {letter_id}")
        return letter

    def look(self, letter_id: str, caller: Caller) -> values.DeadLetterView:
        """Return one letter, whole, and record that the caller looked at its payload."""
        self.one(letter_id, caller)
        self._context.ledger.console.record(caller.owner, "payload_read", [f"letter:{letter_id}"])
        return self.one(letter_id, caller)

    def edit(self, letter_id: str, payload: bytes, caller: Caller, note: str) -> values.DeadLetterView:
        """Replace a letter's payload. Raises `InvalidInput` if the new one is no event."""
        self.one(letter_id, caller)
        return self._letters.edit(letter_id, payload, caller.owner, note)

    def replay(self, letter_id: str, caller: Caller, note: str, *, force: bool) -> values.Replayed:
        """Make the letter's event ready again, and publish it."""
        self.one(letter_id, caller)
        event = self._letters.replay(letter_id, caller.owner, force=force, note=note)
        self._context.transport.publish([event])
        return values.Replayed(dead_letter_id=letter_id, event_id=event.id, run_id=event.run_id)

    def purge(self, letter_id: str, caller: Caller, note: str) -> values.Purged:
        """Empty one letter: remove its payload, stack and past payloads, and keep the facts."""
        self.one(letter_id, caller)
        self._letters.purge(letter_id, caller.owner, note)
        return values.Purged(matching=1, purged=1)

    def purge_all(self, asked: values.PurgeRequest, caller: Caller) -> values.Purged:
        """Empty many letters; `dry_run` only counts them. Raises `InvalidInput` if the count to confirm is missing."""
        wanted = caller.narrowed(asked.filter)
        if asked.dry_run:
            return self._letters.would_purge(wanted)
        if asked.confirm is None:
            raise InvalidInput("confirm", "missing", "send the count that the same request with dry_run gave")
        return self._letters.purge_all(wanted, caller.owner, expected=asked.confirm, note=asked.note)

    def begin_replay(self, request: values.ReplayRequest, caller: Caller) -> values.ReplayView | values.ReplayPlan:
        """Begin a bulk replay of letters of the caller's corpora, or with `dry_run` describe it."""
        wanted = caller.narrowed(request.filter)
        if request.dry_run:
            return self._replays.plan(wanted, force=request.force)
        return self._replays.begin(request.model_copy(update={"filter": wanted}), caller.owner)

    def latest_replays(self, caller: Caller, limit: int, before: str | None) -> list[values.ReplayView]:
        """Return bulk replays, the newest first; `before` is the last id of the page before."""
        shown: list[values.ReplayView] = []
        while page := self._replays.latest(_PAGE, before):
            shown += [view for view in page if _may_see(caller, view)]
            if len(shown) >= limit:
                break
            before = page[-1].id
        return shown[:limit]

    def show_replay(self, replay_id: str, caller: Caller) -> values.ReplayView:
        """Return a bulk replay with its progress."""
        view = self._replays.show(replay_id)
        if not _may_see(caller, view):
            raise NotFound(f"no replay {replay_id}")
        return view

    def replay_actions(self, replay_id: str, caller: Caller) -> Sequence[values.OperatorAction]:
        """Return what operators did with a bulk replay, in order."""
        self.show_replay(replay_id, caller)
        return self._replays.actions(replay_id)

    def change_replay(
        self, replay_id: str, action: Literal["pause", "resume", "abort"], caller: Caller, note: str
    ) -> values.ReplayView:
        """Pause a bulk replay, go on with a paused one, or end it for good."""
        self.show_replay(replay_id, caller)
        return self._replays.change(replay_id, action, caller.owner, note)


def _may_see(caller: Caller, view: values.ReplayView) -> bool:
    corpora = view.filter.corpora
    return caller.corpora is None or (corpora is not None and caller.corpora.issuperset(corpora))
