"""What people who watch the console cost: `python -m bench.console_streams [MINUTES [VIEWERS]]`.

A real instance on loopback answers a question every five seconds, while first nobody, then one, then all viewers keep
the overview's stream open. Each minute is a line: messages that a viewer got, resident memory and CPU of the process of
the API, its queries of the ledger a second, and how often it read the overview. Flat columns are the claim.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.support.instance import Instance

MINUTES, VIEWERS = 60, 100
ASK_EVERY_SECONDS = 5.0
SETTLED_SECONDS = 30.0
COUNTER = """
import collections, json, os, time
from sqlalchemy import Engine, event
seen, told = collections.Counter(), [0.0]
def heard(statement):
    seen["queries"] += statement.startswith("SELECT")
    seen["looks"] += "FROM stage_minutes" in statement
    if time.monotonic() - told[0] > 0.2:
        told[0] = time.monotonic()
        place = f"{os.path.dirname(__file__)}/{os.getpid()}.json"
        with open(place + ".new", "w") as file:
            json.dump(seen, file)
        os.replace(place + ".new", place)
@event.listens_for(Engine, "connect")
def made(connection, _):
    connection.set_trace_callback(heard)
"""
"""Imported at Python's start, as `sitecustomize`: counts what is asked of the ledger, and the reads of the overview
among it, which alone asks for the stages' minutes."""


class Viewers:
    """Streams that stay open, and one who asks."""

    def __init__(self, address: str) -> None:
        limits = httpx.Limits(max_connections=None)
        self._http = httpx.AsyncClient(base_url=address, timeout=httpx.Timeout(60.0), limits=limits)
        self._open = [asyncio.create_task(self._ask())]
        self.messages = self.bytes = self.dropped = 0

    def be(self, wanted: int) -> None:
        """Have so many in all."""
        self._open += [asyncio.create_task(self._watch()) for _ in range(wanted + 1 - len(self._open))]

    async def _watch(self) -> None:
        while True:
            try:
                async with self._http.stream("GET", "/console/stream?page=overview") as answer:
                    answer.raise_for_status()
                    async for line in answer.aiter_lines():
                        self.messages += line.startswith("id:")
                        self.bytes += len(line)
            except httpx.HTTPError:
                self.dropped += 1
            await asyncio.sleep(1.0)

    async def _ask(self) -> None:
        for number in range(1_000_000):
            asked = {"query": f"what is box {number}?", "create_corpus": True}
            await self._http.post("/v1/gate", json=asked)
            await asyncio.sleep(ASK_EVERY_SECONDS)


def counted(folder: Path, process_id: int) -> Any:
    """What the process counted so far."""
    return json.loads((folder / f"{process_id}.json").read_text())


async def measure(minutes: int = MINUTES, viewers: int = VIEWERS) -> None:
    """Print a line a minute: one without viewers, one with a single viewer, the rest with all."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(COUNTER)
        instance = Instance(folder / "instance")
        instance.environment["PYTHONPATH"] = f"{folder}:{instance.environment['PYTHONPATH']}"
        with instance:
            process, watching = psutil.Process(instance.processes["api"]), Viewers(instance.url)
            await asyncio.sleep(SETTLED_SECONDS)
            print("minute viewers messages/viewer KB/message RSS_MB CPU_%    queries/s looks/s dropped", flush=True)
            memory: list[float] = []
            for minute in range(minutes):
                here = (0, 1)[minute] if minute < 2 else viewers
                watching.be(here)
                before, began = counted(folder, process.pid), time.monotonic()
                messages, sent, cpu = watching.messages, watching.bytes, sum(process.cpu_times()[:2])
                await asyncio.sleep(60.0)
                took, now = time.monotonic() - began, counted(folder, process.pid)
                memory.append(process.memory_info().rss / 1e6)
                got, kilobytes = watching.messages - messages, (watching.bytes - sent) / 1e3
                rates = [(now[one] - before[one]) / took for one in ("queries", "looks")]
                used = (sum(process.cpu_times()[:2]) - cpu) / took * 100
                print(
                    f"{minute:6} {here:7} {got / max(1, here):15.1f} {kilobytes / max(1, got):10.1f}"
                    f" {memory[-1]:6.1f} {used:5.1f} {rates[0]:12.1f} {rates[1]:7.2f} {watching.dropped:7}",
                    flush=True,
                )
            if len(quiet := memory[2:]) > 9:
                early, late = statistics.median(quiet[:10]), statistics.median(quiet[-10:])
                print(f"RSS, median of the first and the last ten minutes of all: {early:.1f} and {late:.1f} MB")


if __name__ == "__main__":
    asyncio.run(measure(*(int(number) for number in sys.argv[1:])))
