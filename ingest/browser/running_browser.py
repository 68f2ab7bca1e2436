"""One running Chromium: launched with its sandbox proven, counted while it serves, ended without a trace."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

from playwright.async_api import Browser as PlaywrightBrowser
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright

from sluice.contracts.errors import PolicyRefused, Unavailable
from sluice.ingest.browser.launch import Guards, Launcher, find_chromium, switches, write_launcher
from sluice.ingest.browser.namespace import Isolation
from sluice.ingest.browser.processes import (
    REPORT_URL,
    SANDBOX_REMEDY,
    BrowserWatch,
    adequate,
    browser_process,
    end_processes,
    not_sandboxed,
    process_handles,
    require_sandbox,
)
from sluice.ingest.browser.relay import EgressGrant
from sluice.ingest.browser.tabs import Tabs
from sluice.ingest.settings import CrawlSettings

LAUNCH_SECONDS = 30.0
"""Longest time for Chromium to start; a cold start on a busy small machine takes a few seconds."""
CLOSE_SECONDS = 10.0
"""Longest time for Chromium to close; after that its processes are killed."""
INHERITED_VARIABLES = ("PATH", "LANG", "TZ", "TMPDIR")
"""The only environment variables the browser gets: no key of ours reaches a process that runs the code of web pages."""
NO_PROXY_LISTENS = "http://127.0.0.1:1"
"""Proxy for traffic of the browser that no page requested: nothing listens there."""
PROXY_ADDRESS, WAY_OUT_ADDRESSES = "127.0.0.1", "127.0.0.*"
"""Addresses the browser may look up: the proxy on this machine, or those of the relay in its own network."""
MAX_REPORT_BYTES = 65_536

NETWORK_REMEDY = (
    "allow unprivileged user and network namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "user.max_net_namespaces; in a container, a seccomp profile that permits unshare and mount), "
    'or set crawl.browser_network = "preferred"'
)
_RECYCLE_SECONDS = 900.0
"""Age at which a warm browser is replaced, whatever it has done."""


class WarmBrowser:
    """A Chromium and its counters. Made by `launch`, and of no use after `end`."""

    def __init__(
        self,
        engine: PlaywrightBrowser,
        binary: Path,
        folder: tempfile.TemporaryDirectory[str],
        launcher_pid: int,
        isolation: Isolation,
        egress_grant: EgressGrant | None,
        settings: CrawlSettings,
    ) -> None:
        self.engine = engine
        self.binary = binary
        self.pid = browser_process(launcher_pid)
        """The main browser process."""
        self.launcher_pid = launcher_pid
        """The process that started it, ancestor of all processes of this browser."""
        self.isolation = isolation
        self.watch = BrowserWatch(launcher_pid, settings.browser_memory_bytes)
        self.tabs = Tabs(engine, egress_grant, most=settings.browser_pages, stuck=self._retire)
        self.pages_served = 0
        self.pages_open = 0
        self.retired = False
        """Whether it serves only the pages that are already open."""
        self.ended = False
        self._folder = folder
        self._egress_grant = egress_grant
        self._started_at = time.monotonic()

    def is_spent(self, settings: CrawlSettings) -> bool:
        """Return whether the next page needs another browser: this one died, is sick or old, or served enough pages."""
        return (
            self.retired
            or not self.engine.is_connected()
            or self.pages_served >= settings.browser_recycle_pages
            or time.monotonic() - self._started_at >= _RECYCLE_SECONDS
        )

    async def responds(self) -> bool:
        """Return whether it still opens and closes a page: a page that hung may have hung the browser.

        A context alone would prove nothing about the processes that pages need.
        """
        try:
            context = await asyncio.wait_for(self.engine.new_context(), CLOSE_SECONDS)
            await asyncio.wait_for(context.new_page(), CLOSE_SECONDS)
            await asyncio.wait_for(context.close(), CLOSE_SECONDS)
        except (PlaywrightError, TimeoutError):
            return False
        return True

    async def end(self) -> None:
        """Close it, kill processes that remain, and return when none is left. May be called again."""
        if self.ended:
            return
        self.ended = True
        self.tabs.stop()
        await asyncio.to_thread(self.watch.stop)
        handles = process_handles(self.launcher_pid)
        with suppress(PlaywrightError, TimeoutError):  # it may be dead already; remaining processes are killed below
            await asyncio.wait_for(self.engine.close(), CLOSE_SECONDS)
        await asyncio.to_thread(end_processes, handles)
        if self._egress_grant is not None:
            await self._egress_grant.stop()
        self._folder.cleanup()

    def _retire(self) -> None:
        self.retired = True


async def launch(
    playwright: Playwright, settings: CrawlSettings, guards: Guards, hidden: Sequence[Path]
) -> WarmBrowser:
    """Start a Chromium whose renderers are proven to be confined, in its own network if the settings say so.

    The browser cannot see inside the folders `hidden`, where a mount namespace can be created.

    Raises:
        InvalidSetting: there is no Chromium; the error says how to get one. Unavailable: it did not start.
        PolicyRefused: rule `sandbox`: it is off; rule `network`: the settings require its own network and it has none.
    """
    binary = find_chromium(settings.chromium_path, playwright.chromium.executable_path)
    async with AsyncExitStack() as undoing:
        folder = tempfile.TemporaryDirectory(prefix="sluice-browser-", ignore_cleanup_errors=True)
        undoing.callback(folder.cleanup)
        has_network = settings.browser_network != "shared"
        launcher = write_launcher(Path(folder.name), binary, network=has_network, hidden=hidden)
        undoing.callback(_end_launched, launcher)
        try:
            with _listening(launcher.egress_grant) as door:
                report = asyncio.ensure_future(_isolation(door))
                undoing.callback(report.cancel)
                engine = await _start(playwright, launcher, settings, guards)
                isolation, listener = await report
            egress_grant = EgressGrant(listener) if listener is not None else None
            launcher_pid = int(launcher.process_id.read_text())
            warm = WarmBrowser(engine, binary, folder, launcher_pid, isolation, egress_grant, settings)
            undoing.push_async_callback(warm.end)
            if settings.browser_network == "isolated" and not isolation.network:
                reasons = "; ".join(isolation.missing)
                raise PolicyRefused("network", f"the browser has no network of its own: {reasons}", NETWORK_REMEDY)
            if egress_grant is not None:
                await egress_grant.start()
            await _prove_sandbox(warm)
        except PlaywrightError as error:
            raise _launch_failure(error, binary) from error
        undoing.pop_all()
    warm.watch.start()
    return warm


def _end_launched(launcher: Launcher) -> None:
    with suppress(FileNotFoundError, ValueError):  # it failed before writing the file
        end_processes(process_handles(int(launcher.process_id.read_text())))


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as door:
        try:
            door.bind(str(path))
        except OSError as error:  # the path is too long
            raise Unavailable(f"{path}: {error}; set TMPDIR to a short path") from error
        door.listen()
        door.setblocking(False)
        yield door


async def _isolation(door: socket.socket) -> tuple[Isolation, socket.socket | None]:
    """Return the launcher's isolation report, and the listener within the browser's network."""
    launcher, _ = await asyncio.get_running_loop().sock_accept(door)
    with launcher:
        launcher.settimeout(CLOSE_SECONDS)
        message, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, launcher, MAX_REPORT_BYTES, 1)
    isolation = Isolation.read(message)
    if not descriptors:
        return isolation, None
    listener = socket.socket(fileno=descriptors[0])
    listener.setblocking(False)
    return isolation, listener


async def _start(
    playwright: Playwright, launcher: Launcher, settings: CrawlSettings, guards: Guards
) -> PlaywrightBrowser:
    proxy = PROXY_ADDRESS if settings.browser_network == "shared" else WAY_OUT_ADDRESSES
    return await playwright.chromium.launch(
        executable_path=launcher.script,
        chromium_sandbox=True,
        headless=True,
        args=list(guards.switches(proxy=proxy, script_memory_bytes=settings.browser_memory_bytes)),
        ignore_default_args=list(switches("weakening")),
        proxy={"server": NO_PROXY_LISTENS},
        env={name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ},
        timeout=LAUNCH_SECONDS * 1_000,
    )


async def _prove_sandbox(warm: WarmBrowser) -> None:
    page = await warm.engine.new_page()
    try:
        await page.goto(REPORT_URL, timeout=LAUNCH_SECONDS * 1_000)
        if not adequate(await page.inner_text("body")):
            raise not_sandboxed(f"{REPORT_URL} does not call it adequate")
        await asyncio.to_thread(require_sandbox, warm.pid)
    finally:
        await page.close()


def _launch_failure(error: PlaywrightError, binary: Path) -> PolicyRefused | Unavailable:
    if "No usable sandbox" in error.message:
        return PolicyRefused("sandbox", f"{binary} finds no usable sandbox on this machine", SANDBOX_REMEDY)
    return Unavailable(f"{binary} did not start: {error.message.strip()[-500:]}")
