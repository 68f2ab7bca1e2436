"""What callers of the HTTP interface do to another tenant's queries: `python -m tests.chaos.hostile.doors [--seconds N]`.

A tenant queries its corpus, one query after the other. Meanwhile processes besides attack the same port: without a key
by endless heads, one endless value and half-sent requests, with an agent's key by event followers. Prints the tenant's
p50 and p95 before, during and after each, the interface's memory, and what became of the attackers' connections.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import selectors
import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sluice.workers.processes.kernel import anonymous_bytes
from tests.support.instance import Instance

GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /v1/gate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
FIELDS = b"".join(b"X-%d: %b\r\n" % (number, b"v" * 200) for number in range(300))
HALF_A_BODY = POST + b"Content-Length: 1000\r\n\r\n{"
HEADS, HALVES, FOLLOWERS = 2, 400, 600
MOST_BYTES = 400_000_000
"""Sent at most by each of the endless ones, so that a server without limits lives on."""
LONGEST_MILLISECONDS = 1_000.0
"""Largest p95 of the tenant during an attack, on cores that it shares with the attackers."""


def endless(port: int, first: bytes, piece: bytes, until: float) -> Iterator[str]:
    """Send without end over `HEADS` connections in turn; a connection that was closed is opened again."""
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as client:
            client.sendall(first)
            for _ in range(MOST_BYTES // len(piece)):
                if time.monotonic() > until:
                    break
                client.sendall(piece)
            else:
                yield "taken whole"
                continue
        yield "cut"


def held(port: int, request: bytes, count: int, until: float) -> Iterator[str]:
    """Open `count` connections with this request, and keep them until the other side closes them."""
    kept = []
    with selectors.DefaultSelector() as waiting:
        for _ in range(count):
            with suppress(OSError):
                client = socket.create_connection(("127.0.0.1", port), 5)
                client.sendall(request)
                waiting.register(client, selectors.EVENT_READ)
        while waiting.get_map() and time.monotonic() < until:
            for key, _ in waiting.select(0.2):
                answer = b""
                with suppress(OSError):
                    answer = key.fileobj.recv(65_536)  # type: ignore[union-attr]
                if not answer or not answer.startswith(b"HTTP/1.1 200"):
                    yield answer[9:12].decode() or "closed"
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
                else:
                    yield "follows"
                    waiting.unregister(key.fileobj)
                    kept.append(key.fileobj)
        for _ in range(len(waiting.get_map())):
            yield "held open"
        time.sleep(max(0.0, until - time.monotonic()))


def following(events: str, key: str) -> bytes:
    """The request of a follower, who stays when the run has ended."""
    return f"GET {events}?follow=true HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\r\n".encode()


def attack(make: Callable[..., Iterator[str]], arguments: tuple[object, ...], seconds: float, found: object) -> None:
    """Attack, as a process of its own, and count what became of it."""
    counts = Counter(make(*arguments, time.monotonic() + seconds))
    found.put(counts)  # type: ignore[attr-defined]


@contextmanager
def attacked(
    make: Callable[..., Iterator[str]], arguments: tuple[object, ...], processes: int, seconds: float
) -> Iterator[Counter[str]]:
    """Attack meanwhile. The counts are there when it is over."""
    context, counts = multiprocessing.get_context("spawn"), Counter[str]()
    found = context.Queue()
    running = [context.Process(target=attack, args=(make, arguments, seconds, found)) for _ in range(processes)]
    for one in running:
        one.start()
    yield counts
    for one in running:
        counts += found.get(timeout=seconds + 60)
        one.join()


def queries(port: int, key: str, seconds: float) -> list[float]:
    """Milliseconds of each of the tenant's queries, one after the other."""
    body, taken, until = b'{"query": "how is a lease renewed", "corpus": "calm"}', [], time.monotonic() + seconds
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    while time.monotonic() < until:
        started = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with suppress(OSError, http.client.HTTPException):
            connection.request("POST", "/v1/query", body, headers)
            connection.getresponse().read()
        connection.close()
        taken.append((time.perf_counter() - started) * 1e3)
        time.sleep(0.02)
    return taken


def p95(milliseconds: list[float]) -> float:
    return statistics.quantiles(milliseconds, n=20)[-1]


def main() -> int:
    """Attack in every way; 1 if the tenant felt one of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.hostile.doors", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each attack, and of each time before and after")
    seconds = parser.parse_args().seconds
    table = Table("attack", "p50 / p95 before, ms", "during", "after", "memory of the interface, MB", "connections")
    felt = False
    with tempfile.TemporaryDirectory() as folder, Instance(Path(folder)) as instance:
        tenant, other = instance.agent_key("calm"), instance.agent_key("wild")
        told = {"Authorization": f"Bearer {tenant}"}
        documents = [{"id": f"d{n}", "text": f"A lease of kind {n} is renewed by a heartbeat."} for n in range(50)]
        body = {"corpus": "calm", "create_corpus": True, "documents": documents}
        added = instance.http.post("/v1/documents", json=body, headers=told)
        while instance.http.get(added.json()["links"]["run"], headers=told).json()["status"] != "finished":
            time.sleep(0.2)
        begun = {"query": "what is a lease", "corpus": "wild", "create_corpus": True}
        run = instance.http.post("/v1/gate", json=begun, headers={"Authorization": f"Bearer {other}"}).json()
        for name, make, arguments, processes in (
            ("endless fields", endless, (GET, FIELDS), HEADS),
            ("an endless value", endless, (GET + b"X: ", b"a" * 65_536), HEADS),
            ("half a head", held, (GET, HALVES), 1),
            ("half a body", held, (HALF_A_BODY, HALVES), 1),
            ("event followers of one key", held, (following(run["links"]["events"], other), FOLLOWERS), 1),
        ):
            interface = instance.processes["api"]
            before, memory = queries(instance.port, tenant, seconds), [anonymous_bytes(interface)]
            with attacked(make, (instance.port, *arguments), processes, seconds + 5) as counts:
                time.sleep(3)  # they have begun
                during = queries(instance.port, tenant, seconds)
                memory.append(anonymous_bytes(interface))
            after = queries(instance.port, tenant, seconds)
            felt = felt or p95(during) > LONGEST_MILLISECONDS
            times = [f"{statistics.median(part):.0f} / {p95(part):.0f}" for part in (before, during, after)]
            megabytes = " → ".join(f"{one / 1e6:.0f}" for one in memory)
            table.add_row(name, *times, megabytes, ", ".join(f"{count} {what}" for what, count in counts.items()))
    Console(width=160).print(table)
    return 1 if felt else 0


if __name__ == "__main__":
    sys.exit(main())
