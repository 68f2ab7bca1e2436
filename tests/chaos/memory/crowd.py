"""Many writers of many features at once, killed at random and at the telling points, each time begun again.

Half of them die at a point from inside, and half are killed from outside some milliseconds after they told of an item.
One who died within a write is followed by one who dies while it heals, unless another writer has healed before. A reader looks on meanwhile and never begins
anew, so what it holds at the end was folded piece by piece.
"""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sluice.memory.journal import Journal
from tests.chaos.memory.failpoints import POINTS, Fault
from tests.chaos.memory.verdict import Verdict, judge
from tests.chaos.memory.writer import Plan, journals_folder, told_file, write

_HEALING = ("aside.after", "cut.before", "cut.after")
_WRITING = tuple(one for one in POINTS if one not in _HEALING)
_DELAY_SECONDS = 0.02
"""At most between an item and the death from outside: some transactions."""
_LIMIT_SECONDS = 400.0
_LOOK_SECONDS = 0.002

Write = Callable[[Plan, Path, int, Fault | None], None]
"""The life of one of the writers of a plan in a folder, with a fault that it meets."""


@dataclass(slots=True)
class _Life:
    writer: int
    fault: Fault | None
    last_item: float
    """How many items are told when it is killed from outside."""
    ends_at: float = float("inf")
    is_killed: bool = False


@dataclass(slots=True)
class Crowd:
    """The writers of a plan. `kills` is how many of them die before the rest may end in peace."""

    plan: Plan
    folder: Path
    kills: int
    seed: int
    write: Write = write
    died: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    _lives: dict[int, _Life] = field(default_factory=dict)
    _readers: dict[str, Journal] = field(default_factory=dict)

    def run(self) -> Verdict:
        """Let them write everything, and judge what stands there."""
        chance = random.Random(self.seed)
        features = sorted({item.feature for item in self.plan.items})
        self._readers = {one: Journal(journals_folder(self.folder), one) for one in features}
        limit = time.monotonic() + _LIMIT_SECONDS
        with self._ended():
            for writer in range(self.plan.writers):
                self._begin(writer, "", chance)
            while self._lives:
                self._bury(chance)
                self._kill_who_is_due(chance, limit)
                self._readers[chance.choice(features)].read()
                time.sleep(_LOOK_SECONDS)
        return judge(self.plan, self.folder, self._readers, self.problems, has_lessons=self.write is write)

    def _begin(self, writer: int, died_at: str, chance: random.Random) -> None:
        fault, last_item = None, float("inf")
        if self.died.total() < self.kills:
            most = max(2, len(self.plan.items) // self.kills)
            if died_at in ("write.half", "write.group"):
                fault = Fault(chance.choice(_HEALING), 1)
            elif chance.random() < 0.5:
                fault = Fault(chance.choice(_WRITING), chance.randint(1, most))
            last_item = self._told(writer) + chance.randint(0, most) * (1 if fault is None else 2)
        process = os.fork()
        if process == 0:
            self._live(writer, fault)
        self._lives[process] = _Life(writer, fault, last_item)

    def _told(self, writer: int) -> int:
        path = told_file(self.folder, writer)
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def _live(self, writer: int, fault: Fault | None) -> None:
        code = 1
        try:
            self.write(self.plan, self.folder, writer, fault)
            code = 0
        except BaseException:
            (self.folder / f"writer-{writer}.failed").write_text(traceback.format_exc(limit=-4))
        finally:
            os._exit(code)

    def _bury(self, chance: random.Random) -> None:
        for process in list(self._lives):
            ended, status = os.waitpid(process, os.WNOHANG)
            if not ended:
                continue
            life = self._lives.pop(process)
            if os.WIFSIGNALED(status):
                point = "outside" if life.is_killed or life.fault is None else life.fault.point
                self.died[point] += 1
                self._begin(life.writer, point, chance)
            elif os.WEXITSTATUS(status):
                told = (self.folder / f"writer-{life.writer}.failed").read_text()
                self.problems.append(f"writer {life.writer} failed: {told}")

    def _kill_who_is_due(self, chance: random.Random, limit: float) -> None:
        now = time.monotonic()
        if now > limit:
            raise TimeoutError(f"the writers are not done after {_LIMIT_SECONDS:.0f} s")
        for process, life in self._lives.items():
            if life.ends_at == float("inf") and self._told(life.writer) >= life.last_item:
                life.ends_at = now + chance.uniform(0, _DELAY_SECONDS)
            if now > life.ends_at and not life.is_killed:
                life.is_killed = True
                os.kill(process, signal.SIGKILL)

    @contextmanager
    def _ended(self) -> Iterator[None]:
        """Leave no writer behind, whatever happens."""
        try:
            yield
        finally:
            for process in self._lives:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
