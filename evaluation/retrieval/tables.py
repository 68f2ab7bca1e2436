"""Reports and comparisons as tables for people: a title, columns and rows of text."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.evaluation.report import Table
from sluice.evaluation.retrieval.ask import Miss
from sluice.evaluation.retrieval.measures import DEPTH, HEADLINES, MEASURES
from sluice.evaluation.retrieval.report import Change, Comparison, Mean, Report

NONE_DROPPED = f"none of {', '.join(HEADLINES)} dropped"


def metrics_table(report: Report) -> Table:
    """Return a row for each measure, then the durations; a column for each strategy."""
    parts = report.strategies.values()
    rows = [(name, *(_interval(part.means[name]) for part in parts)) for name in MEASURES]
    rows += [
        ("fusion", *(part.fusion for part in parts)),
        ("index p50 · p95", *(f"{part.index_time.p50_ms:.1f} · {part.index_time.p95_ms:.1f} ms" for part in parts)),
        (
            "round trip p50 · p95",
            *(f"{part.round_trip_time.p50_ms:.1f} · {part.round_trip_time.p95_ms:.1f} ms" for part in parts),
        ),
        ("misses", *(str(len(part.misses)) for part in parts)),
    ]
    generation = ", ".join(report.generations) or "none"
    title = f"{report.case_count} questions · corpus {report.subject.corpus} · generation {generation}"
    return Table(title, ("mean [95 %]", *report.strategies), tuple(rows))


def write_notes(report: Report) -> Iterator[str]:
    """Yield notes that a reader of the figures needs."""
    if len(report.generations) > 1:
        yield f"the corpus changed meanwhile: {len(report.generations)} generations answered"
    if report.fed and report.fed.missing_count:
        yield (
            f"{report.fed.missing_count} of {report.fed.document_count} documents could not be indexed, "
            f"the first: {report.fed.missing[0]}"
        )
    if report.unjudged_count:
        yield f"{report.unjudged_count} questions have no relevant document and were not asked"
    for figure, count in report.judged.items():
        value = getattr(report, figure)
        if value is not None:
            yield f"{figure} {value:.3f} of {count} answers, by {report.method[figure]}"
    for strategy, part in report.strategies.items():
        if part.truncated_count:
            yield (
                f"{strategy}: {part.truncated_count} questions found fewer than {DEPTH} documents in the "
                f"{report.top_k} chunks that may be asked for, so recall@{DEPTH} may be higher than it shows"
            )


def misses_table(strategy: str, misses: tuple[Miss, ...]) -> Table:
    """Return a row for each miss: the ranks of its relevant documents, and the first result."""
    rows = tuple((miss.id, miss.query, _whereabouts(miss), _came_first(miss)) for miss in misses)
    return Table(f"misses of {strategy}", ("id", "question", "relevant", "came first"), rows)


def comparison_table(comparison: Comparison) -> Table:
    """Return a row for each measure of each strategy."""
    columns = ("strategy", "measure", "before", "after", "difference", "relative", "p", "won · lost · tied", "")
    rows = tuple(_change_row(change) for change in comparison.changes)
    return Table(f"{comparison.case_count} questions", columns, rows)


def write_verdict(comparison: Comparison) -> str:
    """Return the comparison in a sentence, and the incomparable strategies in another."""
    limit = f"more than {comparison.max_drop:.1%}"
    drops = (f"{drop.strategy} {drop.measure} {drop.before:.4f} → {drop.after:.4f}" for drop in comparison.drops)
    told = f"dropped by {limit}: {'; '.join(drops)}" if comparison.drops else f"{NONE_DROPPED} by {limit}"
    return told + (
        f"; only in one of the reports: {', '.join(comparison.only_in_one)}" if comparison.only_in_one else ""
    )


def _interval(mean: Mean) -> str:
    return f"{mean.mean:.4f} [{mean.low:.4f}, {mean.high:.4f}]"


def _whereabouts(miss: Miss) -> str:
    return ", ".join(f"{name} {_place(rank)}" for name, rank in miss.relevant.items())


def _place(rank: int | None) -> str:
    return f"at {rank}" if rank else f"beyond {DEPTH}"


def _came_first(miss: Miss) -> str:
    if not miss.instead:
        return "nothing"
    first = miss.instead[0]
    return f"{first.name}: {first.title or first.text}"


def _change_row(change: Change) -> tuple[str, ...]:
    return (
        change.strategy,
        change.measure,
        f"{change.before:.4f}",
        f"{change.after:.4f}",
        f"{change.difference:+.4f}",
        "–" if change.relative is None else f"{change.relative:+.1%}",
        f"{change.p:.4f}",
        f"{change.wins} · {change.losses} · {change.ties}",
        "dropped" if change.is_drop else "",
    )
