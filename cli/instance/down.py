"""`sluice down`: ends the instance that `sluice up` runs on this machine."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from sluice.cli.command import Shown, alone
from sluice.cli.connection import data_folder
from sluice.workers.processes.kernel import ProcessFacts, facts_of, kill
from sluice.workers.supervisor.process_table import ProcessTable

PATIENCE_SECONDS = 40.0
"""Longest wait for an orderly end: what is in hand may finish, the broker writes its data."""
AT_ONCE_SECONDS, KILLED_SECONDS = 10.0, 2.0
NOT_RUNNING = 3
_LOOK_SECONDS = 0.1


@alone
def down(now: bool = False) -> Shown:
    """End the instance on this machine: what is in hand may finish for three seconds, unless it is to end now."""
    folder = data_folder()
    table, started = ProcessTable(folder), time.monotonic()
    supervisor, processes = table.supervisor(), table.living()
    named = {"up": supervisor, **processes} if supervisor else processes
    asked = {name: facts for name, pid in named.items() if (facts := facts_of(pid))}
    if not asked:
        return Shown({"ended": {}, "left": {}, "seconds": 0.0}, f"no instance runs on {folder}", NOT_RUNNING)
    to_tell = [asked["up"]] if "up" in asked else [*asked.values()]  # it ends the others in order
    _ask(to_tell)
    if now:
        _wait(asked, 2 * _LOOK_SECONDS)  # two signals at once would be one
        _ask(to_tell)
    left = _wait(asked, AT_ONCE_SECONDS if now else PATIENCE_SECONDS)
    if left and now:
        for facts in left.values():
            kill(facts.pid)
        left = _wait(asked, KILLED_SECONDS)
    pids = {name: facts.pid for name, facts in asked.items()}
    seconds = round(time.monotonic() - started, 1)
    told = {"ended": {name: pid for name, pid in pids.items() if name not in left}, "seconds": seconds}
    told["left"] = {name: pids[name] for name in left}
    line = f"{len(pids) - len(left)} processes ended in {seconds} s"
    if left:
        line += f"; still there: {', '.join(f'{name} ({pids[name]})' for name in left)}"
        line += "" if now else "; `sluice down --now` kills them"
    return Shown(told, line, int(bool(left)))


def _ask(processes: list[ProcessFacts]) -> None:
    for facts in processes:
        with suppress(ProcessLookupError):
            os.kill(facts.pid, signal.SIGTERM)


def _wait(asked: dict[str, ProcessFacts], seconds: float) -> dict[str, ProcessFacts]:
    """Wait until none of them runs any more, for so long at most; return those that do. Ids may be used again, so a
    process is known by its start."""
    give_up_at = time.monotonic() + seconds
    while True:
        now = {name: facts_of(facts.pid) for name, facts in asked.items()}
        left = {name: one for name, one in now.items() if one and one.lives and one.started == asked[name].started}
        if not left or time.monotonic() >= give_up_at:
            return left
        time.sleep(_LOOK_SECONDS)
