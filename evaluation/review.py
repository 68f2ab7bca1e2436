"""The quarterly review packet: what changed in the gate, what it cost, how it did, what was alarming. As a value and as
Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sluice.contracts.base import Moment, Value
from sluice.evaluation.intervals import Interval
from sluice.evaluation.retrieval.report import Report
from sluice.evaluation.run_totals import Summary


class WeightChange(Value):
    """A configuration that began to decide, and what it changed: setting -> (before, after)."""

    profile: str
    config_hash: str
    since: Moment
    changed: dict[str, tuple[str, str]]


class Incident(Value):
    """Something that steered the gate or called for an operator, in the order of time."""

    at: Moment
    kind: str
    told: str


class RetrievalBenchmark(Value):
    """One report of `sluice eval retrieval`."""

    path: str
    made_at: Moment
    source: str
    nDCG_at_10: dict[str, float]  # noqa: N815 (the measure's name)
    p95_ms: dict[str, float]
    reranked: bool


class ReviewPacket(Value):
    """What a review of some months looks at."""

    since: Moment
    made_at: Moment
    sluice_version: str
    configurations: tuple[WeightChange, ...]
    plans: dict[str, dict[str, Summary]]
    """By profile and plan; "all" is both together."""
    benchmarks: tuple[RetrievalBenchmark, ...]
    incidents: tuple[Incident, ...]
    red_team: dict[str, dict[str, int]]
    """By channel: how many attacks were sent, kept out, warned of, unmarked."""


def read_benchmarks(reports: Sequence[tuple[Path, Report]]) -> tuple[RetrievalBenchmark, ...]:
    """What the reports of `sluice eval retrieval` say, the oldest first."""
    found = [
        RetrievalBenchmark(
            path=path.name,
            made_at=report.made_at,
            source=report.subject.source,
            nDCG_at_10={name: part.means["nDCG@10"].mean for name, part in report.strategies.items()},
            p95_ms={name: part.index_time.p95_ms for name, part in report.strategies.items()},
            reranked=any("rerank" in part.fusion for part in report.strategies.values()),
        )
        for path, report in reports
    ]
    return tuple(sorted(found, key=lambda one: one.made_at))


def write_markdown(packet: ReviewPacket) -> str:
    """The packet for people."""
    return "\n".join(_lines(packet)) + "\n"


def _lines(packet: ReviewPacket) -> Iterator[str]:
    yield f"# Review of the gate, {packet.since:%Y-%m-%d} to {packet.made_at:%Y-%m-%d}"
    yield f"\nSluice {packet.sluice_version}.\n\n## What it cost, and how it did\n"
    yield "| profile | plan | runs | judged | satisfaction | USD per successful task | p95 s | external calls a run |"
    yield "|---|---|---|---|---|---|---|---|"
    for profile, plans in packet.plans.items():
        for plan, summary in plans.items():
            p95 = "-" if summary.p95_milliseconds is None else f"{summary.p95_milliseconds / 1e3:.2f}"
            yield (
                f"| {profile} | {plan} | {summary.runs} | {summary.coverage:.0%} | {_told(summary.satisfaction)} | "
                f"{_told(summary.usd_per_success, 4)} | {p95} | {_told(summary.external_calls)} |"
            )
    yield "\n## Configurations\n"
    for one in packet.configurations:
        yield f"- {one.since:%Y-%m-%d %H:%M} UTC: {one.profile} by {one.config_hash[:12]}"
        yield from (f"  - {name}: {before} -> {after}" for name, (before, after) in one.changed.items())
    yield from _or_none(packet.configurations, "No configuration began to decide.")
    yield "\n## Retrieval and reranking\n"
    for benchmark in packet.benchmarks:
        means = ", ".join(
            f"{name} {mean:.4f} (p95 {benchmark.p95_ms[name]:.1f} ms)" for name, mean in benchmark.nDCG_at_10.items()
        )
        reranked = ", reranked" if benchmark.reranked else ""
        yield f"- {benchmark.made_at:%Y-%m-%d}, {benchmark.source}{reranked}: nDCG@10 {means} ({benchmark.path})"
    yield from _or_none(packet.benchmarks, "No report of `sluice eval retrieval` was given.")
    yield "\n## Alerts and steps\n"
    yield from (f"- {one.at:%Y-%m-%d %H:%M} UTC, {one.kind}: {one.told}" for one in packet.incidents)
    yield from _or_none(packet.incidents, "None.")
    yield "\n## Red team\n"
    for channel, counts in packet.red_team.items():
        yield f"- {channel}: " + ", ".join(f"{count} {what}" for what, count in counts.items())
    yield from _or_none(packet.red_team, "No result of `sluice eval redteam --json` was given.")


def _or_none(entries: object, told: str) -> Iterator[str]:
    if not entries:
        yield told


def _told(interval: Interval | None, digits: int = 3) -> str:
    """An estimate with its interval; a dash where there is none."""
    if interval is None:
        return "-"
    return f"{interval.estimate:.{digits}f} ({interval.low:.{digits}f} to {interval.high:.{digits}f})"
