"""Derives the consequences of new iterations: of a few at once, of many in one background thread.

After an import there may be thousands of iterations, and no question may wait for those; a usual loop never needs the
thread, as an iteration's few entries are distilled and indexed on demand. While questions arrive the thread rests most
of the time, as it would take their processor time. Models are called before the journal is locked.
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
from sluice.memory.solved import learn_solutions, with_standing_errors

Step = Callable[[], bool]
"""Works for a second at most; returns whether there is more to do."""

ASKED_LATELY_SECONDS = 2.0
"""Seconds after a question in which another one may be expected."""
RESTS_PER_STEP = 3.0
"""Rest per step, as a multiple of its work: of four questions in a row one meets the thread at work."""

_log = logging.getLogger(__name__)


class Upkeep:
    """Steps by purpose, each repeated until it is done. The thread starts with the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[str, Step] = {}
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._asked_at = -ASKED_LATELY_SECONDS

    def do(self, what: str, step: Step) -> None:
        """Repeat `step` until it is done, in place of an earlier one for the same purpose. Only questions call this."""
        with self._lock:
            if self._closing.is_set():
                return
            self._asked_at = time.monotonic()
            self._steps[what] = step
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memory-upkeep", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until all steps are done."""
        while (thread := self._thread) is not None:
            thread.join()

    def close(self) -> None:
        """Stop after the present step; the rest is done another time."""
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
"""Iterations that are distilled between two looks at the clock: some 5 ms each."""
FEW_ITERATIONS = 50
"""Most new iterations that a question waits for. An iteration brings one; an import may have brought thousands."""


def count_new(state: FeatureMemory) -> int:
    """Return the number of iterations not yet distilled."""
    return len(_new_iterations(state))


def _new_iterations(state: FeatureMemory) -> set[str]:
    return state.iterations.keys() - state.distilled


def catch_up(
    journal: Journal, models: Models, *, sanitise: Sanitise, at: datetime, seconds: float | None
) -> list[JournalEntry]:
    """Append what follows from new iterations, in portions between which others may write; return the new entries.

    After `seconds` (None: no limit) the rest is left for another time. A prompt has the last iterations either way.
    """

    def decide(state: FeatureMemory, asked: Models) -> list[JournalEntry]:
        distilled = distil(
            with_standing_errors(state),
            compare=asked.compare,
            sanitise=sanitise,
            at=at,
            ask=asked.ask,
            model=asked.name,
            most=DISTILLED_AT_ONCE,
        )
        learned = learn_solutions(state, distilled, compare=asked.compare, sanitise=sanitise, at=at)
        return [*learned, *weigh(state, at)]

    started = time.monotonic()
    derived: list[JournalEntry] = []
    state = journal.read()
    while new := _new_iterations(state):
        state, entries = transact_with(models, journal, decide)
        derived += entries
        is_late = seconds is not None and time.monotonic() - started > seconds
        if is_late or new <= _new_iterations(state):  # a portion that leaves all of them new would do so for ever
            break
    return derived


@dataclass(frozen=True, slots=True)
class Models:
    """The models available; None where there is none."""

    judge: JudgePair | None = None
    ask: AskModel | None = None
    name: str = ""
    """Name of the language model behind `ask`: learnings that it distils name it."""

    def compare(self, text: str, existing: Sequence[FeatureLearning]) -> DeduplicationResult:
        """Compare `text` with the existing learnings."""
        return check_deduplication(text, existing, judge=self.judge)


ATTEMPTS = 3
"""Tries to decide outside the lock while others change the journal. After them rules decide, while it is locked."""


class _Changed(Exception):
    """Another process changed the state that a decision rests on."""


def transact_with(
    models: Models, journal: Journal, decide: Callable[[FeatureMemory, Models], list[JournalEntry]]
) -> tuple[FeatureMemory, list[JournalEntry]]:
    """Run `Journal.transact` for a slow decision: made before locking, and again if much changed meanwhile.

    Iterations that were recorded meanwhile are no such change: their turn comes later.
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
