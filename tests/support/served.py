"""The HTTP interface of an instance on a port of this machine, in a thread of this process: what commands speak to."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import structlog
import uvicorn

from sluice.api.app import SERVED_BY, make_api
from sluice.api.connections import Server
from sluice.ledger.ledger import Ledger
from sluice.workers.settings import Settings
from tests.support.instance import free_port

START_SECONDS = 30.0
Serve = Callable[..., AbstractContextManager[tuple[str, Ledger]]]
"""Serves the interface, its settings changed; yields its address and the ledger."""


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """Where it answers. It stands in the data directory as well, so that commands find it.

    The interface sets up a logging of its own, which is undone.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    port = free_port()
    api = make_api(settings.model_copy(update={"http_port": port}))
    server = Server(api, uvicorn.Config(api, host="127.0.0.1", port=port, **SERVED_BY))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        assert thread.is_alive(), "the interface did not start"
        assert time.monotonic() < deadline, "the interface takes too long to start"
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(False)
        structlog.reset_defaults()
