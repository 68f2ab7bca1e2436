"""What is killed when: drawn from a seed, printed, and the same again for the same seed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sluice.contracts.event import QUEUES

PROCESSES = (*(f"{stage}-1" for stage in QUEUES), "chunk-1/child", "reconciler", "api")
"""Every process of an instance beside its broker and its supervisor, and the child of the one pool that forks."""


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL `target`, so many seconds after the kill before it was delivered."""

    after_seconds: float
    target: str

    def __str__(self) -> str:
        return f"+{self.after_seconds:.2f}s {self.target}"


def kill_plan(seed: int, count: int, mean_seconds: float, targets: Sequence[str] = PROCESSES) -> tuple[Kill, ...]:
    """`count` kills, exponentially spaced (as independent failures are), each of any target."""
    dice = random.Random(seed)
    return tuple(Kill(dice.expovariate(1 / mean_seconds), dice.choice(targets)) for _ in range(count))


class Killer:
    """Carries a plan out in a thread."""

    def __init__(self, plan: Sequence[Kill], kill: Callable[[str, threading.Event], int]) -> None:
        self.delivered = 0
        self.problem: BaseException | None = None
        self._plan, self._kill = plan, kill
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killer", daemon=True)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def is_done(self) -> bool:
        """Whether the plan is carried out, or had to be given up."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            for kill in self._plan:
                if self._stopping.wait(kill.after_seconds):
                    return
                self._kill(kill.target, self._stopping)
                self.delivered += 1
        except AssertionError as error:
            self.problem = error


def wait_until(condition: Callable[[], bool], timeout_seconds: float, look_seconds: float = 0.1) -> bool:
    """Wait for the condition; whether it came true in time."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(look_seconds)
    return True
