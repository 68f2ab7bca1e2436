"""The checks by name, each in a long and a short form, and the proof that each notices a planted bug."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tests.chaos.index import corruption, full_disk, journal_damage, kills, model
from tests.chaos.index.bugs import BUGS, Planted
from tests.chaos.index.publishes import KINDS
from tests.chaos.index.tracer import can_trace
from tests.chaos.report import Result

Check = Callable[[Path, int, bool], Result]
"""Takes a folder, a seed, and whether the short form is asked for."""


def corruptions(folder: Path, seed: int, is_short: bool) -> Result:
    """Corruptions of generations and of the pointer."""
    done = list(corruption.trials(folder, seed, 10 if is_short else 1_000))
    slowest = max(trial.seconds for trial in done)
    figures = {"served within (s)": slowest, **corruption.kinds(done)}
    limit = f"all noticed, no wrong answer, served within {corruption.LIMIT_SECONDS:.0f} s"
    return _result("corruption", f"{len(done)} corruptions", limit, figures, [trial.problems for trial in done])


def journal(folder: Path, seed: int, is_short: bool) -> Result:
    """Damages to the journal."""
    done = list(journal_damage.refusals(folder, seed, 10 if is_short else 300))
    figures = dict(Counter(f"{one.damage.split()[0]}: {one.noticed}" for one in done))
    limit = "damage is refused, a torn end is cut"
    return _result("journal", f"{len(done)} damages", limit, figures, [one.problems for one in done])


def deaths(folder: Path, seed: int, is_short: bool) -> Result:
    """SIGKILL at each call of several kinds of publish."""
    done = [
        death for kind in KINDS for death in kills.deaths(kind, folder, False, *_steps(seed, 200 if is_short else 1))
    ]
    return _of_deaths("kills", "a whole generation loads, nothing acknowledged is lost", done)


def power_cuts(folder: Path, seed: int, is_short: bool) -> Result:
    """The same, and what was not flushed is lost too."""
    done = [
        death for kind in KINDS for death in kills.deaths(kind, folder, True, *_steps(seed, 210 if is_short else 3))
    ]
    return _of_deaths("power", "the same, with what was not flushed gone", done)


def full_disks(folder: Path, seed: int, is_short: bool) -> Result:
    """Full disks, by refused calls and, where mounting is allowed, by a small file system."""
    steps = _steps(seed, 230 if is_short else 8)
    done = [one for kind in KINDS for one in full_disk.shortages(kind, folder, *steps)]
    real = list(_truly_full(folder, (8,) if is_short else tuple(range(0, 40, 5))))
    figures = {
        "points": len(done),
        "truly full": len(real),
        "refused": sum(one.refused_steps for one in done + real),
        "calls": len({one.call for one in done}),
    }
    limit = "Unavailable, the old one serves, the same writer resumes"
    return _result("disk", "ENOSPC from a call on", limit, figures, [one.problems for one in done + real])


def any_order(folder: Path, seed: int, is_short: bool) -> Result:
    """Random sequences against a dictionary."""
    seen, difference = model.differences(folder, 15 if is_short else 2_000, seed, shrinks=not is_short)
    return _result("model", "random sequences", "0 differences", dict(seen), [(difference,)] if difference else [])


CHECKS: dict[str, Check] = {
    "corruption": corruptions,
    "journal": journal,
    "kills": deaths,
    "power": power_cuts,
    "disk": full_disks,
    "model": any_order,
}
"""Every check by its name, in the order in which they run."""


_RENAMES = ("rename", "renameat", "renameat2")


SEEDS = 3
"""Seeds of which one has to meet the bug: some do not come by it in a short form's few sequences."""


def _is_noticed(name: str, bug: Planted, folder: Path, seed: int) -> bool:
    with tempfile.TemporaryDirectory(dir=folder) as own, bug.plant():
        return any(told in problem for problem in _problems_of(name, Path(own), seed) for told in bug.told)


def planted(name: str, folder: Path, seed: int) -> Result:
    """The bugs that check `name` must notice, one at a time."""
    unnoticed = []
    for bug in BUGS[name]:
        if not any(_is_noticed(name, bug, folder, seed + turn) for turn in range(SEEDS)):
            unnoticed.append(f"nobody notices that {bug.what}")
    figures = {"noticed": len(BUGS[name]) - len(unnoticed)}
    return _result(f"{name}, planted bugs", f"{len(BUGS[name])} bugs", "all noticed", figures, [unnoticed])


def _problems_of(name: str, folder: Path, seed: int) -> Iterator[str]:
    """The problems that a check finds, trial after trial, so that the first that counts ends it."""
    some, is_cut = KINDS[1:3], name == "power"
    trials: Iterable[corruption.Trial | journal_damage.Refusal | kills.Death | full_disk.Shortage]
    match name:
        case "corruption":
            trials = corruption.trials(folder, seed, 60)
        case "journal":
            trials = journal_damage.refusals(folder, seed, 60)
        case "kills" | "power":
            trials = (
                one
                for which, names in enumerate((_RENAMES, ()))  # the few calls that mostly tell first
                for kind in some
                for one in kills.deaths(kind, folder / f"{kind.name}-{which}", is_cut, names=names)
            )
        case "disk":
            trials = (one for kind in some for one in full_disk.shortages(kind, folder / kind.name, 5, 20))
        case _:
            yield model.differences(folder, 60, seed)[1]
            return
    for trial in trials:
        yield from trial.problems


def why_not(name: str) -> str:
    """Why a check cannot run here; empty where it can."""
    return can_trace() if name in ("kills", "power", "disk") else ""


def _truly_full(folder: Path, free_blocks: Sequence[int]) -> Iterator[full_disk.Shortage]:
    """Nothing where mounting is not allowed; the refused calls are there in any case."""
    for kind in (KINDS[1], KINDS[3]):
        try:
            yield from full_disk.full_file_systems(kind, folder / f"disk of {kind.name}", free_blocks)
        except PermissionError:
            return


def _of_deaths(name: str, limit: str, done: Sequence[kills.Death]) -> Result:
    figures = {
        "points": len(done),
        "kinds of publish": len({death.kind for death in done}),
        "kinds of call": len({death.call for death in done}),
    }
    if name == "power":
        figures["files and names lost"] = sum(death.lost_count for death in done)
    problems = [tuple(f"{one.kind}, call {one.point} ({one.call}): {what}" for what in one.problems) for one in done]
    return _result(name, "SIGKILL at system calls", limit, figures, problems)


def _steps(seed: int, every: int) -> tuple[int, int]:
    """The first point and the distance of those after it: another seed hits other points."""
    return 1 + (37 * seed) % every, every


def _result(name: str, done: str, limit: str, figures: dict[str, object], problems: Sequence[Sequence[str]]) -> Result:
    found = tuple(itertools.chain.from_iterable(problems))
    return Result(name, done, limit, not found, {**figures, "problems": len(found)}, found)
