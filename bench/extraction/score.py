"""How much of a gold text was found, how much else, and how much structure is left."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_WORD = re.compile(r"\w+")
_FENCE = re.compile(r"^[ \t>]*(?:[-*+] |\d+[.)] )?(`{3,}|~{3,})", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} \S", re.MULTILINE)
_TABLE = re.compile(r"^[ \t>]*\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*$", re.MULTILINE)
_ITEM = re.compile(r"^[ \t>]*(?:[-*+]|\d+[.)]) \S", re.MULTILINE)


@dataclass(frozen=True)
class Score:
    """Of one page: all in [0, 1]."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Structure:
    """How many of each a Markdown text has, or a page should have."""

    headings: int = 0
    code_blocks: int = 0
    tables: int = 0
    list_items: int = 0

    def kept_of(self, expected: Structure) -> Structure:
        """What of `expected` is there, at most all of it."""
        return Structure(
            min(self.headings, expected.headings),
            min(self.code_blocks, expected.code_blocks),
            min(self.tables, expected.tables),
            min(self.list_items, expected.list_items),
        )

    def __add__(self, other: Structure) -> Structure:
        return Structure(
            self.headings + other.headings,
            self.code_blocks + other.code_blocks,
            self.tables + other.tables,
            self.list_items + other.list_items,
        )


def score(text: str, gold: str) -> Score:
    """Words as a multiset, in lower case, as in the evaluations of CleanEval: order does not count."""
    found, wanted = Counter(_WORD.findall(text.lower())), Counter(_WORD.findall(gold.lower()))
    both = sum((found & wanted).values())
    if not both:
        equal = float(not found and not wanted)
        return Score(equal, equal, equal)
    precision, recall = both / sum(found.values()), both / sum(wanted.values())
    return Score(precision, recall, 2 * precision * recall / (precision + recall))


def structure(markdown: str) -> Structure:
    """What is in a Markdown text; nothing within code counts."""
    outside, fences = _without_code(markdown)
    return Structure(
        headings=len(_HEADING.findall(outside)),
        code_blocks=fences,
        tables=len(_TABLE.findall(outside)),
        list_items=len(_ITEM.findall(outside)),
    )


def _without_code(markdown: str) -> tuple[str, int]:
    kept: list[str] = []
    fence = ""
    blocks = 0
    for line in markdown.split("\n"):
        opening = _FENCE.match(line)
        if fence:
            if opening and opening[1].startswith(fence):
                fence = ""
        elif opening:
            fence = opening[1]
            blocks += 1
        else:
            kept.append(line)
    return "\n".join(kept), blocks
