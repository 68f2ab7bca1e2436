"""Echoes and new facts, made of learnings by rule, with paraphrases and new facts that were written by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FRAMES = (
    "As noted in memory: {}",
    "Seen in iteration 3: {}",
    "Remember that {}.",
    "According to the notes, {}",
    "{} (observed 4 times; verify before relying)",
    "Observation 2: {}",
)
_CHANGES = (
    (r"\b(must|should|needs?|can)\b(?! not)", r"\1 not"),
    (r"\b(is|are|was)\b(?! not)", r"\1 not"),
    (r"\b(before)\b", "after"),
    (r"\b(fails?)\b", "passes"),
    (r"\b(Never|Do not|Don't)\b", "Always"),
    (r"\b(rejects?|strips?|drops?|ignores?)\b", "accepts"),
)
_OPPOSITES = {
    "negated": lambda text: next(
        (new for old, by in _CHANGES if (new := re.sub(old, by, text, count=1)) != text), None
    ),
    "another number": lambda text: _changed(text, r"(?<![\w.])\d+(?:\.\d+)?", lambda found: str(float(found) + 17)),
    "another file": lambda text: _changed(text, r"\b\w+\.(?:py|go|rs|tsx|yaml|json)\b", lambda found: "other_" + found),
    "another identifier": lambda text: _changed(text, r"\b\w+_\w+\b|\b[A-Z]{2,}\w+\b", lambda found: found + "X"),
}


@dataclass(frozen=True, slots=True)
class EchoCase:
    """`is_echo` is what is right; `kind` how the text was made of the learnings that `lines` print."""

    kind: str
    text: str
    lines: tuple[str, ...]
    is_echo: bool


@dataclass(frozen=True, slots=True)
class _Row:
    learning: str
    paraphrase: str
    new_fact: str


def cases(name: str) -> Iterator[EchoCase]:
    """The cases of `chosen.tsv` or `checked.tsv`. A block prints twelve learnings, ten of them are said again."""
    rows = [
        _Row(*line.split("\t"))
        for line in Path(__file__).with_name(f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    for place, row in enumerate(rows):
        block = [rows[(place + step) % len(rows)] for step in range(12)]
        lines = tuple(printed(one.learning, number) for number, one in enumerate(block, 1))
        for kind, text in _echoes(row, block[5]):
            yield EchoCase(kind, text, lines, True)
        for kind, text in _new(row, rows[place - 3]):
            yield EchoCase(kind, text, lines, False)


def printed(text: str, iteration: int) -> str:
    """A learning's line in a prompt block."""
    return f"“{text}” (seen in iteration {iteration}, source Auto; verify before relying)"


def _echoes(row: _Row, other: _Row) -> Iterator[tuple[str, str]]:
    text = row.learning
    yield "word by word", text
    yield "the printed line", printed(text, 1)
    for frame in FRAMES:
        yield "in a frame", frame.format(text[0].lower() + text[1:] if text.split()[0].isalpha() else text)
    yield "cut off", " ".join(text.split()[:-1])
    yield "two in one", f"{text}. {other.learning}"
    yield "two in one, other order", f"As noted: {other.learning}; {text}"
    yield "paraphrased", row.paraphrase


def _new(row: _Row, other: _Row) -> Iterator[tuple[str, str]]:
    yield "a new fact on it", row.new_fact
    yield "a learning that was not printed", other.learning
    yield "repeated, with a new fact", f"{row.learning}. {row.new_fact}"
    for kind, change in _OPPOSITES.items():
        changed = change(row.learning)
        if changed:
            yield kind, changed


def _changed(text: str, pattern: str, change: object) -> str | None:
    found = re.search(pattern, text)
    return text[: found.start()] + change(found[0]) + text[found.end() :] if found else None  # type: ignore[operator]
