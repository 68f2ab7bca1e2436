"""A crawl worker whose handler does what the page's address says: `python -m tests.integration.processes.odd_worker solo|threads|prefork`.

Everything else is the product's own: the pool, the signals, the ledger, the broker.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from sluice.contracts.event import Done, Event
from sluice.ingest.browser.browser import Browser
from sluice.workers import handlers
from sluice.workers.broker import celery_app
from sluice.workers.context import Context
from sluice.workers.settings import load_settings

browser: list[Browser] = []
BEGAN = "began-"
"""Begins the name of the file that says that an event is being handled; the process id is in it."""


def handle(event: Event, context: Context) -> Done:
    """`/sleep/2` takes two seconds, `/hang` an hour, `/browse` too, with a Chromium open, `/fill/2000` 2,000 MB; all
    else is quick.
    """
    todo = urlsplit(event.body.url).path.split("/")[1:]  # type: ignore[attr-defined]
    if todo == ["browse"]:
        browser.append(Browser(context.settings.crawl))
        browser[-1].assert_sandboxed()
    began = Path(f"{BEGAN}{event.id}")
    began.with_suffix(".partial").write_text(str(os.getpid()))
    began.with_suffix(".partial").rename(began)
    match todo:
        case ["sleep", seconds]:
            time.sleep(float(seconds))
        case ["hang" | "browse"]:
            time.sleep(3_600)
        case ["fill", megabytes]:
            held = bytearray(int(megabytes) * 1_000_000)
            del held
    return Done()


def main() -> None:
    """Run the worker, on a pool of the kind that is asked for."""
    celery_app.POOLS["crawl"] = sys.argv[1]  # type: ignore[arg-type]
    handlers.HANDLERS["CrawlDirected"] = handle
    signal.signal(signal.SIGUSR2, lambda *_: time.sleep(3_600))  # its main thread is deaf from then on
    from sluice.workers.processes.worker import run_worker

    run_worker(load_settings(), "crawl")


if __name__ == "__main__":
    main()
