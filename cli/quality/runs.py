"""`sluice eval runs`, `report`, `replay`, `review`, `phase`: what became of the gate's runs, from the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.operate.dead_letter_options import moment
from sluice.cli.output import AsJson, console, marked, print_report, print_table
from sluice.cli.session import session
from sluice.contracts.errors import InvalidInput
from sluice.evaluation import review as review_packet
from sluice.evaluation.decision_replay import DecisionReplay
from sluice.evaluation.phases import PhaseReport
from sluice.evaluation.report import say, say_number, to_markdown, write_report
from sluice.evaluation.rollout import ab_report
from sluice.evaluation.run_totals import Summary
from sluice.workers.context import Context
from sluice.workers.service.learning import phases
from sluice.workers.service.learning.evaluation import By, Evaluation, EvaluationRow, evaluate
from sluice.workers.service.learning.phases import f1_lifts
from sluice.workers.service.learning.replay_decisions import replay_decisions
from sluice.workers.service.learning.review import make_packet
from sluice.workers.service.learning.rollouts import RolloutDesk

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
ActiveVersion = Annotated[
    str | None, typer.Argument(metavar="[VERSION]", help="The model; the active one where it is left out.")
]


def runs(
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
        print_report(found, _print_runs, as_json=as_json)


def _print_runs(found: Evaluation) -> None:
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
        say(summary.satisfaction, ".2f"),
        say(summary.freshness_gain_seconds, ".1f", per=86_400, unit=" d"),
        say(summary.usd_per_success, ".4f"),
        f"{summary.total_usd:.2f}",
        *(say_number(of and of / 1e3, ".2f") for of in (summary.p50_milliseconds, summary.p95_milliseconds)),
        say_number(summary.external_calls.estimate if summary.external_calls else None, ".1f"),
        say(summary.precision_at_k, ".2f"),
        say_number(summary.token_spend, ",.0f"),
        say(summary.crawl_success_rate, ".2f"),
    )


def rollout_report(
    version: ActiveVersion = None,
    markdown: Annotated[Path | None, typer.Option(help="Write it as Markdown into this file too.")] = None,
    as_json: AsJson = False,
) -> None:
    """Report on a model: the arms side by side with intervals, the verdict, and where its plans differ."""
    with session(as_json=as_json) as context:
        report = RolloutDesk(context).report(version)
        page = to_markdown(ab_report.list_blocks(report))
        if markdown is not None:
            markdown.write_text(page)
        print_report(
            report, lambda _: console.print(page, markup=False, highlight=False, soft_wrap=True), as_json=as_json
        )


def replay(
    profile: Annotated[str, typer.Option(help="The configuration to try: a profile, NAME.vN, or a file.")],
    since: Annotated[
        datetime, typer.Option(parser=moment, metavar="WHEN", help="Decisions since then: 30d, or a date.")
    ] = "30d",  # type: ignore[assignment]
    corpus: Annotated[str | None, typer.Option("--corpus", "-c", help="Only of this corpus.")] = None,
    of_profile: Annotated[str | None, typer.Option(help="Only what this profile decided.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute recorded decisions again by another configuration of the gate."""
    with session(as_json=as_json) as context:
        found = replay_decisions(context, profile, since, corpus=corpus, profile=of_profile)
        print_report(found, _print_replay, as_json=as_json)


def _print_replay(found: DecisionReplay) -> None:
    title = f"{found.decisions} decisions by {found.profile}, {found.changed} changed"
    print_table(title, ("plan", "decisions"), [(change, str(count)) for change, count in found.transitions.items()])
    if found.examples:
        rows = [
            (one.query[:60], f"{one.before} -> {one.after}", f"{one.score_before:.3f} -> {one.score_after:.3f}")
            for one in found.examples
        ]
        print_table("changed", ("question", "plan", "score"), rows)
    for unit, difference in {
        "USD": found.usd,
        "s of latency": None if found.milliseconds is None else found.milliseconds / 1e3,
        "external calls": found.external_calls,
    }.items():
        told = "not known: no run tells what one of the plans costs" if difference is None else f"{difference:+.4g}"
        console.print(f"{unit}: {marked(told)}", highlight=False, soft_wrap=True)
    if found.uncertain:
        told = f"{found.uncertain} decisions hang on a sentence that was not measured, and may differ"
        console.print(told, highlight=False, soft_wrap=True)
    if found.passed_over:
        console.print(f"{found.passed_over} decisions lack a record of their probe or request", highlight=False)


FOLDER = Path("reports/review")
_Since = Annotated[datetime, typer.Option(parser=moment, metavar="WHEN", help="Since then: 90d, or a date.")]
_BaselineUntil = Annotated[
    datetime | None,
    typer.Option(parser=moment, metavar="WHEN", help="Phases 1 and 4: runs before that are the baseline."),
]


def review(
    since: _Since = "90d",  # type: ignore[assignment]
    report: Annotated[list[Path] | None, typer.Option(help="A report of `sluice eval retrieval`. Repeatable.")] = None,
    redteam: Annotated[
        list[Path] | None, typer.Option(help="A result of `sluice eval redteam --json`. Repeatable.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for review.md and review.json.")] = FOLDER,
    as_json: AsJson = False,
) -> None:
    """Write the review packet: weights, rerankers, cost per task, alerts, red-team results."""
    with session(as_json=as_json) as context:
        packet = make_packet(context, since, datetime.now(UTC), report or [], redteam or [])
        write_report(packet, output / "review.json")
        (output / "review.md").write_text(to_markdown(review_packet.list_blocks(packet)), encoding="utf-8")
        told = f"written: {marked(output / 'review.md')}"
        print_report(packet, lambda _: console.print(told, highlight=False, soft_wrap=True), as_json=as_json)


def phase(
    number: Annotated[int, typer.Argument(min=0, max=4, help="The phase of the rollout.")],
    baseline_until: _BaselineUntil = None,
    cap_usd: Annotated[float | None, typer.Option(min=0, help="Phase 4: USD per successful task.")] = None,
    model: Annotated[str | None, typer.Option(help="Phase 3: the version of the learned gate.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Phase 3: a report of `sluice eval retrieval` without reranker.")
    ] = None,
    reranked: Annotated[Path | None, typer.Option(help="Phase 3: one with it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check whether a phase of the rollout is over.

    Leaves with 1 where it is not, or where that cannot be told.
    """
    with session(as_json=as_json) as context:
        found = _checked(context, number, baseline_until, cap_usd, model, report, reranked)
        told = {**found.model_dump(mode="json"), "over": found.is_over} if as_json else found
        print_report(told, _print_phase, as_json=as_json, good=found.is_over)


def _print_phase(found: PhaseReport) -> None:
    rows = [(check.name, check.outcome, check.measured, check.needed) for check in found.checks]
    print_table(f"phase {found.phase}", ("criterion", "outcome", "measured", "needed"), rows)


def _checked(
    context: Context,
    number: int,
    baseline_until: datetime | None,
    cap_usd: float | None,
    model: str | None,
    report: Path | None,
    reranked: Path | None,
) -> PhaseReport:
    now = datetime.now(UTC)
    match number:
        case 0:
            return phases.baseline(context, now)
        case 2:
            return phases.freshness(context, now)
        case 3:
            return phases.learned_gate(f1_lifts(context, model) if model else {}, report, reranked)
    if baseline_until is None:
        raise InvalidInput("baseline-until", "not given", "say until when runs were those of phase 0")
    if number == 1:
        return phases.lift(context, now, baseline_until)
    if cap_usd is None:
        raise InvalidInput("cap-usd", "not given", "say what a successful task may cost")
    return phases.costs(context, now, cap_usd, baseline_until)
