"""moto's server, a double of S3's protocol (PyPI: moto[server]), in an environment of its own.

It differs from S3: nothing is signed against a real key, times have whole seconds, listings are never late.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.support.instance import free_port

BUCKET = "shared"
KEYS = (("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_REGION", "us-east-1"))


@contextmanager
def moto_serving(bucket: str = BUCKET) -> Iterator[str]:
    """The URL of a server with an empty bucket. Skips the test where there is no such program."""
    with moto_process(bucket) as (url, _):
        yield url


@contextmanager
def moto_process(bucket: str = BUCKET) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """As `moto_serving`, with the process, which may be stopped for a while."""
    program = os.environ.get("MOTO_SERVER") or shutil.which("moto_server")
    if program is None:
        pytest.skip("no moto_server (PyPI: moto[server]); MOTO_SERVER names one")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([program, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                httpx.put(f"{url}/{bucket}").raise_for_status()
                break
            except httpx.TransportError:
                assert time.monotonic() < deadline, "moto's server does not start"
                time.sleep(0.1)
        yield url, server
    finally:
        server.terminate()
        server.wait()
