"""Deriving what follows from new iterations, at once where they are few, else in one background thread.

After an import there may be thousands of iterations: no question may wait for those. Models are asked before the
journal is locked.

A usual loop never needs it: an iteration brings a few entries, which are looked through and indexed when something is
asked. While questions are asked the thread rests most of the time, as it would take their processor time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from sluice.contracts.errors import SluiceError
from sluice.contracts.memory.learning import FeatureLearning
from sluice.memory.journal.entry import JournalEntry
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.journal.file import Journal
from sluice.memory.learning.deduplication import DeduplicationResult, check_deduplication
from sluice.memory.learning.distil import distil
from sluice.memory.ports import AskModel, JudgePair, Sanitise
from sluice.memory.recall.weigh import weigh

Step = Callable[[], bool]
"""A second's work at most; whether there is more to do."""

ASKED_LATELY_SECONDS = 2.0
"""Since a question: another one may be expected."""
RESTS_PER_STEP = 3.0
"""Then the thread rests three times as long as it worked: of four questions in a row one meets it at work."""

_log = logging.getLogger(__name__)


class Upkeep:
    """Steps by what they are for, each repeated until it is done. The thread starts with the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[str, Step] = {}
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._asked_at = -ASKED_LATELY_SECONDS

    def do(self, what: str, step: Step) -> None:
        """Repeat `step` until it is done, in place of the one before for the same. A question is what asks for it."""
        with self._lock:
            if self._closing.is_set():
                return
            self._asked_at = time.monotonic()
            self._steps[what] = step
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memory-upkeep", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until all is done."""
        while (thread := self._thread) is not None:
            thread.join()

    def close(self) -> None:
        """End after the present step; what is left is done another time."""
        with self._lock:
            self._closing.set()
            self._steps.clear()
        self.wait()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._steps:
                    self._thread = None
                    return
                what, step = next(iter(self._steps.items()))
            began = time.monotonic()
            try:
                has_more = step()
            except SluiceError as error:  # the next question begins it again
                _log.warning("%s is left for another time: %s", what, error)
                has_more = False
            with self._lock:
                if not has_more and self._steps.get(what) is step:
                    del self._steps[what]
                is_done = not self._steps
            if not is_done:
                self._rest(time.monotonic() - began)

    def _rest(self, worked_seconds: float) -> None:
        if time.monotonic() - self._asked_at < ASKED_LATELY_SECONDS + worked_seconds:
            self._closing.wait(RESTS_PER_STEP * worked_seconds)


DISTILLED_AT_ONCE = 100
"""Iterations that are looked through for learnings between two looks at the clock: some 5 ms each."""
FEW_ITERATIONS = 50
"""A question waits until so many were looked through. An iteration brings one; an import may have brought thousands."""


def count_new(state: FeatureMemory) -> int:
    """Iterations that were not looked through."""
    return len(state.iterations.keys() - state.distilled)


def catch_up(
    journal: Journal, models: Models, *, sanitise: Sanitise, at: datetime, seconds: float | None
) -> list[JournalEntry]:
    """Append what follows from new iterations, in portions between which others may write; returns the new entries.

    After `seconds` (None: never) the rest is left for another time. A prompt tells the last iterations either way.
    """

    def decide(state: FeatureMemory, asked: Models) -> list[JournalEntry]:
        distilled = distil(
            state,
            compare=asked.compare,
            sanitise=sanitise,
            at=at,
            ask=asked.ask,
            model=asked.name,
            most=DISTILLED_AT_ONCE,
        )
        return [*distilled, *weigh(state, at)]

    started = time.monotonic()
    derived: list[JournalEntry] = []
    state = journal.read()
    while count_new(state) > 0:
        state, entries = transact_with(models, journal, decide)
        derived += entries
        if seconds is not None and time.monotonic() - started > seconds:
            break
    return derived


@dataclass(frozen=True, slots=True)
class Models:
    """What may be asked; None where there is none."""

    judge: JudgePair | None = None
    ask: AskModel | None = None
    name: str = ""
    """Of the language model that `ask` asks: learnings that it distils name it."""

    def compare(self, text: str, existing: Sequence[FeatureLearning]) -> DeduplicationResult:
        """What `text` is beside the learnings that are kept."""
        return check_deduplication(text, existing, judge=self.judge)


ATTEMPTS = 3
"""Decisions that are made anew as others changed the journal meanwhile. Then rules decide, while it is locked."""


class _Changed(Exception):
    """Another process changed what was decided by."""


def transact_with(
    models: Models, journal: Journal, decide: Callable[[FeatureMemory, Models], list[JournalEntry]]
) -> tuple[FeatureMemory, list[JournalEntry]]:
    """`Journal.transact` of what takes a while to decide: it is decided before, and anew where much changed meanwhile.

    Iterations that were recorded meanwhile are no such change: they are looked at in their turn.
    """
    for _ in range(ATTEMPTS):
        before = journal.read()
        entries = decide(before, models)

        def unless_changed(
            state: FeatureMemory, before: FeatureMemory = before, entries: list[JournalEntry] = entries
        ) -> list[JournalEntry]:
            if not _is_as_before(state, before):
                raise _Changed
            return entries

        with suppress(_Changed):
            return journal.transact(unless_changed)
    return journal.transact(lambda state: decide(state, Models()))


def _is_as_before(state: FeatureMemory, before: FeatureMemory) -> bool:
    return state is before or (
        state.learnings == before.learnings
        and state.conflicts == before.conflicts
        and state.repetitions == before.repetitions
        and state.distilled == before.distilled
        and state.weighed == before.weighed
        and len(state.printed) == len(before.printed)
    )
