"""RabbitMQ carries the wake-ups, dies, hangs and forgets: the ledger knows what is to be done, so nothing is lost."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import kombu
from amqp import NotFound

from sluice.contracts.event import QUEUES
from tests.chaos.delivery.broker_faults import feed
from tests.chaos.delivery.instance import BLAMELESS, ChaosInstance
from tests.chaos.delivery.site import Site
from tests.chaos.delivery.verdict import await_quiet, judge
from tests.chaos.delivery.work import Work
from tests.chaos.report import Result
from tests.support.rabbitmq import RabbitMq

Harm = Literal["kill", "hang", "forget", "purge", "delete", "worker"]
HARMS: Mapping[Harm, str] = {
    "kill": "SIGKILL of the server, which is started again",
    "hang": "SIGSTOP of the server for some seconds",
    "forget": "SIGKILL, and a start from nothing",
    "purge": "every queue emptied",
    "delete": "every queue and the exchange deleted",
    "worker": "SIGKILL of a worker",
}
TARGETS = ("chunk", "embed", "index", "crawl", "gate", "chunk/child")
INSTANCE = "sluice"
MEAN_PAUSE_SECONDS = 1.5
QUIET_SECONDS = 240.0


def rabbit_faults(folder: Path, seed: int, each: int = 3) -> list[Result]:
    """Each harm so many times, in a random order, while work flows."""
    dice, site, server = random.Random(seed), Site(), RabbitMq()
    plan = [harm for harm in HARMS for _ in range(each * (4 if harm in ("worker", "purge") else 1))]
    dice.shuffle(plan)
    server.start()
    try:
        with ChaosInstance(folder, {**site.settings(), **BLAMELESS, "WAKE_UP_URL": server.url}) as instance:
            work = Work(instance, f"rabbit-{seed}", site.address)
            suffer(work, server, plan, dice)
            quiet = await_quiet(instance.ledger_url, QUIET_SECONDS)
            verdict = judge(work)
    finally:
        server.remove()
        site.stop()
    done = ", ".join(f"{count} × {HARMS[harm]}" for harm, count in Counter(plan).items())
    return [
        Result(
            "RabbitMQ faults",
            f"{done} (seed {seed}), {len(work.sent):,} runs meanwhile",
            "0 lost, 0 doubled",
            quiet and verdict.is_good,
            {"lost": len(verdict.lost), "doubled": len(verdict.doubled), "events": verdict.figures["events"]},
            (*verdict.lost, *verdict.doubled),
        )
    ]


def suffer(work: Work, server: RabbitMq, plan: Sequence[Harm], dice: random.Random) -> None:
    """Send work while the harms of a plan are done, one after the other."""
    stopping = threading.Event()
    feeder = threading.Thread(target=feed, args=(work, stopping), name="feeder")
    feeder.start()
    try:
        for harm in plan:
            time.sleep(dice.expovariate(1 / MEAN_PAUSE_SECONDS))
            _do(harm, work.instance, server, dice)
            work.instance.witness.say("broker", harm=harm)
    finally:
        stopping.set()
        feeder.join()


def _do(harm: Harm, instance: ChaosInstance, server: RabbitMq, dice: random.Random) -> None:
    match harm:
        case "kill" | "forget":
            server.kill()
            if harm == "forget":
                server.forget()
            server.start()
        case "hang":
            server.hang()
            time.sleep(dice.uniform(2.0, 12.0))
            server.go_on()
        case "worker":
            instance.kill(dice.choice(TARGETS))
        case _:
            for stage in QUEUES:
                _empty(server, stage, deletes=harm == "delete")


def _empty(server: RabbitMq, stage: str, *, deletes: bool) -> None:
    """Empty or delete a stage's queue, if it is there: after the server has forgotten it, it is declared anew."""
    with kombu.Connection(server.url, transport_options={"read_timeout": 30}) as connection:
        channel = connection.default_channel
        with suppress(NotFound):
            (channel.queue_delete if deletes else channel.queue_purge)(f"{INSTANCE}.{stage}")
            if deletes:
                channel.exchange_delete(INSTANCE)
