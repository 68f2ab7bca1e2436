"""The broker dies, forgets everything, and cannot be reached: the ledger knows what is to be done, so nothing is lost."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import redis

from tests.chaos.delivery.instance import ChaosInstance
from tests.chaos.delivery.plan import wait_until
from tests.chaos.delivery.site import Site
from tests.chaos.delivery.truth import count
from tests.chaos.delivery.verdict import OPEN, await_quiet, judge
from tests.chaos.delivery.work import Work
from tests.chaos.report import Result

Harm = Literal["kill", "flush", "refuse", "blackhole"]
SHORTEST_CUT_SECONDS, LONGEST_CUT_SECONDS = 1.0, 60.0
MEAN_PAUSE_SECONDS = 1.5
"""Between two faults: work has to flow, or they hit nothing."""
BACK_SECONDS = 30.0
QUIET_SECONDS = 180.0
_CUTS: tuple[Harm, Harm] = ("refuse", "blackhole")
BACKLOG, RUNS_AT_ONCE = 150, 10


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to the broker, for how long (a cut), and how long after the fault before it."""

    harm: Harm
    lasts_seconds: float
    after_seconds: float


def fault_plan(seed: int, kills: int, flushes: int, cuts: int) -> tuple[Fault, ...]:
    """The faults in a random order. Cuts are mostly short, the longest is of 60 s, and every other one is a black hole."""
    dice = random.Random(seed)
    lengths = [LONGEST_CUT_SECONDS, *(_cut_seconds(dice) for _ in range(cuts - 1))][:cuts]
    harms: list[tuple[Harm, float]] = [("kill", 0.0) for _ in range(kills)]
    harms += [("flush", 0.0) for _ in range(flushes)]
    harms += [(_CUTS[number % 2], seconds) for number, seconds in enumerate(lengths)]
    dice.shuffle(harms)
    return tuple(Fault(harm, seconds, dice.expovariate(1 / MEAN_PAUSE_SECONDS)) for harm, seconds in harms)


def broker_faults(folder: Path, seed: int, kills: int = 50, flushes: int = 20, cuts: int = 20) -> list[Result]:
    """Every fault of the plan while work flows."""
    site, plan = Site(), fault_plan(seed, kills, flushes, cuts)
    with ChaosInstance(folder, site.settings(), proxied=True) as instance:
        work = Work(instance, f"broker-{seed}", site.address)
        problems = suffer(work, plan)
        quiet = await_quiet(instance.ledger_url, QUIET_SECONDS)
        verdict = judge(work)
    site.stop()
    harms = Counter(fault.harm for fault in plan)
    cut_seconds = sum(fault.lasts_seconds for fault in plan)
    return [
        Result(
            "broker faults",
            f"{harms['kill']} kill -9, {harms['flush']} FLUSHALL, {harms['refuse'] + harms['blackhole']} cuts of "
            f"{cut_seconds:.0f} s in all (seed {seed}), {len(work.sent):,} runs meanwhile",
            "0 lost, 0 doubled",
            quiet and verdict.is_good and not problems,
            {"lost": len(verdict.lost), "doubled": len(verdict.doubled), "events": verdict.figures["events"]},
            (*verdict.lost, *verdict.doubled, *problems),
        )
    ]


def suffer(work: Work, plan: Sequence[Fault]) -> list[str]:
    """Send work while the faults of a plan happen, one after the other; which of them did not pass."""
    stopping = threading.Event()
    feeder = threading.Thread(target=feed, args=(work, stopping), name="feeder")
    feeder.start()
    try:
        return [problem for fault in plan if (problem := _harm(work.instance, fault))]
    finally:
        stopping.set()
        feeder.join()


def _cut_seconds(dice: random.Random) -> float:
    """One in six is of up to 20 s, the others of up to 5."""
    return round(dice.uniform(SHORTEST_CUT_SECONDS, 20.0 if dice.random() < 1 / 6 else 5.0), 2)


def feed(work: Work, stopping: threading.Event) -> None:
    """Send work, but no more than a backlog, until told to stop."""
    number = 0
    while not stopping.is_set():
        if count(work.instance.ledger_url, OPEN) < BACKLOG:
            work.mixed(range(number, number + RUNS_AT_ONCE))
            number += RUNS_AT_ONCE
        stopping.wait(0.2)


def _harm(instance: ChaosInstance, fault: Fault) -> str | None:
    time.sleep(fault.after_seconds)
    match fault.harm:
        case "kill":
            instance.kill("broker")
        case "flush":
            with instance.broker() as broker:
                broker.flushall()
        case _:
            assert instance.proxy is not None
            instance.proxy.cut(fault.harm)
            time.sleep(fault.lasts_seconds)
            instance.proxy.mend()
    instance.witness.say("broker", harm=fault.harm, lasts_seconds=fault.lasts_seconds)
    back = wait_until(lambda: _answers(instance), BACK_SECONDS)
    return None if back else f"the broker was not back {BACK_SECONDS:g} s after {fault.harm}"


def _answers(instance: ChaosInstance) -> bool:
    try:
        with instance.broker() as broker:
            return bool(broker.ping())
    except (redis.RedisError, OSError):
        return False
