"""Decides an iteration's outcome by the rules of `outcomes.toml`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from sluice.contracts.memory.model import IterationOutcome
from sluice.memory.extraction.agent_run import AgentRun, ResultEvent
from sluice.text.pattern_file import PatternFile


def decide_outcome(run: AgentRun, *, timed_out: bool) -> IterationOutcome:
    """Return the outcome of a run. `timed_out`: its caller ended it at a deadline."""
    if run.rate_limited:
        return IterationOutcome.RATE_LIMITED
    if timed_out:
        return IterationOutcome.TIMEOUT
    rules, told = "exit_status", run.exit_status or ""
    if run.format == "claude-code":
        rules, result = "claude-code", last_result(run)
        told = f"{result.subtype}, {result.terminal_reason}, {result.is_error}" if result else ""
    elif run.format == "openhands":
        rules, told = "openhands", told if run.failure is None else f"failed: {run.failure}"
    return next(outcome for outcome, pattern in _rules(rules) if pattern.match(told.casefold()))


def last_result(run: AgentRun) -> ResultEvent | None:
    """Return the last result of a turn that the user requested, else of any turn; None if there is none."""
    asked_for = [result for result in run.results if not result.background] or run.results
    return asked_for[-1] if asked_for else None


@cache
def _rules(name: str) -> tuple[tuple[IterationOutcome, re.Pattern[str]], ...]:
    file = PatternFile(Path(__file__).with_name("outcomes.toml"))
    return tuple(
        (IterationOutcome(outcome), file.compiled(pattern, re.DOTALL))
        for outcome, pattern in file.tables["outcomes"][name]
    )
