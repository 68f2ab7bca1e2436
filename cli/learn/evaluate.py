"""`sluice evaluate`: how the gate's runs did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from sluice.cli.operate.dead_letter_options import moment
from sluice.cli.output import AsJson, console, print_json, print_table
from sluice.cli.session import session
from sluice.evaluation.intervals import Interval
from sluice.evaluation.summary import Summary
from sluice.workers.service.learning.evaluation import By, Evaluation, EvaluationRow, evaluate

COLUMNS = (
    "runs",
    "judged",
    "satisfaction",
    "freshness gain",
    "USD/success",
    "USD",
    "p50 s",
    "p95 s",
    "calls",
    "precision@k",
    "tokens",
    "crawl ok",
)
_UNKNOWN = "–"


def evaluation(
    since: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="WHEN", help="Decided since: 7d, or a date and time.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Of one profile alone.")] = None,
    by: Annotated[By, typer.Option(help="What a row is of: a plan of a profile, a profile, a model.")] = "plan",
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="First make what is known of each run again from its events.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """How the runs did: satisfaction, freshness gain, cost and latency, by plan.

    Intervals are of 95 %. Without --since, of the last seven days.
    """
    with session(as_json=as_json) as context:
        if rebuild:
            made = context.ledger.outcomes.rebuild()
            if not as_json:
                console.print(f"{made:,} runs made again from their events", highlight=False)
        now = datetime.now(UTC)
        found = evaluate(context.ledger.outcomes, since or now - timedelta(days=7), now, by, profile)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: Evaluation) -> None:
    names = {"plan": ("profile", "plan"), "profile": ("profile",), "model": ("profile", "model", "part")}[found.by]
    rows = [(*_named(row, found.by), *_figures(row.summary)) for row in found.rows]
    if len(rows) > 1:
        rows.append(("all", *("" for _ in names[1:]), *_figures(found.total)))
    print_table(f"runs decided since {found.since:%Y-%m-%d %H:%M} UTC", (*names, *COLUMNS), rows)


def _named(row: EvaluationRow, by: By) -> tuple[str, ...]:
    match by:
        case "plan":
            return row.profile, str(row.plan)
        case "profile":
            return (row.profile,)
        case "model":
            return row.profile, row.model_version or "heuristic", row.arm or ""


def _figures(summary: Summary) -> tuple[str, ...]:
    return (
        f"{summary.runs:,}",
        f"{summary.judged:,} ({summary.coverage:.0%})",
        _told(summary.satisfaction, ".2f"),
        _days(summary.freshness_gain_seconds),
        _told(summary.usd_per_success, ".4f"),
        f"{summary.total_usd:.2f}",
        _seconds(summary.p50_milliseconds),
        _seconds(summary.p95_milliseconds),
        _UNKNOWN if summary.external_calls is None else f"{summary.external_calls.estimate:.1f}",
        _told(summary.precision_at_k, ".2f"),
        _UNKNOWN if summary.token_spend is None else f"{summary.token_spend:,.0f}",
        _told(summary.crawl_success_rate, ".2f"),
    )


def _told(interval: Interval | None, form: str) -> str:
    if interval is None:
        return _UNKNOWN
    return f"{interval.estimate:{form}} ({interval.low:{form}}–{interval.high:{form}})"


def _days(interval: Interval | None) -> str:
    if interval is None:
        return _UNKNOWN
    low, high = interval.low / 86_400, interval.high / 86_400
    return f"{interval.estimate / 86_400:.1f} d ({low:.1f}–{high:.1f})"


def _seconds(milliseconds: float | None) -> str:
    return _UNKNOWN if milliseconds is None else f"{milliseconds / 1e3:.2f}"
