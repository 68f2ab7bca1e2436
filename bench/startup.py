"""What an instance costs before it does anything: CPU and time until it is ready, memory at rest, time to stop.

    python -m bench.startup

An empty data directory, the embedding graph built before (the first start of all builds it once). CPU-seconds count
user and system time of every process of the instance, the embedded broker too. Memory is PSS: a page that several
processes share counts once, divided among them (proc(5), smaps_rollup). Linux only.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from sluice.ingest.embed.minilm import ensure_model
from tests.support.instance import MODELS, Instance
from tests.support.repository import IMPORT_PATH

SETTLED_SECONDS = 10.0
"""After it is ready: start-up has ended, and the memory is that of an idle instance."""
IDLE_SECONDS = 10.0
LOAD_DOCUMENTS = 60
LOAD_WORDS = 4_000
"""Of each document of the load: long enough that embedding goes on for minutes."""
COMMANDS = (("--version",), ("runs",), ("query", "anything"), ("ask", "What is a journal?"))


def measure_startup() -> dict[str, float]:
    """Every figure by its name, with its unit."""
    ensure_model(MODELS)
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        started = time.perf_counter()
        with Instance(Path(folder), **QUIET) as instance:
            figures["ready: wall (s)"] = time.perf_counter() - started
            figures["ready: CPU (s)"] = cpu_seconds(instance.process_id)
            time.sleep(SETTLED_SECONDS)
            figures["settled: CPU (s)"] = before = cpu_seconds(instance.process_id)
            time.sleep(IDLE_SECONDS)
            figures["idle: CPU (%)"] = 100 * (cpu_seconds(instance.process_id) - before) / IDLE_SECONDS
            memory = pss_megabytes(instance.process_id, instance.processes)
            figures["idle: PSS of all (MB)"] = sum(memory.values())
            figures |= {f"idle: PSS {name} (MB)": megabytes for name, megabytes in memory.items()}
            for command in COMMANDS:
                figures[f"sluice {command[0]}: CPU (s)"] = command_cpu_seconds(instance, command)
            figures["stop, idle: wall (s)"] = stop_seconds(instance)
        with Instance(Path(folder), **QUIET) as instance:
            put_under_load(instance)
            figures["stop, under load: wall (s)"] = stop_seconds(instance)
    return figures


QUIET = {"DELIVERY__LEASE_SECONDS": "15"}
"""The product's own lease, not the short one of the tests."""


def cpu_seconds(process_id: int) -> float:
    """CPU-seconds of a process and of everything below it, ended children included."""
    total = 0.0
    root = psutil.Process(process_id)
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:  # its time is in its parent's by now
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def pss_megabytes(process_id: int, names: Mapping[str, int]) -> dict[str, float]:
    """Proportional set size by process; children of a pool count with their parent."""
    by_id = {found: name for name, found in names.items()}
    memory: dict[str, float] = {}
    root = psutil.Process(process_id)
    for process in (root, *root.children(recursive=True)):
        try:
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            line = next(line for line in rollup.splitlines() if line.startswith("Pss:"))
            name = by_id.get(process.pid) or by_id.get(process.ppid(), "supervisor")
        except (OSError, StopIteration, psutil.NoSuchProcess):
            continue
        memory[name] = memory.get(name, 0.0) + int(line.split()[1]) / 1_024
    return dict(sorted(memory.items()))


def command_cpu_seconds(instance: Instance, command: tuple[str, ...]) -> float:
    """CPU-seconds of one command of the command line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "sluice.cli", *command],
        cwd=instance.folder,
        env={**instance.environment, "PYTHONPATH": IMPORT_PATH},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def put_under_load(instance: Instance) -> None:
    """Hand in more than a minute's embedding, and return once a second of it is done."""
    for number in range(LOAD_DOCUMENTS):
        text = " ".join(f"word{number}x{position} says what the journal holds." for position in range(LOAD_WORDS // 6))
        document = {"id": f"load-{number}", "text": text}
        instance.http.post("/v1/documents", json={"documents": [document]}).raise_for_status()
    time.sleep(5)


def stop_seconds(instance: Instance) -> float:
    """From SIGTERM until nothing of the instance is left."""
    started = time.perf_counter()
    os.kill(instance.process_id, signal.SIGTERM)
    waiting = threading.Event()
    while psutil.pid_exists(instance.process_id) and psutil.Process(instance.process_id).status() != "zombie":
        waiting.wait(0.02)
    return time.perf_counter() - started


def main() -> None:
    """Print the figures."""
    for name, value in measure_startup().items():
        print(f"{name:<40} {value:10,.2f}", flush=True)


if __name__ == "__main__":
    main()
