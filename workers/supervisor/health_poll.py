"""Waits until an instance answers that it is well."""

from __future__ import annotations

import time
from http.client import HTTPConnection, HTTPException

LONGEST_SECONDS = 120.0
"""The first start of all builds the embedding graph, which takes a minute on a slow machine."""
PAUSE_SECONDS = 0.25
ANSWER_SECONDS = 10.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what a server listens on, not what we listen on


def await_health(host: str, port: int) -> None:
    """Return once `/healthz` answers 200.

    Raises:
        SystemExit: with code 1 when it did not for `LONGEST_SECONDS`.
    """
    give_up_at = time.monotonic() + LONGEST_SECONDS
    while not _is_well(_EVERYWHERE.get(host, host), port):
        if time.monotonic() > give_up_at:
            raise SystemExit(1)
        time.sleep(PAUSE_SECONDS)


def _is_well(host: str, port: int) -> bool:
    connection = HTTPConnection(host, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
