"""What a wake-up costs on each broker: `python -m bench.queues.wake_ups [MESSAGES]`.

Each is published (alone, or a hundred at a time), taken by Celery's consumer and acknowledged, and nothing is done with
it. CPU of the client and of the server, and wall time, for a message.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil

from sluice.contracts.event import new_event_id
from sluice.ledger.events.outbox import WakeUp
from sluice.workers.broker.celery_app import make_app
from sluice.workers.broker.transport import Transport
from sluice.workers.settings import Settings
from tests.support.rabbitmq import RabbitMq
from tests.support.valkey import Valkey

MESSAGES = 5_000
IN_HAND = 8


def measure(settings: Settings, server: psutil.Process, messages: int) -> Iterator[tuple[str, float, float, float]]:
    """Yield what is done, and for a message the microseconds of client, server and wall."""
    transport = Transport(settings)
    transport.declare()
    for batch in (1, 100):
        wake_ups = [WakeUp("crawl", new_event_id()) for _ in range(messages if batch > 1 else messages // 10)]

        def publish(wake_ups: list[WakeUp] = wake_ups, batch: int = batch) -> int:
            for start in range(0, len(wake_ups), batch):
                assert transport.publish_wake_ups(wake_ups[start : start + batch]) == batch
            return len(wake_ups)

        yield f"publish by {batch}", *_cost(publish, server)
        yield "take and acknowledge", *_cost(partial(_take, settings, len(wake_ups)), server)
    transport.close()


def _take(settings: Settings, count: int) -> int:
    app, taken = make_app(settings, worker="bench"), 0

    def on_message(message: object) -> None:
        nonlocal taken
        message.ack()  # type: ignore[attr-defined]
        taken += 1

    with app.connection_for_read() as connection, connection.channel() as channel:
        channel.basic_qos(0, IN_HAND, False)
        app.amqp.TaskConsumer(channel, [app.amqp.queues["crawl"]], on_message=on_message).consume()
        while taken < count:
            connection.drain_events(timeout=30)
    return count


def _cost(work: Callable[[], int], server: psutil.Process) -> tuple[float, float, float]:
    before, client, wall = sum(server.cpu_times()[:2]), time.process_time(), time.perf_counter()
    count = work()
    client, wall = time.process_time() - client, time.perf_counter() - wall
    spent = client, sum(server.cpu_times()[:2]) - before, wall
    return tuple(seconds / count * 1e6 for seconds in spent)  # type: ignore[return-value]


@contextmanager
def _brokers(folder: Path) -> Iterator[dict[str, tuple[Settings, psutil.Process]]]:
    valkey, rabbit = Valkey(Settings(data_dir=folder)), RabbitMq()
    try:
        valkey.start()
        rabbit.start()
        settings = valkey.settings
        both = settings.model_copy(update={"wake_up_url": rabbit.url})
        assert valkey.process is not None
        yield {"Valkey": (settings, psutil.Process(valkey.process.pid)), "RabbitMQ": (both, rabbit.process)}
    finally:
        valkey.kill()
        rabbit.remove()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, _brokers(Path(folder)) as brokers:
        print(f"{'µs for a message':<34} {'client':>8} {'server':>8} {'wall':>8}")
        for name, (settings, server) in brokers.items():
            for what, *spent in measure(settings, server, int((sys.argv[1:] or [MESSAGES])[0])):
                print(f"{name + ': ' + what:<34} " + " ".join(f"{one:8,.0f}" for one in spent), flush=True)
