"""Garbage in the queues: whatever lies there, no worker ends, all work is done, and every item is kept as a dead letter."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sluice.contracts.event import QUEUES, new_event_id
from sluice.workers.broker.keys import EXCHANGE, HANDLE_TASK, Keys
from tests.chaos.delivery.instance import ChaosInstance
from tests.chaos.delivery.plan import PROCESSES, wait_until
from tests.chaos.delivery.site import Site
from tests.chaos.delivery.truth import Row, count, rows
from tests.chaos.delivery.verdict import await_quiet, judge
from tests.chaos.delivery.work import Work
from tests.chaos.report import Result

KEYS = Keys("sluice")

RAW_LETTERS = "SELECT * FROM dead_letters WHERE event_id IS NULL"
PARKED_SECONDS = 120.0
QUIET_SECONDS = 120.0
AT_A_TIME = 25
"""Items that are pushed between two pieces of work."""
DEEP = 20_000
LARGE_BYTES = 2_000_000
_REQUIRED = (
    "id",
    "stage",
    "reason",
    "exception_type",
    "message",
    "stack",
    "fingerprint",
    "sha256",
    "code_version",
    "worker",
)
"""The fields that say something of an item that is no event; those of the event it never was stay empty."""

Make = Callable[[random.Random, str], bytes]


def wake_up(stage: str, **changes: Any) -> dict[str, Any]:
    """A wake-up as the product sends it, with some of its parts changed."""
    body = [[new_event_id()], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    whole = {
        "body": base64.b64encode(json.dumps(body).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": HANDLE_TASK, "id": new_event_id(), "ignore_result": True},
        "properties": {
            "delivery_mode": 2,
            "delivery_info": {"exchange": EXCHANGE, "routing_key": f"{stage}.permit"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": new_event_id(),
        },
    }
    return whole | changes


def _sent(value: object) -> bytes:
    return json.dumps(value).encode()


def _with_body(stage: str, body: object) -> bytes:
    return _sent(wake_up(stage, body=base64.b64encode(_sent(body)).decode()))


GARBAGE: dict[str, Make] = {
    "random bytes": lambda dice, _: dice.randbytes(dice.randint(1, 400)),
    "bytes that are no UTF-8": lambda dice, _: b'{"body": "\xff\xfe' + dice.randbytes(8) + b'"}',
    "nothing": lambda dice, _: b"",
    "blanks": lambda dice, _: b" \n\t" * dice.randint(1, 9),
    "NUL": lambda dice, _: b"\x00" * dice.randint(1, 9),
    "null": lambda dice, _: b"null",
    "a number": lambda dice, _: str(dice.random()).encode(),
    "NaN": lambda dice, _: b'{"headers": NaN, "properties": Infinity}',
    "a list": lambda dice, _: _sent([dice.random()]),
    "text": lambda dice, _: _sent(f"hello {dice.random()}"),
    "an empty object": lambda dice, _: b"{}",
    "half an object": lambda dice, stage: _sent(wake_up(stage))[: dice.randint(2, 200)],
    "two objects": lambda dice, stage: _sent(wake_up(stage)) * 2,
    "deep lists": lambda dice, _: b"[" * (DEEP + dice.randint(0, 99)),
    "deep objects": lambda dice, _: b'{"a":' * (DEEP + dice.randint(0, 99)),
    "a large text": lambda dice, stage: _sent(wake_up(stage, body="A" * (LARGE_BYTES + dice.randint(0, 99)))),
    "half a surrogate pair": lambda dice, stage: (
        b'{"body": "\\ud800", "headers": {"task": "\\udfff"}, "n": %d}' % dice.randint(0, 10**6)
    ),
    "no headers": lambda dice, stage: _sent({k: v for k, v in wake_up(stage).items() if k != "headers"}),
    "no properties": lambda dice, stage: _sent({k: v for k, v in wake_up(stage).items() if k != "properties"}),
    "no body": lambda dice, stage: _sent({k: v for k, v in wake_up(stage).items() if k != "body"}),
    "headers of another kind": lambda dice, stage: _sent(wake_up(stage, headers=[dice.random()])),
    "a body that is no base64": lambda dice, stage: _sent(wake_up(stage, body=f"*{dice.random()}*")),
    "a body that is no JSON": lambda dice, stage: _sent(
        wake_up(stage, body=base64.b64encode(dice.randbytes(20)).decode())
    ),
    "no argument": lambda dice, stage: _with_body(stage, [[], {}, {}]),
    "two arguments": lambda dice, stage: _with_body(stage, [[new_event_id(), dice.random()], {}, {}]),
    "a number as event id": lambda dice, stage: _with_body(stage, [[dice.random()], {}, {}]),
    "an event id of another shape": lambda dice, stage: _with_body(stage, [[f"evt_{dice.random()}"], {}, {}]),
    "a named argument": lambda dice, stage: _with_body(stage, [[new_event_id()], {"shell": "true"}, {}]),
    "another task": lambda dice, stage: _sent(wake_up(stage, headers={"task": f"celery.{dice.random()}", "id": "x"})),
    "another queue": lambda dice, stage: _sent(wake_up(stage)).replace(f"{stage}.permit".encode(), b"elsewhere.permit"),
    "a pickle": lambda dice, stage: b"\x80\x04\x95" + dice.randbytes(30) + b".",
}
"""Kinds of items that are no wake-up."""


def garbage(seed: int, count: int) -> list[tuple[str, bytes]]:
    """So many items, each with the stage in whose queue it is to lie; every kind as often as any other."""
    dice = random.Random(seed)
    kinds = list(GARBAGE.values())
    chosen = [(dice.choice(QUEUES), kinds[number % len(kinds)]) for number in range(count)]
    return [(stage, make(dice, stage)) for stage, make in chosen]


def malformed_items(folder: Path, seed: int, items: int = 1_000) -> list[Result]:
    """Garbage between good work, in every queue."""
    site, pushed = Site(), garbage(seed, items)
    with ChaosInstance(folder, site.settings()) as instance:
        before = processes(instance)
        work = Work(instance, f"garbage-{seed}", site.address)
        for number, start in enumerate(range(0, items, AT_A_TIME)):
            push(instance, pushed[start : start + AT_A_TIME])
            work.mixed(range(10 * number, 10 * number + 10))
        problems = unlike(instance, pushed)
        quiet = await_quiet(instance.ledger_url, QUIET_SECONDS)
        verdict = judge(work)
        letters = count(instance.ledger_url, f"SELECT count(*) FROM ({RAW_LETTERS}) AS letters")
        ended = [name for name, pid in processes(instance).items() if pid != before[name]]
    site.stop()
    problems += [*verdict.lost, *verdict.doubled, *(f"{name} ended" for name in ended)]
    return [
        Result(
            "malformed items",
            f"{items:,} items of {len(GARBAGE)} kinds (seed {seed}) in the queues of {len(work.sent)} good runs",
            "0 exits, each item a whole dead letter, 0 lost",
            quiet and not problems,
            {"exits": len(ended), "dead letters": letters, "lost": len(verdict.lost)},
            tuple(problems),
        )
    ]


def push(instance: ChaosInstance, items: Sequence[tuple[str, bytes]]) -> None:
    """Lay the items into their queues."""
    with instance.broker() as broker:
        for stage, item in items:
            broker.lpush(KEYS.queue(stage), item)


def processes(instance: ChaosInstance) -> dict[str, int | None]:
    """Every process by its name, the child of the forking pool too."""
    return {name: instance.process_id(name) for name in PROCESSES}


def unlike(instance: ChaosInstance, pushed: Sequence[tuple[str, bytes]]) -> list[str]:
    """What the dead letters, once they are there, lack of what was pushed, have too many of, or leave empty."""
    kept = f"SELECT count(*) FROM ({RAW_LETTERS}) AS letters"
    wait_until(lambda: count(instance.ledger_url, kept) >= len(pushed), PARKED_SECONDS)
    letters = rows(instance.ledger_url, RAW_LETTERS)
    wanted = Counter((stage, hashlib.sha256(item).hexdigest()) for stage, item in pushed)
    found = Counter((letter["stage"], letter["sha256"]) for letter in letters)
    bytes_of = {hashlib.sha256(item).hexdigest(): item for _, item in pushed}
    problems = [f"no dead letter for {bytes_of[sha][:60]!r} of {stage}" for stage, sha in (wanted - found).elements()]
    problems += [f"a dead letter too many in {stage}: {sha}" for stage, sha in (found - wanted).elements()]
    return problems + [f"dead letter {letter['id']} lacks {name}" for letter in letters for name in _lacking(letter)]


def _lacking(letter: Row) -> list[str]:
    lacking = [name for name in _REQUIRED if not letter[name]]
    if letter["reason"] not in ("malformed", "unroutable"):
        lacking.append(f"a reason of its own: {letter['reason']}")
    if hashlib.sha256(letter["payload"]).hexdigest() != letter["sha256"]:
        lacking.append("its payload")
    if not 0 < letter["first_seen"] <= letter["last_seen"]:
        lacking.append("its moments")
    return lacking
