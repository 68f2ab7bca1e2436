"""Every fault at every failpoint of every process, one after the other: enumerated, not sampled.

One instance serves the whole matrix, until a wave fails; then a new one goes on. A *wave* is one cell for each process: work is sent until all its faults have
happened, then some more work, which shows that every process still works; then nothing may be lost or doubled. The
cells of a wave share its verdict. Faults of a kind are in a wave together, because a hang takes its time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from sluice.contracts.event import QUEUES
from tests.chaos.delivery.failpoints import FAILPOINTS, FAULTS, Cell, cells
from tests.chaos.delivery.instance import ChaosInstance
from tests.chaos.delivery.plan import wait_until
from tests.chaos.delivery.site import Site
from tests.chaos.delivery.verdict import await_quiet, judge
from tests.chaos.delivery.witness import Fact, facts
from tests.chaos.delivery.work import Work
from tests.chaos.report import Result

Wave = tuple[Cell, ...]

DOCUMENTS_PER_TURN = 2
MOST_TURNS, TURN_SECONDS = 60, 0.3
"""Of the work that flows while a wave happens."""
AFTERWARDS = MOST_TURNS
"""The number of the turn that shows that every process works on."""
FLOWING_SECONDS = 20.0
FIRED_SECONDS = 120.0
"""How long a wave's faults may take to happen; some need what only comes when another process is healed."""
QUIET_SECONDS = 180.0
"""A hang that is noticed, a lease that runs out, a restart of all processes at once, the backlog; twice."""


@dataclass(frozen=True, slots=True)
class WaveFound:
    """What became of a wave: the cells whose fault happened, and what is wrong."""

    wave: Wave
    fired: frozenset[str]
    problems: tuple[str, ...]


def undisturbed(folder: Path, seed: int, runs: int = 200) -> list[Result]:
    """Work without any fault: the suite's own zero, and the proof that every failpoint is really passed."""
    site = Site()
    with ChaosInstance(folder, site.settings()) as instance:
        work = Work(instance, f"calm-{seed}", site.address)
        work.mixed(range(runs))
        quiet = await_quiet(instance.ledger_url, QUIET_SECONDS + runs / 5)
        verdict = judge(work)
        passed = {(fact.role, fact.more["point"]) for fact in facts(instance.witness_path, "reached")}
    site.stop()
    missing = [
        f"{role} never passed {point}"
        for point, roles in FAILPOINTS.items()
        for role in roles
        if (role, point) not in passed
    ]
    return [
        Result(
            "undisturbed",
            f"{verdict.figures['events']:,} events of {runs:,} runs, no fault",
            "0 lost, 0 doubled, every failpoint passed",
            quiet and verdict.is_good and not missing,
            {"lost": len(verdict.lost), "doubled": len(verdict.doubled), "failpoints passed": len(passed)},
            (*verdict.lost, *verdict.doubled, *missing),
        )
    ]


def failpoint_matrix(folder: Path, seed: int, chosen: Sequence[Cell] | None = None) -> list[Result]:
    """Every cell of the matrix (or those chosen)."""
    site, planned = Site(), list(waves(chosen if chosen is not None else tuple(cells())))
    found: list[WaveFound] = []
    while len(found) < len(planned):
        with ChaosInstance(folder / f"from-wave-{len(found)}", site.settings()) as instance:
            for wave in planned[len(found) :]:
                found.append(carry_out(instance, site, wave, f"wave-{seed}-{len(found)}"))
                if found[-1].problems:  # what it broke must not fail the waves after it
                    break
    site.stop()
    by_fault = {fault: [one for one in found if one.wave[0].fault == fault] for fault in FAULTS}
    return [_result_of(fault, waves_of_it) for fault, waves_of_it in by_fault.items() if waves_of_it]


def waves(chosen: Iterable[Cell]) -> Iterator[Wave]:
    """The cells in waves: of one fault, and at most one of each role."""
    chosen = list(chosen)
    for fault in FAULTS:
        by_role: dict[str, list[Cell]] = {}
        for cell in chosen:
            if cell.fault == fault:
                by_role.setdefault(cell.role, []).append(cell)
        for wave in zip_longest(*by_role.values()):
            yield tuple(cell for cell in wave if cell is not None)


def carry_out(instance: ChaosInstance, site: Site, wave: Wave, name: str) -> WaveFound:
    """Arm the wave while work flows through every stage, wait for its faults, send some more work, and judge."""
    started_at, stopping = instance.witness_path.stat().st_size, threading.Event()
    work = Work(instance, name, site.address)
    feeder = threading.Thread(target=_feed, args=(work, stopping), name="feeder")
    feeder.start()
    try:
        wait_until(lambda: _stages_at_work(instance, started_at) == set(QUEUES), FLOWING_SECONDS)
        for cell in wave:
            instance.arm(cell)
        happened = wait_until(lambda: len(_fired(instance, started_at)) == len(wave), FIRED_SECONDS)
    finally:
        stopping.set()
        feeder.join()
    instance.disarm()
    _work_of_every_kind(work, AFTERWARDS)
    ticks_at = instance.witness_path.stat().st_size
    ticks = wait_until(lambda: any(facts(instance.witness_path, "ticked", after_byte=ticks_at)), QUIET_SECONDS)
    quiet = await_quiet(instance.ledger_url, QUIET_SECONDS)
    fired = _fired(instance, started_at)
    settled = [fact.event for fact in facts(instance.witness_path, "settled", after_byte=started_at)]
    verdict = judge(work, settled=settled)
    problems = [*verdict.lost, *verdict.doubled]
    if not ticks:
        problems.append("the reconciler does not tick any more")
    if not happened:
        problems += [f"{cell} did not happen" for cell in wave if str(cell) not in {one.more["cell"] for one in fired}]
    if not quiet:
        problems += [f"{one.more['cell']}: process {one.pid} still hangs" for one in fired if _hangs(one)]
        problems.append(f"work was still open {QUIET_SECONDS:g} s after the faults")
    return WaveFound(wave, frozenset(one.more["cell"] for one in fired), tuple(problems))


def _feed(work: Work, stopping: threading.Event) -> None:
    """Keep something in every stage, so that no process waits for one before it that hangs."""
    for turn in range(MOST_TURNS):
        _work_of_every_kind(work, turn)
        if stopping.wait(TURN_SECONDS):
            return


def _work_of_every_kind(work: Work, turn: int) -> None:
    work.loops(range(turn, turn + 1))
    work.questions(range(turn, turn + 1))
    work.documents(range(turn * DOCUMENTS_PER_TURN, (turn + 1) * DOCUMENTS_PER_TURN))


def _stages_at_work(instance: ChaosInstance, after_byte: int) -> set[str]:
    return {fact.role for fact in facts(instance.witness_path, "settled", after_byte=after_byte)}


def _fired(instance: ChaosInstance, after_byte: int) -> list[Fact]:
    return list(facts(instance.witness_path, "fired", after_byte=after_byte))


def _hangs(fact: Fact) -> bool:
    return fact.more["fault"] == "hang" and Path(f"/proc/{fact.pid}").exists()


def _result_of(fault: str, found: Sequence[WaveFound]) -> Result:
    planned = [cell for one in found for cell in one.wave]
    happened = sum(len(one.fired) for one in found)
    problems = [f"wave of {', '.join(map(str, one.wave))}: {problem}" for one in found for problem in one.problems]
    return Result(
        f"failpoints × {fault}",
        f"{happened} faults at {len({cell.point for cell in planned})} failpoints of "
        f"{len({cell.role for cell in planned})} kinds of process, in {len(found)} waves",
        "0 lost, 0 doubled",
        not problems and happened == len(planned),
        {"cells": len(planned), "failed waves": sum(bool(one.problems) for one in found)},
        tuple(problems),
    )
