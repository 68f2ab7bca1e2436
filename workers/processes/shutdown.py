"""Ends a worker process, whatever its threads are doing, and releases the claims of processes that will not finish.

1. SIGTERM, SIGINT or SIGHUP: *drain*. No further message is taken, running events may finish for `pools.stop_seconds`.
2. A second one, or SIGQUIT: *stop*, at once.
3. SIGUSR1: *retire*. As a drain, but running events may take as long as any event may.
4. An event held for longer than one may take: drain, then stop, because the thread that hangs cannot be ended alone.

Promises: at a stop the claims in hand are released first, so that their events need not wait for the lease to run out;
the stop takes at most `STOP_SECONDS`, even where ledger or broker do not answer; processes that this one
has started end with it. A thread of its own hears the signals: the main thread may be busy for minutes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing, suppress

import structlog
from sqlalchemy import select

from sluice.ledger.database import Database
from sluice.ledger.events.outbox import WakeUp
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.tables import events
from sluice.workers.broker.transport import Transport
from sluice.workers.processes.kernel import RETIRE, all_processes, descendants, hear_signals, kill
from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)

IDLE_SECONDS = 3.0
"""Seconds that Celery gets to end by itself once nothing is in hand: it may wait for children that never answer."""
STOP_SECONDS = 5.0
"""Seconds for releasing the claims and sending the last spans."""
HUNG, DEAF = 70, 69
"""Exit codes of a process that ends itself because an event hangs, or because it takes nothing more from its queue."""
_LOOK_SECONDS = 0.1
_MOST_STACK_CHARACTERS = 16_384


def _never() -> bool:
    return False


class Shutdown:
    """The end of this process. It begins once; another request hurries it."""

    def __init__(
        self,
        drain_seconds: float,
        stop_taking: Callable[[], None],
        in_hand: Callable[[], int],
        hand_back: Callable[[bool], None],
    ) -> None:
        """`hand_back` gets whether the remaining claims count as a death of the process."""
        self._drain_seconds, self._stop_taking, self._in_hand = drain_seconds, stop_taking, in_hand
        self._hand_back = hand_back
        self._begun = threading.Event()
        self._is_retiring = False
        self._end: tuple[int, Callable[[], bool], float] = (0, _never, float("inf"))
        self._stopped = threading.Lock()

    @property
    def has_begun(self) -> bool:
        """Whether the process takes no further work."""
        return self._begun.is_set()

    def listen(self) -> None:
        """Handle the signals from now on. Call it in the main thread."""
        hear_signals(self.heard)

    def drain(self, why: str) -> None:
        """Let running events finish, and stop if that takes too long."""
        self._begin(why)

    def retire(self) -> None:
        """Let running events finish, however long they take: each of them has a limit of its own."""
        self._begin("it is no longer wanted", is_retiring=True)

    def hang(self, event_id: str) -> None:
        """Let all other events finish, and stop: this one hangs."""
        log.error("event_hangs", event_id=event_id, stacks=stacks())
        self._begin("an event hangs", HUNG, lambda: not self._in_hand())

    def stop(self, code: int) -> None:
        """Release the claims and exit."""
        if not self._stopped.acquire(blocking=False):
            return
        try:
            self._begun.set()
            threading.Timer(STOP_SECONDS, os._exit, [code]).start()
            end_descendants()
            self._hand_back(code == HUNG and not self._in_hand())
        except Exception as error:  # the process must end whatever fails before
            log.error("hand_back_failed", error=repr(error), exc_info=error)
        finally:
            log.info("stopped", code=code)
            with suppress(OSError):
                sys.stderr.flush()
            os._exit(code)

    def _begin(
        self, why: str, code: int = 0, is_over: Callable[[], bool] = _never, *, is_retiring: bool = False
    ) -> None:
        is_first = not self._begun.is_set()
        if not is_first and not self._is_retiring:
            return
        self._end = (code, is_over, float("inf") if is_retiring else time.monotonic() + self._drain_seconds)
        self._is_retiring = is_retiring
        self._begun.set()
        log.info("draining", why=why, in_hand=self._in_hand())
        if is_first:
            self._stop_taking()
            threading.Thread(target=self._wait_and_stop, name="ending", daemon=True).start()

    def _wait_and_stop(self) -> None:
        busy_at = time.monotonic()
        while True:
            code, is_over, by = self._end
            now = time.monotonic()
            busy_at = now if self._in_hand() else busy_at
            if now >= by or is_over() or now - busy_at >= IDLE_SECONDS:
                return self.stop(code)
            time.sleep(_LOOK_SECONDS)

    def heard(self, number: int) -> None:
        """Carry out a signal."""
        if number == RETIRE:
            self.retire()
        elif number == signal.SIGQUIT or (self.has_begun and not self._is_retiring):
            self.stop(128 + number)
        else:
            self.drain(signal.Signals(number).name)


def end_descendants() -> None:
    """Kill all processes that this one has started, and their descendants."""
    for process in descendants(os.getpid(), all_processes()):
        kill(process.pid)


def stacks() -> str:
    """Return the stack of every other thread of this process, cut to the end if it is long."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    told = [
        f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
        if ident != threading.get_ident()
    ]
    return "\n".join(told)[-_MOST_STACK_CHARACTERS:]


_HOLDERS = select(events.c.worker).where(events.c.status == "claimed", events.c.due_at.is_not(None)).distinct()


def hand_back(settings: Settings, is_gone: Callable[[str], bool], *, died: bool) -> int:
    """Release the claims of workers for whose names `is_gone` is true, publish wake-ups, and return how many.

    `died`: counts a death on each event. An expired lease counts one in any case. Opens its own connections: those of
    a stuck process may be the reason why it is stuck.

    Raises:
        Unavailable: the ledger does not answer; the leases will run out.
        InvalidSetting: there is no broker. The reconciler publishes the released events.
    """
    with closing(Database(settings.ledger_location)) as database, database.reading() as connection:
        gone = [name for name in connection.execute(_HOLDERS).scalars() if is_gone(name)]
    if not gone:
        return 0
    most = settings.delivery.max_deliveries
    with Ledger(settings.ledger_location) as ledger:
        freed: list[WakeUp] = [*ledger.expire_leases(most)]
        for name in gone:
            freed += ledger.release(name, max_deliveries=most, died=died)
    with closing(Transport(settings)) as transport:
        transport.publish_wake_ups(freed)
    log.info("claims_handed_back", workers=gone, died=died, wake_ups=len(freed))
    return len(freed)
