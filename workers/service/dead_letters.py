"""Dead letters, as far as a caller may see them, and what operators do with them.

A caller of some corpora sees and touches their letters alone; a letter that is no event is of no corpus.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.contracts.errors import InvalidInput, NotFound
from sluice.contracts.operations.dead_letters import (
    DeadLetterGroup,
    DeadLetterPage,
    DeadLetterSummary,
    DeadLetterView,
    Purged,
    PurgeRequest,
    Replayed,
)
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
        self._context.transport.announce([event])
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
