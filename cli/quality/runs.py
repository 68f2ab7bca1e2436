"""`sluice eval runs`, `replay`, `review`, `phase`: the outcomes of the gate's runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sluice.cli.command import Shown, on_disk, over_http, print_rows
from sluice.cli.connection import wrong
from sluice.cli.output import print_table, say, warn
from sluice_client import SluiceClient, models

if TYPE_CHECKING:
    from sluice.evaluation.decision_replay import DecisionReplay
    from sluice.evaluation.phases import PhaseReport
    from sluice.workers.context import Context


@over_http
def runs(
    client: SluiceClient,
    since: datetime | None = None,
    profile: str | None = None,
    by: Literal["plan", "profile", "model", "flags"] = "plan",
    rebuild: bool = False,
) -> Shown:
    """Show the runs' outcomes: satisfaction, freshness gain, cost and latency, by plan.

    Intervals are of 95 %. Without --since, the last seven days count.
    """
    if rebuild:
        warn(f"{client.rebuild_evaluation().runs:,} runs made again from their events")
    found = client.evaluation(since=since, by=by, profile=profile)
    return Shown(found, lambda: _print_runs(found))


def _print_runs(found: models.Evaluation) -> None:
    names = {"plan": ("profile", "plan"), "model": ("profile", "model", "part"), "flags": ("profile", "flags off")}.get(
        found.by, ("profile",)
    )
    rows = [(_named(row, found.by), row.summary) for row in found.rows]
    if len(rows) > 1:
        rows.append((["all", *("" for _ in names[1:])], found.total))
    figures = [_figures(summary) for _, summary in rows] or [{}]
    cells = [(*named, *figures[number].values()) for number, (named, _) in enumerate(rows)]
    print_table(f"runs decided since {found.since:%Y-%m-%d %H:%M} UTC", (*names, *figures[0]), cells)


def _named(row: models.EvaluationRow, by: str) -> list[str]:
    if by == "model":
        return [row.profile, row.model_version or "heuristic", row.arm or ""]
    if by == "flags":
        return [row.profile, row.flags or "none"]
    return [row.profile, str(row.plan)] if by == "plan" else [row.profile]


def _figures(summary: models.Summary) -> dict[str, str]:
    calls, tokens = summary.external_calls, summary.token_spend
    return {
        "runs": f"{summary.runs:,}",
        "judged": f"{summary.judged:,} ({summary.coverage:.0%})",
        "satisfaction": _between(summary.satisfaction),
        "freshness gain": _between(summary.freshness_gain_seconds, ".1f", 86_400, " d"),
        "USD/success": _between(summary.usd_per_success, ".4f"),
        "USD": f"{summary.total_usd:.2f}",
        "p50 s": _seconds(summary.p50_milliseconds),
        "p95 s": _seconds(summary.p95_milliseconds),
        "calls": "–" if calls is None else f"{calls.estimate:.1f}",
        "precision@k": _between(summary.precision_at_k),
        "tokens": "–" if tokens is None else f"{tokens:,.0f}",
        "crawl ok": _between(summary.crawl_success_rate),
    }


def _between(interval: models.Interval | None, form: str = ".2f", per: float = 1, unit: str = "") -> str:
    if interval is None:
        return "–"
    return f"{interval.estimate / per:{form}}{unit} ({interval.low / per:{form}}–{interval.high / per:{form}})"


def _seconds(milliseconds: float | None) -> str:
    return "–" if milliseconds is None else f"{milliseconds / 1e3:.2f}"


@on_disk
def replay(
    context: Context,
    profile: str,
    since: datetime = "30d",  # type: ignore[assignment]
    corpus: str | None = None,
    of_profile: str | None = None,
) -> Shown:
    """Compute recorded decisions again by another configuration of the gate."""
    from sluice.workers.service.learning.evaluation import replay_decisions

    found = replay_decisions(context, profile, since, corpus=corpus, profile=of_profile)
    return Shown(found, lambda: _print_replay(found))


def _print_replay(found: DecisionReplay) -> None:
    title = f"{found.decisions} decisions by {found.profile}, {found.changed} changed"
    print_table(title, ("plan", "decisions"), found.transitions.items())
    if found.examples:
        plans = ("plan", lambda one: f"{one.before} -> {one.after}")
        scores = ("score", lambda one: f"{one.score_before:.3f} -> {one.score_after:.3f}")
        print_rows("changed", found.examples, ("question", lambda one: one.query[:60]), plans, scores)
    seconds = None if found.milliseconds is None else found.milliseconds / 1e3
    for unit, more in {"USD": found.usd, "s of latency": seconds, "external calls": found.external_calls}.items():
        say(f"{unit}: {'not known: no run tells what one of the plans costs' if more is None else f'{more:+.4g}'}")
    if found.uncertain:
        say(f"{found.uncertain} decisions hang on a sentence that was not measured, and may differ")
    if found.passed_over:
        say(f"{found.passed_over} decisions lack a record of their probe or request")


@on_disk
def review(
    context: Context,
    since: datetime = "90d",  # type: ignore[assignment]
    report: list[Path] | None = None,
    redteam: list[Path] | None = None,
    output: Path = Path("reports/review"),
) -> Shown:
    """Write the review packet: weights, rerankers, cost per task, alerts, red-team results."""
    from sluice.evaluation import review as packets
    from sluice.evaluation.report import to_markdown, write_report
    from sluice.workers.service.learning.evaluation import make_packet

    packet = make_packet(context, since, datetime.now(UTC), report or [], redteam or [])
    write_report(packet, output / "review.json")
    (output / "review.md").write_text(to_markdown(packets.list_blocks(packet)), encoding="utf-8")
    return Shown(packet, f"written: {output / 'review.md'}")


@on_disk
def phase(
    context: Context,
    number: int,
    baseline_until: datetime | None = None,
    cap_usd: float | None = None,
    model: str | None = None,
    report: Path | None = None,
    reranked: Path | None = None,
    qa: Path | None = None,
) -> Shown:
    """Check whether a phase of the rollout is over.

    Exits with 1 where it is not, or where the data do not decide it.
    """
    from sluice.workers.service.learning import phases

    def check() -> PhaseReport:
        now = datetime.now(UTC)
        match number:
            case 0:
                return phases.baseline(context, now)
            case 2:
                return phases.freshness(context, now, qa)
            case 3:
                return phases.learned_gate(phases.f1_lifts(context, model) if model else {}, report, reranked)
        if baseline_until is None:
            raise wrong("baseline-until", "not given", "say until when runs were those of phase 0")
        if number == 1:
            return phases.lift(context, now, baseline_until)
        if cap_usd is None:
            raise wrong("cap-usd", "not given", "say what a successful task may cost")
        return phases.costs(context, now, cap_usd, baseline_until)

    found = check()
    columns = "criterion=name outcome measured needed"
    value = {**found.model_dump(mode="json"), "over": found.is_over}
    return Shown(
        value, lambda: print_rows(f"phase {found.phase}", found.checks, columns), exit_code=int(not found.is_over)
    )
