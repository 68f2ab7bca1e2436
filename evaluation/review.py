"""The quarterly review packet, as a value and as Markdown: changes of the gate, their cost and results, incidents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sluice.contracts.base import Moment, Value
from sluice.evaluation.report import Block, Table, say, say_number
from sluice.evaluation.retrieval.report import Report
from sluice.evaluation.run_totals import Summary


class WeightChange(Value):
    """A configuration that began to decide, and its changes: setting -> (before, after)."""

    profile: str
    config_hash: str
    since: Moment
    changed: dict[str, tuple[str, str]]


class Incident(Value):
    """An event that affected the gate or required an operator, in order of time."""

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
    """The contents of a review of some months."""

    since: Moment
    made_at: Moment
    sluice_version: str
    configurations: tuple[WeightChange, ...]
    plans: dict[str, dict[str, Summary]]
    """By profile and plan; "all" is the total."""
    benchmarks: tuple[RetrievalBenchmark, ...]
    incidents: tuple[Incident, ...]
    red_team: dict[str, dict[str, int]]
    """By channel: how many attacks were sent, kept out, warned of, unmarked."""


def read_benchmarks(reports: Sequence[tuple[Path, Report]]) -> tuple[RetrievalBenchmark, ...]:
    """Return the results in the reports of `sluice eval retrieval`, oldest first."""
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


def list_blocks(packet: ReviewPacket) -> Iterator[Block]:
    """Yield the packet's blocks for readers."""
    yield f"# Review of the gate, {packet.since:%Y-%m-%d} to {packet.made_at:%Y-%m-%d}"
    yield f"Sluice {packet.sluice_version}."
    columns = ("profile", "plan", "runs", "judged", "satisfaction", "USD per success", "p95 s", "external calls")
    rows = [_plan_row(profile, plan, of) for profile, plans in packet.plans.items() for plan, of in plans.items()]
    yield Table("What it cost, and how it did", columns, rows)
    yield "## Configurations"
    yield _list(map(_configuration, packet.configurations), "No configuration began to decide.")
    yield "## Retrieval and reranking"
    yield _list(map(_benchmark, packet.benchmarks), "No report of `sluice eval retrieval` was given.")
    yield "## Alerts and steps"
    yield _list((f"{one.at:%Y-%m-%d %H:%M} UTC, {one.kind}: {one.told}" for one in packet.incidents), "None.")
    yield "## Red team"
    told = (
        f"{channel}: " + ", ".join(f"{count} {what}" for what, count in counts.items())
        for channel, counts in packet.red_team.items()
    )
    yield _list(told, "No result of `sluice eval redteam --json` was given.")


def _list(items: Iterable[str], otherwise: str) -> str:
    return "\n".join(f"- {item}" for item in items) or otherwise


def _plan_row(profile: str, plan: str, summary: Summary) -> tuple[str, ...]:
    p95 = summary.p95_milliseconds
    return (
        *(profile, plan, str(summary.runs), f"{summary.coverage:.0%}", say(summary.satisfaction)),
        say(summary.usd_per_success, ".4f"),
        say_number(p95 and p95 / 1e3, ".2f"),
        say(summary.external_calls),
    )


def _configuration(one: WeightChange) -> str:
    changes = "".join(f"\n  - {name}: {before} -> {after}" for name, (before, after) in one.changed.items())
    return f"{one.since:%Y-%m-%d %H:%M} UTC: {one.profile} by {one.config_hash[:12]}{changes}"


def _benchmark(one: RetrievalBenchmark) -> str:
    means = ", ".join(f"{name} {mean:.4f} (p95 {one.p95_ms[name]:.1f} ms)" for name, mean in one.nDCG_at_10.items())
    reranked = ", reranked" if one.reranked else ""
    return f"{one.made_at:%Y-%m-%d}, {one.source}{reranked}: nDCG@10 {means} ({one.path})"
