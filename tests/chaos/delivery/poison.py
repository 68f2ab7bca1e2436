"""A task that kills its own worker: put in quarantine after exactly three deliveries, and of little harm to the rest."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.delivery.failpoints import Cell
from tests.chaos.delivery.instance import ChaosInstance
from tests.chaos.delivery.plan import wait_until
from tests.chaos.delivery.truth import Row, count, rows
from tests.chaos.delivery.verdict import await_quiet, judge
from tests.chaos.delivery.witness import facts
from tests.chaos.delivery.work import Work
from tests.chaos.report import Result

STAGES = ("chunk", "embed", "query")
"""One of each kind of pool: a child that forks, a single process, threads."""
DELIVERIES = 3
LONGER = 1.5
QUIET_SECONDS = 300.0
_UNFINISHED = "SELECT count(*) FROM runs WHERE corpus = :corpus AND status IN ('open', 'answering')"
_POISONED = "SELECT * FROM events WHERE run_id = :run_id AND queue = :stage ORDER BY seq LIMIT 1"


def poison(folder: Path, seed: int, runs: int = 1_000, stages: Sequence[str] = STAGES) -> list[Result]:
    """Work with one poisonous event in the midst, for each kind of pool, against the same work without."""
    with ChaosInstance(folder) as instance:
        _timed(instance, f"warm-{seed}", range(50))
        undisturbed, _ = _timed(instance, f"calm-{seed}", range(runs))
        return [_poisoned(instance, seed, stage, range(runs), undisturbed) for stage in stages]


def _poisoned(instance: ChaosInstance, seed: int, stage: str, numbers: range, undisturbed_seconds: float) -> Result:
    bad = poisonous(instance, stage, f"bad-{stage}-{seed}")
    seconds, good = _timed(instance, f"with-{stage}-{seed}", numbers, bad)
    instance.disarm()
    verdict = judge(good)
    problems = [*verdict.lost, *verdict.doubled, *not_in_quarantine(bad, stage)]
    ratio = seconds / undisturbed_seconds
    return Result(
        f"poison in {stage}",
        f"one event that kills its worker among {len(numbers):,} runs",
        f"quarantine after {DELIVERIES} deliveries, the rest within {LONGER:g} × {undisturbed_seconds:.0f} s",
        not problems and ratio <= LONGER,
        {"deliveries": _event_of(bad, stage)["deliveries"], "lost": len(verdict.lost), "times as long": ratio},
        tuple(problems),
    )


def poisonous(instance: ChaosInstance, stage: str, name: str) -> Work:
    """Work whose events kill every process of a stage that handles one; to be sent yet."""
    corpus = f"poison-{stage}"
    instance.arm(Cell("handler.before", stage, "kill"), corpus=corpus, keep=True)
    return Work(instance, name, corpus=corpus)


def send_bad(bad: Work, stage: str) -> None:
    """Send one event that the stage will handle."""
    if stage == "query":
        bad.questions(range(1))
    else:
        bad.documents(range(1))


def not_in_quarantine(bad: Work, stage: str) -> list[str]:
    """What is wrong with the quarantine of the bad event."""
    event, url = _event_of(bad, stage), bad.instance.ledger_url
    reasons = [
        one["reason"] for one in rows(url, "SELECT reason FROM dead_letters WHERE event_id = :id", id=event["id"])
    ]
    started = sum(fact.event == event["id"] for fact in facts(bad.instance.witness_path, "started"))
    told = (event["status"], event["deliveries"], started, reasons)
    if told == ("dead", DELIVERIES, DELIVERIES, ["poison"]):
        return []
    return [f"{event['kind']} {event['id']}: status, deliveries, starts and dead letters are {told}"]


def _event_of(bad: Work, stage: str) -> Row:
    return rows(bad.instance.ledger_url, _POISONED, run_id=bad.sent[0].run_id, stage=stage)[0]


def _timed(instance: ChaosInstance, name: str, numbers: range, bad: Work | None = None) -> tuple[float, Work]:
    """Seconds until documents and questions are done, half of them sent before the bad one; then wait for that too."""
    work, half, started = Work(instance, name), len(numbers) // 2, time.perf_counter()
    work.mixed(numbers[:half])
    if bad is not None:
        send_bad(bad, bad.corpus.removeprefix("poison-"))
    work.mixed(numbers[half:])
    done = wait_until(lambda: count(instance.ledger_url, _UNFINISHED, corpus=work.corpus) == 0, QUIET_SECONDS)
    seconds = time.perf_counter() - started
    assert done, f"{name} did not come to an end"
    await_quiet(instance.ledger_url, QUIET_SECONDS)
    return seconds, work
