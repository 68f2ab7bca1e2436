"""`sluice review` and `sluice phase`: what a quarterly review looks at, and whether a phase of the rollout is over."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.operate.dead_letter_options import moment
from sluice.cli.output import AsJson, console, marked, print_json, print_table
from sluice.cli.session import session
from sluice.contracts.errors import InvalidInput
from sluice.evaluation.phases import PhaseReport
from sluice.evaluation.review import write_markdown
from sluice.workers.context import Context
from sluice.workers.service.learning import phases
from sluice.workers.service.learning.phases import f1_lifts
from sluice.workers.service.learning.review import make_packet

FOLDER = Path("reports/review")
_Since = Annotated[datetime, typer.Option(parser=moment, metavar="WHEN", help="Since then: 90d, or a date.")]
_BaselineUntil = Annotated[
    datetime | None,
    typer.Option(parser=moment, metavar="WHEN", help="Phases 1 and 4: runs before that are the baseline."),
]


def review(
    since: _Since = "90d",  # type: ignore[assignment]
    report: Annotated[list[Path] | None, typer.Option(help="A report of `sluice eval`. Repeatable.")] = None,
    redteam: Annotated[list[Path] | None, typer.Option(help="A result of `sluice redteam --json`. Repeatable.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for review.md and review.json.")] = FOLDER,
    as_json: AsJson = False,
) -> None:
    """Write the review packet: weights, rerankers, cost per task, alerts, red-team results."""
    with session(as_json=as_json) as context:
        packet = make_packet(context, since, datetime.now(UTC), report or [], redteam or [])
        output.mkdir(parents=True, exist_ok=True)
        (output / "review.json").write_text(packet.model_dump_json(indent=1) + "\n", encoding="utf-8")
        (output / "review.md").write_text(write_markdown(packet), encoding="utf-8")
        if as_json:
            print_json(packet)
        else:
            console.print(f"written: {marked(output / 'review.md')}", highlight=False, soft_wrap=True)


def phase(
    number: Annotated[int, typer.Argument(min=0, max=4, help="The phase of the rollout.")],
    baseline_until: _BaselineUntil = None,
    cap_usd: Annotated[float | None, typer.Option(min=0, help="Phase 4: USD per successful task.")] = None,
    model: Annotated[str | None, typer.Option(help="Phase 3: the version of the learned gate.")] = None,
    report: Annotated[Path | None, typer.Option(help="Phase 3: a report of `sluice eval` without reranker.")] = None,
    reranked: Annotated[Path | None, typer.Option(help="Phase 3: one with it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check whether a phase of the rollout is over.

    Leaves with 1 where it is not, or where that cannot be told.
    """
    with session(as_json=as_json) as context:
        found = _checked(context, number, baseline_until, cap_usd, model, report, reranked)
        if as_json:
            print_json({**found.model_dump(mode="json"), "over": found.is_over})
        else:
            rows = [(check.name, check.outcome, check.measured, check.needed) for check in found.checks]
            print_table(f"phase {number}", ("criterion", "outcome", "measured", "needed"), rows)
        if not found.is_over:
            raise typer.Exit(1)


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
