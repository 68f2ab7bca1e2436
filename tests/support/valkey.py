"""A real broker."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from workers.broker.embedded import broker_command, prepare_broker
from workers.broker.transport import BROKER_ERRORS, Transport
from workers.settings import Settings


@dataclass
class Valkey:
    """A real broker that can be killed and started again, and the settings that find it."""

    settings: Settings
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run it, and return once it answers and knows the queues."""
        prepare_broker(self.settings)
        self.process = subprocess.Popen(broker_command(self.settings), stdout=subprocess.DEVNULL)
        transport, deadline = Transport(self.settings), time.monotonic() + 20
        while True:
            try:
                transport.declare()
            except BROKER_ERRORS:
                assert time.monotonic() < deadline, "the broker does not start"
                time.sleep(0.02)
            else:
                transport.close()
                return

    def kill(self) -> None:
        """End it at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    """An instance's own broker, running."""
    broker = Valkey(Settings(data_dir=tmp_path))
    broker.start()
    yield broker
    broker.kill()
