"""Pages whose gold says which phrases belong to the text and which do not, as trafilatura's own evaluation has them.

A folder of them holds `gold.jsonl` (file name, `with`, `without`) and the pages in `html/`. The pages are parted in two
halves by the hash of their names: what is chosen on one is reported on the other.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.extraction.pages import Page

_MARKS = re.compile(r"[*`\\]")
"""Marks of Markdown, which part the words of a phrase."""


@dataclass(frozen=True)
class Phrases:
    """Of one page: phrases of its text, and phrases that stand around it."""

    wanted: Sequence[str]
    unwanted: Sequence[str]
    is_second_half: bool


@dataclass(frozen=True)
class Found:
    """How many phrases of each kind a text holds."""

    right: int = 0
    missed: int = 0
    wrong: int = 0

    def __add__(self, other: Found) -> Found:
        return Found(self.right + other.right, self.missed + other.missed, self.wrong + other.wrong)

    def f1(self) -> float:
        """The harmonic mean of precision and recall over all phrases."""
        return 2 * self.right / max(1, 2 * self.right + self.missed + self.wrong)


def phrase_pages(folder: Path) -> tuple[list[Page], list[Phrases]]:
    """The pages of `folder` and their phrases; none where it holds no `gold.jsonl`."""
    gold = folder / "gold.jsonl"
    rows = [json.loads(line) for line in gold.read_text().splitlines()] if gold.is_file() else []
    pages = [Page(row["_id"], "phrases", _read(folder / "html" / row["_id"]), "") for row in rows]
    return pages, [Phrases(row["with"], row["without"], _second_half(row["_id"])) for row in rows]


def print_halves(names: Iterable[str], texts: Iterable[Sequence[str]], phrases: Sequence[Phrases]) -> None:
    """A line for each contestant: F1 on the half to choose on, on the half to report, and on both."""
    print(f"F1 by phrases, {len(phrases)} pages{'first half':>19}{'second half':>13}{'both':>8}")
    for name, extracted in zip(names, texts, strict=True):
        halves = [Found(), Found()]
        for text, page in zip(extracted, phrases, strict=True):
            halves[page.is_second_half] += _found(text, page)
        print(f"  {name:<34}{halves[0].f1():11.4f}{halves[1].f1():13.4f}{(halves[0] + halves[1]).f1():8.4f}")


def _found(text: str, page: Phrases) -> Found:
    flat = _flat(text)
    right = sum(_flat(phrase) in flat for phrase in page.wanted)
    return Found(right, len(page.wanted) - right, sum(_flat(phrase) in flat for phrase in page.unwanted))


def _flat(text: str) -> str:
    return " ".join(_MARKS.sub("", text).split())


def _second_half(name: str) -> bool:
    return bool(hashlib.sha256(name.encode()).digest()[0] & 1)


def _read(page: Path) -> str:
    body = page.read_bytes()
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode("latin-1")
