"""A PgBouncer of this session's own, which gives each transaction another connection: the mode `transaction`."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.support.postgresql import free_port, give_away

CONNECTIONS = 4
"""Server connections for any number of clients."""
_KNOWN = ("/usr/sbin/pgbouncer", "pgbouncer")


@contextmanager
def pooler(cluster: str) -> Iterator[str]:
    """Run one in front of that cluster; yield the beginning of its URLs, to which a database's name is to be added."""
    binary = next(filter(None, map(shutil.which, _KNOWN)), None)
    if binary is None:
        pytest.skip("no pgbouncer (Debian package pgbouncer): the ledger is NOT tested through a pooler")
    folder, port, server = Path(tempfile.mkdtemp(prefix="pgbouncer-", dir="/tmp")), free_port(), urlsplit(cluster)
    (folder / "users").write_text('"sluice" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={server.hostname} port={server.port}\n[pgbouncer]\npool_mode = transaction\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n"
        f"auth_file = {folder / 'users'}\ndefault_pool_size = {CONNECTIONS}\nmax_client_conn = 200\n"
        # so that two transactions of one client hardly ever meet the same session
        "server_login_retry = 0.1\nserver_round_robin = 1\n"
    )
    as_user = give_away(folder)
    for one in folder.iterdir():
        one.chmod(0o644)
    process = subprocess.Popen(
        [*as_user, binary, "-q", str(folder / "pgbouncer.ini")], cwd=folder, stderr=subprocess.PIPE, env={**os.environ}
    )
    try:
        _await(f"postgresql://sluice@127.0.0.1:{port}/postgres", process)
        yield f"postgresql+psycopg://sluice@127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
