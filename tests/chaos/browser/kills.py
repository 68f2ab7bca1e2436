"""Pages rendered while processes of the browser are killed at random."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.errors import SluiceError
from sluice.ingest.browser.processes import command_line, descendants
from sluice.ingest.settings import CrawlSettings
from tests.support.browser_world import World, runs

KILLED_SHARE = 0.4
"""Of the pages."""
_Process = tuple[int, int]
"""Its id, and when it started."""
PAGE_SECONDS = 12.0
"""How long a page may take: one whose network process was killed hangs so long."""
GONE_SECONDS = 20.0
"""How long what was killed may take to be gone, on a machine that is busy."""


@dataclass(frozen=True)
class Outcome:
    """What became of the pages and of the processes."""

    rendered: int
    failed: int
    """Pages that ended with an error by name; any other error is raised."""
    kills: int
    orphans: tuple[str, ...]
    """Command lines of processes of a browser that outlived all of them."""


def render_with_kills(*, pages: int, seed: int) -> Outcome:
    """Render `pages` one after another; under two of five a random process of their browser is killed.

    They are of one run, so that tabs are kept, and killed while they are.
    """
    chaos, world = random.Random(seed), World(CrawlSettings(browser_recycle_pages=7))
    seen: set[_Process] = set()
    kills = 0

    def kill() -> None:
        nonlocal kills
        warm = world.browser.running
        members = descendants(warm.launcher_pid) if warm is not None and not warm.ended else []
        seen.update((pid, _started(pid)) for pid in members)
        if members:
            with suppress(ProcessLookupError):
                os.kill(chaos.choice(members), signal.SIGKILL)
                kills += 1

    outcomes = []
    try:
        for _ in range(pages):
            timer = threading.Timer(chaos.uniform(0, 1.0), kill)
            if chaos.random() < KILLED_SHARE:
                timer.start()
            outcomes.append(_renders(world))
            timer.cancel()
    finally:
        world.close()
    return Outcome(sum(outcomes), outcomes.count(False), kills, _orphans(seen))


def _renders(world: World) -> bool:
    try:
        world.render("/plain", seconds=PAGE_SECONDS, run_id="chaos")
    except SluiceError:
        return False
    return True


def _orphans(seen: set[_Process]) -> tuple[str, ...]:
    until = time.monotonic() + GONE_SECONDS
    while time.monotonic() < until and any(map(_runs_still, seen)):
        time.sleep(0.1)
    return tuple(command_line(pid) for pid, started in sorted(seen) if _runs_still((pid, started)))


def _runs_still(process: _Process) -> bool:
    """Whether it is that process: ids are given again to others."""
    pid, started = process
    return runs(pid) and _started(pid) == started


def _started(pid: int) -> int:
    """When the process started, in ticks since the machine did (proc(5), stat 22); 0 where it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0
