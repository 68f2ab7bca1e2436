"""A real broker: one for each process of a test run, emptied before each test, or one of the test's own."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from sluice.workers.broker.embedded import URL_FILE, broker_command, prepare_broker
from sluice.workers.broker.transport import BROKER_ERRORS, Transport
from sluice.workers.settings import Settings


@dataclass
class Valkey:
    """A real broker that can be killed and started again, and the settings that find it."""

    settings: Settings
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run it, and return once it answers and knows the queues."""
        prepare_broker(self.settings)
        self.process = subprocess.Popen(broker_command(self.settings), stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.declare()
            except BROKER_ERRORS:
                assert time.monotonic() < deadline, "the broker does not start"
                time.sleep(0.02)
            else:
                return

    def declare(self) -> None:
        """Make the queues known."""
        transport = Transport(self.settings)
        try:
            transport.declare()
        finally:
            transport.close()

    def kill(self) -> None:
        """End it at once."""
        assert self.process is not None, "the broker of all tests: mark the test as `own_broker`"
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file with the URL of the broker that the tests of this process share."""
    broker = Valkey(Settings(data_dir=tmp_path_factory.mktemp("broker")))
    broker.start()
    yield broker.settings.data_dir / URL_FILE
    broker.kill()


@pytest.fixture
def valkey(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Valkey]:
    """An instance's broker, empty but for its queues; its data directory is the test's folder.

    It is shared with the other tests of this process, one after the other, unless the test is marked `own_broker`.
    """
    broker = Valkey(Settings(data_dir=tmp_path))
    if request.node.get_closest_marker("own_broker"):
        broker.start()
        yield broker
        broker.kill()
        return
    shutil.copy(request.getfixturevalue("shared_broker"), tmp_path / URL_FILE)
    with redis.Redis.from_url(broker.settings.broker_location) as client:
        client.flushall()
    broker.declare()
    yield broker
