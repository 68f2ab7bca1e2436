"""What the demonstration must have shown, read from the recorded events, and how it is printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from sluice.contracts.api import RunView
from sluice.contracts.event import Event
from sluice.contracts.gate import DecisionFields
from sluice.contracts.index import SnapshotPublished
from sluice.contracts.ingest import ChunksEmbedded, CrawlDirected, PageCrawled, SearchCompleted, SearchDirected
from sluice.contracts.plan import Plan
from sluice.ingest.embed.minilm import FINGERPRINT

GOING_OUTSIDE = (SearchDirected, SearchCompleted, CrawlDirected, PageCrawled)
CONTEXT_CHARACTERS = 1_500


def missing_from_first(run: RunView, events: Sequence[Event]) -> Iterator[str]:
    """What the first run should have done and did not, in sentences."""
    pages = [event.body for event in events if isinstance(event.body, PageCrawled)]
    embedded = [event.body for event in events if isinstance(event.body, ChunksEmbedded)]
    published = [event.body for event in events if isinstance(event.body, SnapshotPublished)]
    if run.status != "finished":
        yield f"the run is {run.status}, not finished"
    if run.decision is None or run.decision.plan is not Plan.FULL_LOOP:
        yield f"the gate chose {run.decision.plan if run.decision else 'nothing'}, not full_loop"
    if not any(isinstance(event.body, SearchCompleted) and event.body.results for event in events):
        yield "no search came back with results"
    if not pages:
        yield "no page was crawled"
    if not all(page.rendered for page in pages):
        yield "a page was crawled without the browser"
    if not embedded or any(batch.model_fingerprint != FINGERPRINT for batch in embedded):
        yield f"no chunks were embedded by {FINGERPRINT}"
    if not published:
        yield "no generation was published"
    yield from _missing_from_answer(run)


def missing_from_second(run: RunView, events: Sequence[Event]) -> Iterator[str]:
    """What the second run should have done and did not, in sentences."""
    if run.decision is None or run.decision.plan is not Plan.RETRIEVE:
        yield f"asked again, the gate chose {run.decision.plan if run.decision else 'nothing'}, not retrieve"
    outside = sorted({event.kind for event in events if isinstance(event.body, GOING_OUTSIDE)})
    if outside:
        yield f"asked again, it went outside: {', '.join(outside)}"
    yield from _missing_from_answer(run)


def _missing_from_answer(run: RunView) -> Iterator[str]:
    if run.answer is None or not run.answer.citations:
        yield "the answer cites nothing"
    elif run.answer.generation is None:
        yield "the answer names no generation"


def show_run(console: Console, title: str, run: RunView, seconds: float) -> None:
    """The decision, the cited context, the generation and the run's id."""
    console.rule(f"[bold]{escape(title)}")
    if run.decision is not None:
        console.print(_decision(run.decision))
    if run.answer is not None:
        context = run.answer.context
        shown = context[:CONTEXT_CHARACTERS] + ("\n…" if len(context) > CONTEXT_CHARACTERS else "")
        sources = "\n".join(f"[{citation.number}] {citation.source}" for citation in run.answer.citations)
        console.print(Panel(f"{escape(shown)}\n\n{escape(sources)}", title="cited context"))
    for gap in run.missing:
        console.print(f"missing: {escape(f'{gap.stage} {gap.subject}: {gap.reason} {gap.detail}')}")
    console.print(f"{run.run_id} · generation {run.generation or _generation(run)} · {seconds:.1f} s")


def _generation(run: RunView) -> str | None:
    return run.answer.generation if run.answer else None


def _decision(decision: DecisionFields) -> Group:
    table = Table(title=f"plan {decision.plan.value} · score {decision.score:.3f} · profile {decision.profile}")
    for heading in ("feature", "value", "weight", "contribution"):
        table.add_column(heading, justify="left" if heading == "feature" else "right")
    for part in decision.contributions:
        table.add_row(part.feature, f"{part.value:.3f}", f"{part.weight:+.3f}", f"{part.contribution:+.3f}")
    thresholds = f"search from {decision.threshold_search:.2f}, full loop from {decision.threshold_full_loop:.2f}"
    vetoes = [f"veto {veto.name}: {veto.why} (lifted by {veto.lifted_by})" for veto in decision.vetoes]
    return Group(table, thresholds, *(vetoes or ["no veto"]))
