"""Processes that take or restore a backup are killed, at every telling point and at any moment; then the same again.

The product has no hooks: a child process wraps the functions, does the work, and dies at one of them. After each death
the file is whole or not there, and the data directory an instance that works or empty. The next try succeeds.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sluice.contracts.errors import Conflict
from sluice.index.settings import ObjectStoreSettings
from sluice.ledger import backup as ledger_backup
from sluice.workers.backup.archive import Keys, Seal
from sluice.workers.backup.restore import restore, verify
from sluice.workers.backup.take import take
from sluice.workers.backup.target import Target
from sluice.workers.settings import Settings
from tests.chaos.family import arm
from tests.chaos.index.child import in_child
from tests.chaos.report import Result
from tests.support.backup_story import fill, opened, state
from tests.support.in_process import Instance
from tests.support.valkey import Valkey

TAKING = (
    "sluice.workers.backup.take:copy_ledger",
    "sluice.workers.backup.take:facts_of",
    "sluice.workers.backup.take:cut_files",
    "sluice.workers.backup.archive:ArchiveWriter.add_path",
    "sluice.workers.backup.archive:ArchiveWriter.close",
    "sluice.workers.backup.take:Target.put",
    "sluice.workers.backup.take:copy_beside",
    "sluice.ledger.backup:BackupLease.__exit__",
)
RESTORING = (
    "sluice.workers.backup.restore:extract",
    "sluice.workers.backup.restore:check_sqlite",
    "sluice.workers.backup.restore:migrate",
    "sluice.workers.backup.restore:begin_anew",
    "sluice.index.local.writer:IndexWriter.publish",
    "sluice.workers.backup.restore:carry_out",
    "sluice.workers.backup.restore:_put_in_place",
)
"""Functions that a process dies before and after."""
PASSPHRASE = "correct horse"
KILLS, SHORT_KILLS = 40, 3
STORE = ObjectStoreSettings()
LEASE_SECONDS = 1.0


def kills_at_points(folder: Path, seed: int, short: bool) -> Result:
    """Kill at each point once."""
    del seed
    world, every = World(folder), 5 if short else 1
    taking = [f"{seam}.{when}" for seam in TAKING for when in ("before", "after")][::every]
    restoring = [f"{seam}.{when}" for seam in RESTORING for when in ("before", "after")][::every]
    wrong = [one for point in taking for one in world.dies_taking(point)]
    wrong += [one for point in restoring for one in world.dies_restoring(point)]
    return Result(
        "points",
        f"killed at {len(taking)} points of a backup and {len(restoring)} of a restoration, then again",
        "a whole file or none; an instance that works or an empty folder",
        not wrong,
        {"points": len(taking) + len(restoring), "wrong": len(wrong)},
        tuple(wrong),
    )


def random_kills(folder: Path, seed: int, short: bool) -> Result:
    """Kill at moments that are drawn, over the time that the undisturbed work takes."""
    world, choose, most = World(folder), random.Random(seed), SHORT_KILLS if short else KILLS
    wrong: list[str] = []
    for _ in range(most):
        wrong += world.dies_taking(choose.uniform(0.0, 1.2 * world.seconds["take"]))
        wrong += world.dies_restoring(choose.uniform(0.0, 1.2 * world.seconds["restore"]))
    return Result(
        "kills",
        f"{2 * most} SIGKILLs at any moment of a backup or a restoration, then again",
        "a whole file or none; an instance that works or an empty folder",
        not wrong,
        {"kills": world.killed, "undisturbed": 2 * most - world.killed, "wrong": len(wrong)},
        tuple(wrong),
    )


class World:
    """An instance at rest, and a backup of it. This process has no thread of the index, so that forking it is safe."""

    def __init__(self, folder: Path) -> None:
        self.data_dir, self.into = folder / "data", folder / "new"
        self.file, self.kept = folder / "there" / "one.backup", folder / "there" / "kept.backup"
        self.expected = in_child(self._prepare, 300)
        self.killed = 0
        self.seconds = {}
        for name, work in (("take", lambda: self._take(self.kept)), ("restore", self._restore)):
            began = time.monotonic()
            in_child(work, 120)
            self.seconds[name] = time.monotonic() - began
        shutil.rmtree(self.into)

    def dies_taking(self, at: str | float) -> Iterator[str]:
        """Kill a backup; yield what is wrong with what it left, and with the next one."""
        self.file.unlink(missing_ok=True)
        if not self._dies(lambda: self._take(self.file), at):
            yield f"{at}: nothing passed it"
        if self.file.exists() and not in_child(self._is_whole, 120):
            yield f"{at}: it left a file that is not whole"
        in_child(lambda: self._take(self.file), 120)
        if not in_child(self._is_whole, 120):
            yield f"{at}: the next backup is not whole"
        if left := [path.name for path in self.file.parent.iterdir() if path.name.endswith(".partial")]:
            yield f"{at}: {left} were left behind"

    def dies_restoring(self, at: str | float) -> Iterator[str]:
        """Kill a restoration; yield what is wrong with what it left, and with the next one."""
        if not self._dies(self._restore, at):
            yield f"{at}: nothing passed it"
        if self.into.exists() and any(self.into.iterdir()):
            if in_child(lambda: self._state(self.into), 120) != self.expected:
                yield f"{at}: it left an instance that is not the one backed up"
            if in_child(self._is_refused, 120) is not True:
                yield f"{at}: a folder that holds an instance was not refused"
        else:
            in_child(self._restore, 120)
            if in_child(lambda: self._state(self.into), 120) != self.expected:
                yield f"{at}: the next restoration is not what was backed up"
        if left := [path.name for path in self.into.parent.iterdir() if path.name.endswith(".restoring")]:
            yield f"{at}: {left} were left behind"
        shutil.rmtree(self.into)

    def _prepare(self) -> object:
        broker = Valkey(Settings(data_dir=self.data_dir))
        broker.start()
        instance = Instance(broker, {})
        try:
            fill(instance, 6)
            return _comparable(state(instance.context, asks=False))
        finally:
            instance.close()
            broker.kill()

    def _state(self, data_dir: Path) -> object:
        with closing(opened(data_dir)) as context:
            return _comparable(state(context, asks=False))

    def _take(self, file: Path) -> None:
        ledger_backup.LEASE_SECONDS = LEASE_SECONDS
        with closing(opened(self.data_dir)) as context:
            take(context, Target(str(file), STORE), Seal(passphrase=PASSPHRASE))

    def _restore(self) -> None:
        with closing(opened(self.data_dir)) as context:
            target, keys = Target(str(self.kept), STORE), Keys(passphrase=PASSPHRASE)
            done = restore(context.settings, target, keys, "me", into=self.into)
        assert done.is_equal, [one for one in done.compared if not one.is_equal]

    def _is_refused(self) -> bool:
        try:
            self._restore()
        except Conflict:
            return True
        return False

    def _is_whole(self) -> bool:
        with closing(opened(self.data_dir)) as context:
            keys = Keys(passphrase=PASSPHRASE)
            return verify(context.settings, Target(str(self.file), STORE), keys).is_equal

    def _dies(self, work: Callable[[], object], at: str | float) -> bool:
        """Do the work in a child that dies at a point, or after so many seconds; whether it passed the point."""
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            try:
                if isinstance(at, str):
                    arm(at)
                work()
            finally:
                os._exit(0)
        if isinstance(at, float):
            time.sleep(at)
            os.kill(child, signal.SIGKILL)
        is_killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        self.killed += is_killed
        return is_killed or isinstance(at, float)


def _comparable(found: dict[str, Any]) -> str:
    """The state as text, which passes from process to process."""
    return repr(sorted((name, value) for name, value in found.items()))
