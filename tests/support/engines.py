"""The engines under an instance of the chaos suite, chosen by variables; SQLite, no store, the embedded Valkey else.

| variable | value |
|---|---|
| `SLUICE_TEST_LEDGER` | `postgresql`: a cluster of this process's own, a database for each instance |
| `SLUICE_TEST_STORE` | `file`: a folder; `s3`: moto's server, which `MOTO_SERVER` or the path names |
| `SLUICE_TEST_BROKER` | the program of a Redis or Valkey server, which `sluice up` then runs in place of the embedded one |

PostgreSQL and moto are started at the first use and end with the process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import httpx

from tests.support.instance import free_port
from tests.support.postgresql import new_database, running_cluster

LEDGER, STORE, BROKER = "SLUICE_TEST_LEDGER", "SLUICE_TEST_STORE", "SLUICE_TEST_BROKER"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
SIGNING_KEY = "5e" * 32
"""Machines that share an instance have to have the same."""
_BUCKET = "sluice"


def engine_settings(folder: Path) -> dict[str, str]:
    """The settings of an instance in that folder, `SLUICE_*` without their prefix; those of a store are the folder's."""
    settings: dict[str, str] = {}
    match os.environ.get(LEDGER, "sqlite"):
        case "postgresql":
            settings["LEDGER_URL"] = new_database(_cluster())
        case "sqlite":
            pass
        case other:
            raise ValueError(f"{LEDGER} is {other}: postgresql or sqlite")
    return settings | store_settings(os.environ.get(STORE, "none"), folder)


def store_settings(kind: str, folder: Path) -> dict[str, str]:
    """The settings of a store of that kind for an instance in that folder; none for `none`."""
    match kind:
        case "file":
            url = {"OBJECT_STORE__URL": f"file://{folder.absolute()}/store"}
        case "s3":
            prefix = f"{folder.name}-{os.urandom(4).hex()}"
            url = {"OBJECT_STORE__URL": f"s3://{_BUCKET}/{prefix}", "OBJECT_STORE__ENDPOINT": _moto()}
        case "none":
            return {}
        case other:
            raise ValueError(f"{STORE} is {other}: file, s3 or none")
    return {"SIGNING_KEY": SIGNING_KEY, **url}


def moto_server() -> str | None:
    """The program of moto's server (PyPI: moto[server]): `MOTO_SERVER`, or what the path finds."""
    return os.environ.get("MOTO_SERVER") or shutil.which("moto_server")


@cache
def _until_exit() -> ExitStack:
    stack = ExitStack()
    atexit.register(stack.close)
    return stack


@cache
def _cluster() -> str:
    return _until_exit().enter_context(running_cluster("127.0.0.1", free_port(), max_connections="300"))


@cache
def _moto() -> str:
    program = moto_server()
    if program is None:
        raise RuntimeError("no moto_server (PyPI: moto[server]); MOTO_SERVER names one")
    port = free_port()
    server = subprocess.Popen([program, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _until_exit().callback(server.kill)
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
    while True:
        try:
            httpx.put(f"{url}/{_BUCKET}", timeout=5).raise_for_status()
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return url
