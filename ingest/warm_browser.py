"""One running Chromium: launched with its sandbox proven, counted while it serves, ended without a trace."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from playwright.async_api import Browser as PlaywrightBrowser
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright

from contracts.errors import PolicyRefused, Unavailable
from ingest.chromium import (
    CHROMIUM_FLAGS,
    SANDBOX_REMEDY,
    WEAKENING_DEFAULTS,
    end_processes,
    find_chromium,
    process_handles,
    require_sandbox,
    write_launcher,
)
from ingest.settings import CrawlSettings

LAUNCH_SECONDS = 30.0
"""How long Chromium may take to come up; a cold start on a busy small machine takes a few seconds."""
CLOSE_SECONDS = 10.0
"""How long Chromium may take to go; after that its processes are killed."""
INHERITED_VARIABLES = ("PATH", "LANG", "TZ", "TMPDIR")
"""All that the browser learns of our environment: no key of ours reaches a process that runs strangers' code."""
NO_PROXY_LISTENS = "http://127.0.0.1:1"
"""Where the browser itself sends what no page asked for: nowhere."""


class WarmBrowser:
    """A Chromium and what it has done. Made by `launch`, and of no use after `end`."""

    def __init__(
        self, engine: PlaywrightBrowser, binary: Path, folder: tempfile.TemporaryDirectory[str], pid: int
    ) -> None:
        self.engine = engine
        self.binary = binary
        self.pid = pid
        self.pages_served = 0
        self.pages_open = 0
        self.retired = False
        """Serves the pages it has open, and no more."""
        self.ended = False
        self._folder = folder
        self._started_at = time.monotonic()

    def is_spent(self, settings: CrawlSettings) -> bool:
        """Whether the next page should find another browser: this one died, is sick, old, or has done enough."""
        return (
            self.retired
            or not self.engine.is_connected()
            or self.pages_served >= settings.browser_recycle_pages
            or time.monotonic() - self._started_at >= settings.browser_recycle_seconds
        )

    async def responds(self) -> bool:
        """Whether it still opens and closes a context: a page that hung must not have hung the browser."""
        try:
            context = await asyncio.wait_for(self.engine.new_context(), CLOSE_SECONDS)
            await asyncio.wait_for(context.close(), CLOSE_SECONDS)
        except (PlaywrightError, TimeoutError):
            return False
        return True

    async def end(self) -> None:
        """Close it, kill what does not go, and return when no process of it is left. May be called again."""
        if self.ended:
            return
        self.ended = True
        handles = process_handles(self.pid)
        with suppress(PlaywrightError, TimeoutError):  # it may be dead already; what is left is killed below
            await asyncio.wait_for(self.engine.close(), CLOSE_SECONDS)
        await asyncio.to_thread(end_processes, handles)
        self._folder.cleanup()


async def launch(playwright: Playwright, settings: CrawlSettings) -> WarmBrowser:
    """A new Chromium whose renderers are proven to be confined.

    Raises:
        InvalidSetting: there is no Chromium; says how to get one.
        PolicyRefused: rule `sandbox`: it is not on.
        Unavailable: it did not start.
    """
    binary = find_chromium(settings.chromium_path, playwright.chromium.executable_path)
    folder = tempfile.TemporaryDirectory(prefix="sluice-browser-", ignore_cleanup_errors=True)
    launcher, process_id = write_launcher(Path(folder.name), binary)
    try:
        engine = await _start(playwright, launcher)
    except PlaywrightError as error:
        folder.cleanup()
        raise _launch_failure(error, binary) from error
    warm = WarmBrowser(engine, binary, folder, int(process_id.read_text()))
    try:
        await _prove_sandbox(warm)
    except BaseException:
        await warm.end()
        raise
    return warm


async def _start(playwright: Playwright, launcher: Path) -> PlaywrightBrowser:
    return await playwright.chromium.launch(
        executable_path=launcher,
        chromium_sandbox=True,
        headless=True,
        args=list(CHROMIUM_FLAGS),
        ignore_default_args=list(WEAKENING_DEFAULTS),
        proxy={"server": NO_PROXY_LISTENS},
        env={name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ},
        timeout=LAUNCH_SECONDS * 1_000,
    )


async def _prove_sandbox(warm: WarmBrowser) -> None:
    page = await warm.engine.new_page()
    require_sandbox(warm.pid)
    await page.close()


def _launch_failure(error: PlaywrightError, binary: Path) -> PolicyRefused | Unavailable:
    if "No usable sandbox" in error.message:
        return PolicyRefused("sandbox", f"{binary} finds no usable sandbox on this machine", SANDBOX_REMEDY)
    return Unavailable(f"{binary} did not start: {error.message.strip()[-500:]}")
