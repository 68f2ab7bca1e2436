"""Extracts an `ExtractionResult` from an agent's output: the one entry point of this package.

1. The data is decoded and its format detected (`source`); a reader makes the run (`readers`, `agent_run`).
2. The effect is hashed from the raw run alone (`files`), so that no later step can change the hash.
3. Files, errors, decisions, summary and outcome are extracted, capped (`limits`) and counted.

No network, no model, no clock but `now`; a stream of 1 MB takes some tens of milliseconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.api import IterationContext, StreamFormat
from sluice.contracts.memory.model import MAX_SUMMARY_CHARACTERS, CheckRun, IterationOutcome, ModelTier
from sluice.memory.extraction.agent_run import PHRASES, AgentRun, ResultEvent
from sluice.memory.extraction.decisions import decisions
from sluice.memory.extraction.errors.output import plain
from sluice.memory.extraction.files import effect_sha256, file_changes, files_touched, locate_calls
from sluice.memory.extraction.paths import ProjectPaths, is_below
from sluice.memory.extraction.readers import claude_code, codex, openhands, swe_agent
from sluice.memory.extraction.readers.record import extract_record
from sluice.memory.extraction.result import ExtractionResult, cut_text, fit
from sluice.memory.extraction.source import Source, events_of, open_source, source_id
from sluice.memory.extraction.tool_errors import iteration_errors
from sluice.text.pattern_file import PatternFile


def extract(
    data: object, *, format: StreamFormat, feature: str, project_path: str, context: IterationContext, now: datetime
) -> ExtractionResult:
    """Extract the result of an iteration from the agent's output, given as text, bytes or JSON.

    Values in `context` go before those in the output. Paths are relative to `project_path` where the agent worked in
    it, else to the folder that the agent worked in. Raises `InvalidInput` if the data is empty, too long, no JSON, in
    no known format, or a record with a wrong field.
    """
    source = open_source(data, format)
    if source.format == "record":
        return extract_record(source, feature=feature, context=context, now=now)
    run = _READERS[source.format](source)
    root = _root(run, project_path, context)
    paths = ProjectPaths.of(root)
    not_kept = Counter(run.not_kept)

    calls = locate_calls(run, run.root or context.working_directory)
    changes = file_changes(calls, run.patch, paths, not_kept)
    found = iteration_errors(run, calls, paths, root, not_kept)
    effect = effect_sha256(changes, found.met) if run.calls or run.patch else None

    not_kept.update(paths.not_kept)
    duration = context.duration_ms if context.duration_ms is not None else run.duration_ms
    return ExtractionResult(
        format=source.format,
        feature=feature,
        timestamp=context.timestamp or now,
        outcome=context.outcome or decide_outcome(run, found.checks, timed_out=context.timed_out),
        source_id=source_id(
            source.sha256, context, apart="" if run.calls or run.said or run.results else now.isoformat()
        ),
        iteration_number=context.iteration_number or 1,
        is_numbered=context.iteration_number is not None,
        task_id=context.task_id or 0,
        task_title=context.task_title or "",
        discipline=context.discipline or "",
        summary=cut_text(_summary(run), MAX_SUMMARY_CHARACTERS, not_kept),
        errors=fit(found.standing, "errors", not_kept),
        solved=fit(found.solved, "solved", not_kept),
        checks=fit(found.checks, "checks", not_kept),
        decisions=fit(decisions(run.said), "decisions", not_kept),
        files_touched=fit(files_touched(changes), "files", not_kept),
        tokens_used=run.tokens,
        tokens_estimated=run.tokens_estimated,
        duration_ms=duration,
        model_tier=context.model_tier or ModelTier.HAIKU,
        model=run.model,
        session_id=context.session_id or run.session_id,
        effect_sha256=effect,
        not_kept={reason: count for reason, count in not_kept.items() if count},
        tool_calls=Counter(call.status.value for call in run.calls),
        sub_agent_calls=sum(call.sub_agent for call in run.calls),
        unknown=tuple(run.unknown),
    )


_READERS: dict[str, Callable[[Source], AgentRun]] = {
    "claude-code": lambda source: (
        claude_code.read_text(source.text)
        if source.text is not None and not source.values
        else claude_code.read_events(events_of(source))
    ),
    "swe-agent": lambda source: swe_agent.read_trajectory(_document(source)),
    "mini-swe-agent": lambda source: swe_agent.read_mini_trajectory(_document(source)),
    "trace": lambda source: swe_agent.read_trace(source.values),
    "codex": lambda source: codex.read_events(events_of(source)),
    "openhands": lambda source: openhands.read_events(events_of(source)),
}


def _document(source: Source) -> Any:
    if len(source.values) != 1:
        raise InvalidInput("data", f"holds {len(source.values)} documents", "hand in one trajectory at a time")
    return source.values[0]


def _root(run: AgentRun, project_path: str, context: IterationContext) -> str | None:
    """Return the folder that paths are kept relative to: the project's, unless the agent worked elsewhere altogether.

    In a container or another checkout, the agent's working folder stands for the project's.
    """
    worked_in = run.root or context.working_directory
    if worked_in is None or is_below(worked_in, project_path) or is_below(project_path, worked_in):
        return project_path
    return worked_in


def _summary(run: AgentRun) -> str:
    """Return the agent's last text: its result, else its last message, else the errors that ended it."""
    result = last_result(run)
    told = (
        result.result if result else "",
        run.said[-1] if run.said else "",
        "\n".join(result.errors if result else ()),
    )
    return next((plain(text.replace("\r\n", "\n").replace("\r", "\n")).strip() for text in told if text.strip()), "")


def decide_outcome(run: AgentRun, checks: Sequence[CheckRun] = (), *, timed_out: bool) -> IterationOutcome:
    """Return the outcome of a run: how its session ended, corrected by the evidence of its checks.

    Its end decides first, by the rules of `outcomes.toml`; `timed_out`: its caller ended it at a deadline. A session
    that ended well is Success only if no check was red when it ran last: else the iteration is a Failure, or Partial
    where a part of it passed afterwards, and only the whole did not run again. What the agent says comes second: if it
    says that something still fails, the iteration is Partial; Failure where no check passed that says otherwise.
    """
    ended = _end_of_session(run, timed_out=timed_out)
    if ended is not IterationOutcome.SUCCESS:
        return ended
    red = [one for one in checks if not one.passed]
    green = [one for one in checks if one.passed]
    if red:
        in_part = all(any(one.covers(part) for part in green) for one in red)
        return IterationOutcome.PARTIAL if in_part else IterationOutcome.FAILURE
    if PHRASES["unfinished"].search(_summary(run)):
        return IterationOutcome.PARTIAL if green else IterationOutcome.FAILURE
    return ended


def _end_of_session(run: AgentRun, *, timed_out: bool) -> IterationOutcome:
    if run.rate_limited:
        return IterationOutcome.RATE_LIMITED
    if timed_out:
        return IterationOutcome.TIMEOUT
    rules, told = "exit_status", run.exit_status or ""
    if run.format in ("claude-code", "codex"):
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
