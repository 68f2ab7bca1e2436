"""`sluice replay-decisions`: what another configuration of the gate would have decided, and what it would have cost."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from sluice.cli.operate.dead_letter_options import moment
from sluice.cli.output import AsJson, console, marked, print_json, print_table
from sluice.cli.session import session
from sluice.evaluation.decision_replay import DecisionReplay
from sluice.workers.service.learning.replay_decisions import replay_decisions as replay


def replay_decisions(
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
        found = replay(context, profile, since, corpus=corpus, profile=of_profile)
        if as_json:
            print_json(found)
        else:
            _print(found)


def _print(found: DecisionReplay) -> None:
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
