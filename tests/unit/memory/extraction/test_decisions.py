"""Decisions in an agent's own words: right rather than many."""

from __future__ import annotations

import time

import pytest

from sluice.memory.extraction.decisions import decisions

TOLD = {
    "I'll use Decimal because floats drift.": ("I'll use Decimal", "floats drift"),
    "I decided to keep the old API since clients depend on it.": (
        "I decided to keep the old API",
        "clients depend on it",
    ),
    "We chose SQLite over Postgres because of its single file.": ("We chose SQLite over Postgres", "its single file"),
    "I went with a dataclass.": ("I went with a dataclass", None),
    "Decision: store dates in UTC. Rationale: comparisons stay simple.": (
        "store dates in UTC",
        "comparisons stay simple",
    ),
    "**Decision:** Use httpx because requests has no async client.": ("Use httpx", "requests has no async client"),
    "- Decision: pin numpy\n  Reason: 2.0 breaks the ABI": ("pin numpy", "2.0 breaks the ABI"),
    "Let's use `pathlib` rather than `os.path`.": ("Let's use `pathlib` rather than `os.path`", None),
    "Instead of patching the parser, I'll wrap the lexer.": (
        "Instead of patching the parser, I'll wrap the lexer",
        None,
    ),
    "I won’t use eval because it is unsafe.": ("I won't use eval", "it is unsafe"),
    "Tests pass.\n- Chose TaskGroup over gather since errors cancel siblings.": (
        "Chose TaskGroup over gather",
        "errors cancel siblings",
    ),
}
NONE = [
    "Should I use X instead of Y because it's better?",
    "You could use a cache because it is slow.",
    "If we use threads instead of processes because of the GIL, it fails.",
    "I'll look at the file because I need to see it.",
    "The function returns None because the list is empty.",
    "The test uses a fake instead of a mock.",
    "Let's remove the reproduce.py file since it is no longer needed.",
    "```\nI decided to use X because Y.\n```",
    "    I decided to use X because Y.",
    "> I decided to use X because Y.",
    "You decided to use tabs because of the linter.",
    "The user asked me to fix it.",
    "I used grep. It printed `error: x instead of y`.",
    "",
]


@pytest.mark.parametrize(("text", "expected"), TOLD.items())
def test_a_decision_is_found_with_its_rationale(text: str, expected: tuple[str, str | None]) -> None:
    assert [(one.description, one.rationale) for one in decisions([text])] == [expected]


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_decision_gives_none(text: str) -> None:
    assert decisions([text]) == []


def test_a_decision_that_is_told_twice_is_one() -> None:
    assert len(decisions(["I'll use A because it is B. More.", "i'll use a because of C."])) == 1


@pytest.mark.parametrize(
    "piece", ["Decision: ", "instead of ", "because ", "- ", "```", "I'll use ", "\n", " ", "**", ". A"]
)
def test_hostile_texts_take_time_in_proportion_to_their_length(piece: str) -> None:
    begun = time.thread_time()
    decisions([piece * 20_000])
    assert time.thread_time() - begun < 10
