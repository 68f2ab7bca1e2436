"""The pool of the stage graph is killed again and again, by SIGKILL, while an instance takes documents in."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from sqlalchemy import text

from sluice.workers.context import Context
from sluice.workers.settings import Settings
from tests.chaos.graph.verdict import problems
from tests.chaos.report import Result
from tests.support.graph.corpus import FILES
from tests.support.graph.grown import edited
from tests.support.instance import Instance
from tests.support.repository import MODELS

CORPUS = "docs"
KILLS, SHORT_KILLS = 50, 4
POOL = "graph-1"
PATIENCE_SECONDS = 240.0


def random_kills(folder: Path, seed: int, short: bool) -> Result:
    """Kill the pool so often at random moments of an ingest that goes on; what the graph is in the end."""
    choose, most = random.Random(seed), SHORT_KILLS if short else KILLS
    with Instance(folder / "instance", POOLS__TOGETHER="[]") as instance:
        stop = threading.Event()
        sender = threading.Thread(target=_send, args=(instance, stop, seed))
        sender.start()
        killed = sum(_kill(instance, choose) for _ in range(most))
        stop.set()
        sender.join()
        settings = Settings(data_dir=instance.data_dir, embed={"model_dir": MODELS})  # type: ignore[arg-type]
        context = Context(settings)
        wrong = _at_rest(context)
        with context.ledger.database.reading() as connection:
            died = connection.execute(
                text("SELECT count(*) FROM events WHERE queue = 'graph' AND deliveries > 1")
            ).scalar()
            events = connection.execute(text("SELECT count(*) FROM events WHERE queue = 'graph'")).scalar()
        context.close()
    if killed < most:
        wrong.append(f"only {killed} of {most} kills met a process")
    return Result(
        "kills",
        f"{killed} SIGKILLs of the pool graph while documents came",
        "the grown graph is the rebuilt one, and is published",
        not wrong,
        {"kills": killed, "graph events": events or 0, "begun more than once": died or 0},
        tuple(wrong),
    )


def _send(instance: Instance, stop: threading.Event, seed: int) -> None:
    choose = random.Random(f"send {seed}")
    round_ = 0
    while not stop.is_set():
        round_ += 1
        some = choose.sample(sorted(FILES), 3) if round_ > 1 else sorted(FILES)
        documents = [
            {"file_path": path, "text": choose.choice(edited(f"{FILES[path]}\n# round {round_}\n"))} for path in some
        ]
        body = {"corpus": CORPUS, "create_corpus": True, "documents": documents}
        response = instance.http.post("/v1/documents", json=body)
        assert response.status_code in (202, 503), response.text
        stop.wait(0.2)


def _kill(instance: Instance, choose: random.Random) -> bool:
    """Kill the pool, once it is there, at some moment; whether there was one."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        process_id = instance.processes.get(POOL)
        with suppress(ProcessLookupError):
            if process_id is not None:
                os.kill(process_id, 0)
                time.sleep(choose.uniform(0.0, 2.0))
                os.kill(process_id, signal.SIGKILL)
                return True
        time.sleep(0.05)
    return False


def _at_rest(context: Context) -> list[str]:
    """Wait until nothing is wrong; what still is. An event on which three workers died is parked, and then the watch,
    which looks once a minute, sends what it was to bring."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with context.ledger.database.reading() as connection:
            left = connection.execute(text("SELECT count(*) FROM events WHERE due_at IS NOT NULL")).scalar()
        wrong = [f"{left} events are still open"] if left else list(problems(context, CORPUS, len(FILES)))
        if not wrong or time.monotonic() > deadline:
            return wrong
        time.sleep(0.5)
