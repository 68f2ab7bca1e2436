"""Traces: each run's spans are one trace, or traces that links connect, whatever was killed meanwhile.

A span is lost when its process is killed before it was exported: those below it keep its trace, if not its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sluice.otel.spans import EVENT_ID, SpanStore, StoredSpan
from tests.chaos.delivery.instance import BLAMELESS, ChaosInstance
from tests.chaos.delivery.kills import MEAN_SECONDS, feed_under_kills
from tests.chaos.delivery.plan import kill_plan, wait_until
from tests.chaos.delivery.site import Site
from tests.chaos.delivery.truth import Row, rows
from tests.chaos.delivery.verdict import await_quiet, judge
from tests.chaos.delivery.work import Work
from tests.chaos.report import Result

QUIET_SECONDS = 300.0
EXPORTED_SECONDS = 10.0
"""What the last spans may take to reach the store; they go in batches, several a second."""
SECONDS_PER_CHILD = 1.5
_SETTLED = "SELECT id, run_id FROM events WHERE status = 'settled' AND queue IS NOT NULL"


def traces_under_kills(folder: Path, seed: int, kills: int = 50, events: int = 1_500) -> list[Result]:
    """Kills while work flows, then a look at every run's spans."""
    site = Site()
    with ChaosInstance(folder, site.settings() | BLAMELESS) as instance:
        work = Work(instance, f"trace-{seed}", site.address)
        killer = feed_under_kills(work, kill_plan(seed, kills, MEAN_SECONDS), events)
        quiet = await_quiet(instance.ledger_url, QUIET_SECONDS)
        handled = rows(instance.ledger_url, _SETTLED)
        store = SpanStore.in_dir(instance.data_dir)
        wait_until(lambda: not in_pieces(store, work), EXPORTED_SECONDS, look_seconds=2.0)
        problems, unseen = in_pieces(store, work), _without_span(store, handled)
        store.close()
    site.stop()
    return [
        Result(
            "traces under kills",
            f"{killer.delivered} SIGKILLs (seed {seed}), {len(handled):,} events of {len(work.sent):,} runs",
            "one connected graph per run",
            quiet and not problems and killer.delivered == kills,
            {"runs in pieces": len(problems), "events whose span died with its process": len(unseen)},
            tuple(problems),
        )
    ]


def traces_of_short_lived_children(folder: Path, seed: int, tasks: int = 1_000) -> list[Result]:
    """A pool whose children handle one event each and then end: none may take its span with it."""
    with ChaosInstance(folder, {"POOLS__MAX_TASKS_PER_CHILD": "1"}) as instance:
        work = Work(instance, f"child-{seed}")
        work.documents(range(tasks))
        quiet = await_quiet(instance.ledger_url, QUIET_SECONDS + tasks * SECONDS_PER_CHILD)
        verdict = judge(work)
        handled = rows(instance.ledger_url, f"{_SETTLED} AND queue = 'chunk'")
        store = SpanStore.in_dir(instance.data_dir)
        wait_until(lambda: not _without_span(store, handled), EXPORTED_SECONDS, look_seconds=2.0)
        unseen = _without_span(store, handled)
        children = {span.process_id for row in handled for span in _spans_of(store, row)}
        store.close()
    problems = [*verdict.lost, *verdict.doubled, *(f"event {event} has no span" for event in unseen)]
    return [
        Result(
            "spans of short-lived children",
            f"{len(handled):,} events, each handled by a child of its own",
            "no span lost",
            quiet and len(handled) == tasks and not problems,
            {"children": len(children), "spans lost": len(unseen)},
            tuple(problems),
        )
    ]


def in_pieces(store: SpanStore, work: Work) -> list[str]:
    """The runs of the work whose spans are not one connected graph."""
    found = {sent.run_id: pieces(store.of_run(sent.run_id)) for sent in work.sent}
    return [f"the spans of run {run_id} are in {count} pieces" for run_id, count in found.items() if count != 1]


def pieces(spans: Iterable[StoredSpan]) -> int:
    """Count the groups of traces that no link connects."""
    above: dict[str, str] = {}

    def top(trace_id: str) -> str:
        while (over := above.setdefault(trace_id, trace_id)) != trace_id:
            trace_id = over
        return trace_id

    for span in spans:
        for other in (span.trace_id, *(link.trace_id for link in span.links)):
            above[top(other)] = top(span.trace_id)
    return len({top(trace_id) for trace_id in list(above)})


def _without_span(store: SpanStore, handled: Sequence[Row]) -> list[str]:
    return [row["id"] for row in handled if not _spans_of(store, row)]


def _spans_of(store: SpanStore, row: Row) -> list[StoredSpan]:
    return [span for span in store.of_run(row["run_id"]) if span.attributes.get(EVENT_ID) == row["id"]]
