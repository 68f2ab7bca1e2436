"""The checks by name, each in a long and a short form, and the proof that each notices a planted bug."""

from __future__ import annotations

import errno
import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from sluice.memory import open_memory
from tests.chaos.index.tracer import can_trace
from tests.chaos.memory import recorder, writer
from tests.chaos.memory.bugs import BUGS
from tests.chaos.memory.calls import Trial, die, refuse, trials
from tests.chaos.memory.crowd import Crowd, Write
from tests.chaos.memory.damage import Damaged, damages
from tests.chaos.memory.writer import Plan
from tests.chaos.report import Result

SHORT, LONG = (400, 10, 16), (10_000, 50, 100)
"""Iterations, features and kills of the two forms."""
Check = Callable[[Path, int, bool], Result]
"""Takes a folder, a seed, and whether the short form is asked for."""


def calls(folder: Path, seed: int, is_short: bool) -> Result:
    """SIGKILL at each call of several kinds of transaction."""
    done = list(trials(die, folder, 3 if is_short else 1))
    return _of_trials("calls", "SIGKILL at system calls", "all of a transaction or nothing of it", done)


def power(folder: Path, seed: int, is_short: bool) -> Result:
    """The same, and what was not flushed is lost too."""
    done = list(trials(partial(die, cuts_power=True), folder, 3 if is_short else 1))
    return _of_trials("power", "SIGKILL, and what was not flushed is gone", "nothing acknowledged is lost", done)


def disk(folder: Path, seed: int, is_short: bool) -> Result:
    """Calls that the disk refuses: from one on as it is full, or a single one as it fails."""
    done = list(_refusals(folder, 3 if is_short else 1))
    return _of_trials("disk", "ENOSPC from a call on, EIO of one", "a clear error, nothing half-written", done)


def damage(folder: Path, seed: int, is_short: bool) -> Result:
    """Journals whose lines are damaged at random."""
    done = list(damages(folder, seed, 60 if is_short else 2_000))
    figures = {"damaged lines": sum(one.lines for one in done), "used": sum(one.is_used for one in done)}
    figures |= Counter(harm for one in done for harm in one.harms)
    limit = "whole lines count, all others are told, memory goes on"
    return _result("damage", f"{len(done):,} damaged journals", limit, figures, _told(done))


def writers(folder: Path, seed: int, is_short: bool) -> Result:
    """Eight writers of many features, killed at random and at the telling points."""
    return _of_crowd("writers", _crowd(folder, seed, *(SHORT if is_short else LONG)))


def recorders(folder: Path, seed: int, is_short: bool) -> Result:
    """The same with eight agents that record through all of memory."""
    open_memory(folder / "warm", recorder.PROJECT).close()  # what is loaded here, those that are forked need not load
    return _of_crowd("recorders", _crowd(folder, seed, *(SHORT if is_short else LONG), recorder.write))


CHECKS: dict[str, Check] = {
    "calls": calls,
    "power": power,
    "disk": disk,
    "damage": damage,
    "writers": writers,
    "recorders": recorders,
}
"""Every check by its name, in the order in which they run."""
ON_DISK = ("writers", "recorders")
"""Those that wait for a disk, as writers do."""


def planted(name: str, folder: Path, seed: int) -> Result:
    """The bugs that check `name` must notice, one at a time."""
    unnoticed = []
    for bug in BUGS[name]:
        with tempfile.TemporaryDirectory(dir=folder) as own, bug.plant():
            found = _problems_of(name, Path(own), seed)
            if not any(told in problem for problem in found for told in bug.told):
                unnoticed.append(f"nobody notices that {bug.what}")
    figures = {"noticed": len(BUGS[name]) - len(unnoticed)}
    return _result(f"{name}, planted bugs", f"{len(BUGS[name])} bugs", "all noticed", figures, unnoticed)


def why_not(name: str) -> str:
    """Why a check cannot run here; empty where it can."""
    return can_trace() if name in ("calls", "power", "disk") else ""


def _problems_of(name: str, folder: Path, seed: int) -> Iterator[str]:
    """The problems that a check finds, trial after trial, so that the first that counts ends it."""
    match name:
        case "calls":
            found: Iterable[Trial] = trials(die, folder)
        case "power":
            found = trials(partial(die, cuts_power=True), folder)
        case "disk":
            found = _refusals(folder)
        case "damage":
            yield from _told(damages(folder, seed, 200))
            return
        case _:
            yield from _crowd(folder, seed, *SHORT).run().problems
            return
    for trial in found:
        yield from trial.told()


def _told(done: Iterable[Damaged]) -> Iterator[str]:
    return (f"{', '.join(one.harms)}: {problem}" for one in done for problem in one.problems)


def _refusals(folder: Path, every: int = 1) -> Iterator[Trial]:
    ways = (partial(refuse, number=number) for number in (errno.ENOSPC, errno.EIO))
    return itertools.chain.from_iterable(trials(one, folder, every) for one in ways)


def _crowd(folder: Path, seed: int, iterations: int, features: int, kills: int, write: Write = writer.write) -> Crowd:
    return Crowd(Plan.of(iterations, features, 8, seed), folder, kills, seed, write)


def _of_crowd(name: str, crowd: Crowd) -> Result:
    verdict, kills = crowd.run(), crowd.died.total()
    enough = [] if kills >= crowd.kills else [f"{kills} of {crowd.kills} kills happened"]
    done = f"{len(crowd.plan.items):,} iterations by {crowd.plan.writers} writers, {kills} SIGKILLs (seed {crowd.seed})"
    limit = "no record lost, twice or in another feature; a rebuild gives equal ids"
    figures = {"entries": verdict.entries, "torn ends kept": verdict.set_aside, **dict(crowd.died.most_common())}
    return _result(name, done, limit, figures, [*verdict.problems, *enough])


def _of_trials(name: str, done: str, limit: str, found: Sequence[Trial]) -> Result:
    figures = {"points": len(found), "kinds of transaction": len({one.kind for one in found})}
    if lost := sum(one.lost_count for one in found):
        figures["files and names lost"] = lost
    return _result(name, done, limit, figures, [problem for one in found for problem in one.told()])


def _result(name: str, done: str, limit: str, figures: dict[str, int], problems: Iterable[str]) -> Result:
    problems = tuple(problems)
    return Result(name, done, limit, not problems, figures, problems)
