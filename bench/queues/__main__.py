"""Side by side: `python -m bench.queues [CHUNKS]`. Needs the peers in an environment of their own, which it makes."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.queues.peers import PEERS
from sluice.contracts.errors import Unavailable
from sluice.workers.broker.embedded import broker_command, prepare_broker
from sluice.workers.broker.transport import BROKER_ERRORS, Transport
from sluice.workers.settings import Settings
from tests.support.repository import MODELS, REPOSITORY

CHUNKS = 10_000
ROUNDS = 3
ENVIRONMENT = REPOSITORY / ".cache" / "peers"
PACKAGES = ("dramatiq[redis]==2.2.1", "huey==3.5.4", "taskiq==0.13.0", "taskiq-redis==1.2.4", "redis==8.1.0")


def measure_queues(chunks: int = CHUNKS) -> dict[str, float]:
    """Microseconds of CPU per chunk of each, the median of `ROUNDS` rounds in turn, and ours in relation to it."""
    python = _peers()
    found: dict[str, list[float]] = {name: [] for name in ("sluice", *PEERS)}
    for _ in range(ROUNDS):
        for name in found:
            found[name].append(_ours(chunks) if name == "sluice" else _theirs(python, name, chunks))
    costs = {name: statistics.median(seconds) / chunks * 1e6 for name, seconds in found.items()}
    ratios = {f"{name} : sluice": cost / costs["sluice"] for name, cost in costs.items() if name != "sluice"}
    return {f"{name}, µs CPU per chunk": cost for name, cost in costs.items()} | ratios


def _ours(chunks: int) -> float:
    with _broker() as settings:
        command = [sys.executable, "-m", "bench.queues.ours", str(settings.data_dir), str(MODELS), str(chunks)]
        return _seconds(command)


def _theirs(python: Path, name: str, chunks: int) -> float:
    with _broker() as settings:
        script = REPOSITORY / "bench" / "queues" / "peers.py"
        return _seconds([str(python), str(script), name, settings.broker_location, str(chunks)])


def _seconds(command: Sequence[str]) -> float:
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{ended.stderr[-2_000:]}")
    return float(json.loads(ended.stdout.splitlines()[-1]))


@contextmanager
def _broker() -> Iterator[Settings]:
    """A broker of this round's own, with the queues of an instance."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder))
        prepare_broker(settings)
        process = subprocess.Popen(broker_command(settings), stdout=subprocess.DEVNULL)
        try:
            _await(settings)
            yield settings
        finally:
            process.kill()
            process.wait()


def _await(settings: Settings) -> None:
    transport, deadline = Transport(settings), time.monotonic() + 20
    while True:
        try:
            transport.declare()
        except (Unavailable, *BROKER_ERRORS):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            transport.close()
            return


def _peers() -> Path:
    """The interpreter that has the peers, installed at first."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / "installed"
    if not stamp.exists() or stamp.read_text() != " ".join(PACKAGES):
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", "--clear", str(ENVIRONMENT)], check=True)
        subprocess.run([*uv, "pip", "install", "--quiet", "--python", str(python), *PACKAGES], check=True)
        stamp.write_text(" ".join(PACKAGES))
    return python


if __name__ == "__main__":
    for measured, value in measure_queues(*(int(number) for number in sys.argv[1:])).items():
        print(f"{measured:<40} {value:12,.2f}")
