"""The peers, each as its manual shows: `python peers.py NAME URL ITEMS` prints the CPU seconds of all items.

Runs in an environment of its own that has the peers in it, and imports nothing of Sluice. An item is what a chunk
of a message is to Sluice: its id and the hash of its text. Handling is nothing at all; enqueuing, delivering and
acknowledging are what is measured, all in one process.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable

PER_BATCH = 100


def items(count: int) -> list[tuple[str, str]]:
    """Chunk ids and hashes."""
    return [(f"chk_{number:032x}", f"{number:064x}") for number in range(count)]


class Countdown:
    """Set once as many calls came as were announced."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.done = threading.Event()

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.done.set()


def dramatiq_items(url: str, count: int) -> float:
    """One actor call per item; prefetching and acknowledging are dramatiq's own."""
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    broker, handled = RedisBroker(url=url), Countdown(count)
    dramatiq.set_broker(broker)

    @dramatiq.actor
    def handle(_chunk_id: str, _sha256: str) -> None:
        handled()

    started = time.process_time()
    for chunk_id, sha256 in items(count):
        handle.send(chunk_id, sha256)
    worker = dramatiq.Worker(broker, worker_threads=1)
    worker.start()
    handled.done.wait()
    broker.join(handle.queue_name)
    spent = time.process_time() - started
    worker.stop()
    return spent


def huey_items(url: str, count: int) -> float:
    """One task per item, results off."""
    from huey import RedisHuey

    huey, handled = RedisHuey("bench", url=url, results=False), Countdown(count)

    @huey.task()  # type: ignore[untyped-decorator]
    def handle(_chunk_id: str, _sha256: str) -> None:
        handled()

    started = time.process_time()
    for chunk_id, sha256 in items(count):
        handle(chunk_id, sha256)
    consumer = huey.create_consumer(workers=1, worker_type="thread", periodic=False, check_worker_health=False)
    consumer.start()
    handled.done.wait()
    spent = time.process_time() - started
    consumer.stop()
    return spent


def taskiq_items(url: str, count: int) -> float:
    """One task per item on a Redis stream, which acknowledges."""
    return asyncio.run(_taskiq_items(url, count))


async def _taskiq_items(url: str, count: int) -> float:
    from taskiq.api import run_receiver_task
    from taskiq_redis import RedisStreamBroker

    broker, handled = RedisStreamBroker(url), Countdown(count)

    @broker.task
    async def handle(_chunk_id: str, _sha256: str) -> None:
        handled()

    await broker.startup()
    started = time.process_time()
    for chunk_id, sha256 in items(count):
        await handle.kiq(chunk_id, sha256)
    receiving = asyncio.create_task(run_receiver_task(broker))
    await asyncio.to_thread(handled.done.wait)
    spent = time.process_time() - started
    receiving.cancel()
    await broker.shutdown()
    return spent


def raw_batch(url: str, count: int) -> float:
    """Batches of a hundred on a list; each is moved to a second list while it is handled, and removed from it."""
    import redis

    client = redis.Redis.from_url(url)
    everything = items(count)
    client.ping()
    started = time.process_time()
    for start in range(0, count, PER_BATCH):
        client.lpush("batches", json.dumps(everything[start : start + PER_BATCH]))
    for _ in range(0, count, PER_BATCH):
        batch = client.blmove("batches", "taken", 5, "RIGHT", "LEFT")
        assert len(json.loads(batch)) > 0
        client.lrem("taken", 1, batch)
    return time.process_time() - started


PEERS: dict[str, Callable[[str, int], float]] = {
    "dramatiq": dramatiq_items,
    "huey": huey_items,
    "taskiq": taskiq_items,
    "raw batch": raw_batch,
}

if __name__ == "__main__":
    name, location, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    print(json.dumps(PEERS[name](location, number)))
