"""Decides an iteration's outcome. The first rule that applies decides; the process's exit code decides nothing.

For every agent:
1. A limit on requests stopped it (Claude Code: an `assistant` line with error `rate_limit`, `api_error_status` 429, a
   `rate_limit_event` with status `rejected`, a result that is an error and says so; OpenHands: state `rate_limited` or
   an error with that code; mini-swe-agent: `RateLimitError`): RateLimited.
2. Its caller ended it at a deadline: Timeout.

Claude Code, by the last result of a turn that was asked for (results with `origin` are of background turns):
3. There is no result line, as the agent was killed: Partial.
4. `error_max_turns`, `error_max_budget_usd`, or `terminal_reason` begins with `aborted`: Partial.
5. `is_error`, with whatever subtype (a failed request to the API comes as `success` with `is_error`), or another
   subtype that begins with `error`: Failure.
6. Else: Success.

SWE-agent, mini-swe-agent and traces, by `exit_status`, small letters and capitals alike:
7. None: Partial. `submitted`: Success.
8. `submitted (…)`, handed in for the agent as something stopped it: Timeout if that was a time limit, else Partial.
9. A time limit (`exit_total_execution_time`, `exit_command_timeout`, `TimeExceeded`): Timeout.
10. A limit on cost, context or steps (`exit_cost`, `exit_context`, `LimitsExceeded`), or a person's interruption
    (`UserInterruption`): Partial.
11. Any other (`exit_format`, `exit_error`, `exit_forfeit`, `exit_api`, `exit_command`, `exit_environment_error`, the
    name of an exception): Failure.

OpenHands, by the error that ended the conversation, then by its last state or its `finish`:
12. An error: Partial for a limit on iterations or budget, Timeout for one on time, else Failure.
13. `finished`: Success, unless `finish` says that the task was completed in part (Partial) or not (Failure).
14. `error`, `stuck`, `rejected`: Failure. Any other, or none: Partial.
"""

from __future__ import annotations

from sluice.contracts.memory.model import IterationOutcome
from sluice.memory.extraction.agent_run import PHRASES, AgentRun, ResultEvent

_STATES = {
    "finished": IterationOutcome.SUCCESS,
    "finished:true": IterationOutcome.SUCCESS,
    "finished:partial": IterationOutcome.PARTIAL,
    "finished:false": IterationOutcome.FAILURE,
    "error": IterationOutcome.FAILURE,
    "stuck": IterationOutcome.FAILURE,
    "rejected": IterationOutcome.FAILURE,
}


def decide_outcome(run: AgentRun, *, timed_out: bool) -> IterationOutcome:
    """The outcome of a run by the rules above. `timed_out`: whether its caller ended it at a deadline."""
    if run.rate_limited:
        return IterationOutcome.RATE_LIMITED
    if timed_out:
        return IterationOutcome.TIMEOUT
    if run.format == "claude-code":
        return _by_result(last_result(run))
    if run.format == "openhands":
        return _by_state(run.exit_status, run.failure)
    return _by_exit_status(run.exit_status)


def last_result(run: AgentRun) -> ResultEvent | None:
    """The last result of a turn that was asked for; of any turn where there is none of those."""
    asked_for = [result for result in run.results if not result.background] or run.results
    return asked_for[-1] if asked_for else None


def _by_result(result: ResultEvent | None) -> IterationOutcome:
    if result is None:
        return IterationOutcome.PARTIAL
    limited = result.subtype in ("error_max_turns", "error_max_budget_usd")
    if limited or result.terminal_reason.startswith("aborted"):
        return IterationOutcome.PARTIAL
    if result.is_error or result.subtype.startswith("error"):
        return IterationOutcome.FAILURE
    return IterationOutcome.SUCCESS


def _by_exit_status(status: str | None) -> IterationOutcome:
    if not status or not status.strip():
        return IterationOutcome.PARTIAL
    word = status.strip().casefold()
    if word == "submitted":
        return IterationOutcome.SUCCESS
    if PHRASES["time_limit"].search(word):
        return IterationOutcome.TIMEOUT
    if word.startswith("submitted") or PHRASES["other_limit"].search(word):
        return IterationOutcome.PARTIAL
    return IterationOutcome.FAILURE


def _by_state(state: str | None, failure: str | None) -> IterationOutcome:
    if failure is not None:
        if PHRASES["other_limit"].search(failure):
            return IterationOutcome.PARTIAL
        return IterationOutcome.TIMEOUT if PHRASES["time_limit"].search(failure) else IterationOutcome.FAILURE
    return _STATES.get(state or "", IterationOutcome.PARTIAL)
