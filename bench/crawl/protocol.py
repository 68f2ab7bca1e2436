"""How a contestant is spoken to: it says that it is ready, then reads every page once for each line that it is sent.

It runs in a process of its own, whose processor time is read from outside, with that of everything that it starts.
Only the standard library is used here: the peers' environment has nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

READY = "ready"
Read = Callable[[str], "tuple[str, str | None]"]
"""Reads a page; its Markdown and its title."""


def serve(read: Read, urls: list[str]) -> None:
    """Answer rounds until the input ends: the characters of Markdown, titles, and the Markdown itself when asked."""
    print(READY, flush=True)
    for line in sys.stdin:
        pages = [read(url) for url in urls]
        told = {"characters": sum(len(text) for text, _ in pages), "titles": sum(bool(title) for _, title in pages)}
        if line.strip() == "show":
            told["texts"] = [text for text, _ in pages]
        print(json.dumps(told), flush=True)


def cpu_seconds(pid: int) -> float:
    """Of a process and all below it, those that ended and were waited for among them (proc(5), stat 14 to 17)."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _fields(entry)):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    found = [pid]
    for one in found:  # grows while it is walked
        found.extend(children.get(one, []))
    return sum(ticks.get(one, 0) for one in found) / os.sysconf("SC_CLK_TCK")


def _fields(process: Path) -> list[str]:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
