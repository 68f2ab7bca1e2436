"""Whatever process of a browser dies under its pages, none is left behind and every page ends by name."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from sluice.contracts.errors import SluiceError
from sluice.contracts.ingest import CrawlDirected
from sluice.workers.processes.kernel import adopt_orphans
from tests.chaos.hostile.processes import await_gone, below, command
from tests.chaos.hostile.server import html
from tests.chaos.hostile.world import World
from tests.chaos.report import Result

PAGES = 500
SHORT_PAGES = 20
AT_ONCE = 2
PAUSES_SECONDS = (0.05, 1.0)
"""After a page was read: each process that is killed had work, on a slow machine as well."""
LONGEST_PAUSE_SECONDS = 60.0
GONE_SECONDS = 15.0
TRIES_AFTERWARDS = 2
"""The last kill may lie under the first page behind it, whose network then hangs until its time is up."""
_BODY = "<title>A page</title><main><h1>A page</h1><p>Words that a script wrote.</p></main>" * 20


def killed_browsers(world: World, *, short: bool) -> list[Result]:
    """Pages, while random processes of the browser and its driver are killed; then nothing of them is left."""
    adopt_orphans()
    world.site.pages["/page"] = html(_BODY)
    pages, known = SHORT_PAGES if short else PAGES, {one.pid for one in below()}
    endings: Counter[str] = Counter()
    with world.context(crawl={"browser_pages": AT_ONCE, "browser_recycle_pages": 50}) as context:
        killer = _Killer(known, random.Random(1))

        def crawl(number: int) -> str:
            try:
                context.crawler.crawl(CrawlDirected(url=f"http://kills{number}.org/page", render="always"))
            except SluiceError as error:
                return f"{error.code} {getattr(error, 'rule', '')}".strip()
            killer.may_go_on.set()
            return "a page"

        with killer, ThreadPoolExecutor(AT_ONCE) as threads:
            endings.update(threads.map(crawl, range(pages)))
        afterwards = [crawl(pages + number) for number in range(TRIES_AFTERWARDS)]
    left = await_gone(known, GONE_SECONDS)
    problems = [f"left behind: {one.pid} {command(one.pid)[:120]}" for one in left]
    problems += ["nothing was killed"] * (not killer.killed)
    problems += [f"the pages after the kills: {afterwards}"] * (afterwards[-1] != "a page")
    problems += ["no page was read"] * (not endings["a page"])
    figures = {"killed": sum(killer.killed.values()), **killer.killed, "endings": dict(endings), "left": len(left)}
    return [Result("killed browsers", f"{pages} pages", "0 processes left", not problems, figures, tuple(problems))]


class _Killer:
    """Kills a process that is not `known`, now and then. `killed` counts them by kind."""

    def __init__(self, known: set[int], chance: random.Random) -> None:
        self.killed: Counter[str] = Counter()
        self._known = known
        self._chance = chance
        self.may_go_on = threading.Event()
        """Set after a page that was read."""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._kill, name="killer", daemon=True)

    def __enter__(self) -> _Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self.may_go_on.set()
        self._thread.join()

    def _kill(self) -> None:
        while not self._ends.is_set():
            self.may_go_on.wait(LONGEST_PAUSE_SECONDS)
            self.may_go_on.clear()
            if self._ends.wait(self._chance.uniform(*PAUSES_SECONDS)):
                return
            by_kind: dict[str, list[int]] = {}
            for one in below():
                if one.pid not in self._known:
                    by_kind.setdefault(_kind(command(one.pid)), []).append(one.pid)
            if by_kind:
                kind = self._chance.choice(sorted(by_kind))
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(self._chance.choice(by_kind[kind]), signal.SIGKILL)
                    self.killed[kind] += 1


def _kind(line: str) -> str:
    _, is_child, rest = line.partition("--type=")
    if is_child:
        return rest.split()[0]
    return "driver" if "playwright" in line else "other"
