"""A link that is cut loses every packet and resets nothing: what waits at its ends must stop waiting by itself."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sluice.contracts.errors import Unavailable
from sluice.ledger.database import Database
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.tables import leases
from tests.support.namespaces import LEDGER_PORT, Network, require_namespaces
from tests.support.postgresql import running_cluster
from tests.support.repository import IMPORT_PATH

LIMIT_SECONDS = 30.0
"""Of a wait for a machine that is gone."""
HOLDS = """
import sys, time
from sluice.ledger.database import Database
from sluice.ledger.schema.tables import leases
from sqlalchemy import select
with Database(sys.argv[1]).writing() as connection:
    connection.execute(select(leases).with_for_update()).all()
    print("locked", flush=True)
    time.sleep(600)
"""
ASKS = """
import sys, time
from sluice.contracts.errors import Unavailable
from sluice.ledger.ledger import Ledger
ledger = Ledger(sys.argv[1])
ledger.backlogs()
print("asked", flush=True)
sys.stdin.readline()
began = time.monotonic()
try:
    ledger.backlogs()
    print("answered", flush=True)
except Unavailable:
    print("gave up", time.monotonic() - began, flush=True)
"""


@pytest.fixture
def network() -> Iterator[Network]:
    require_namespaces()
    with Network() as running:
        yield running


@contextmanager
def ledger_of(network: Network) -> Iterator[str]:
    """The URL of a ledger on a machine of its own."""
    address = network.add("central")
    inside, trusts = network.inside("central"), f"{network.net}.0/24"
    with running_cluster(address, LEDGER_PORT, inside=inside, trusts=trusts) as url:
        found = url.replace("postgresql://", "postgresql+psycopg://")
        with Ledger(found) as ledger:
            ledger.lease("test", "me", 1.0)
        yield found


@contextmanager
def running(network: Network, name: str, program: str, url: str) -> Iterator[subprocess.Popen[str]]:
    """That Python program on a machine of its own, once it has said its first line."""
    network.add(name)
    process = subprocess.Popen(
        [*network.inside(name), sys.executable, "-c", program, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/sbin:/usr/bin:/bin", "PYTHONPATH": IMPORT_PATH},
        cwd=Path("/"),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_rows_that_a_machine_without_power_has_locked_are_free_again_soon(network: Network) -> None:
    with ledger_of(network) as url, running(network, "one", HOLDS, url) as process:
        network.cut("one")
        process.kill()
        began = time.monotonic()
        database = Database(url)
        while True:
            try:
                with database.writing() as connection:
                    connection.update(leases, {"name": "test"}, {"holder": "another"})
                break
            except Unavailable:  # a limit of its own on waiting for a lock
                assert time.monotonic() - began < LIMIT_SECONDS
        database.close()
        assert time.monotonic() - began < LIMIT_SECONDS


def test_a_query_over_a_link_that_is_cut_ends_soon_with_a_clear_error(network: Network) -> None:
    with ledger_of(network) as url, running(network, "one", ASKS, url) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        network.cut("one")
        began = time.monotonic()
        process.stdin.write("go\n")
        process.stdin.flush()
        said = process.stdout.readline()
        assert said.startswith("gave up"), said
        assert time.monotonic() - began < LIMIT_SECONDS
