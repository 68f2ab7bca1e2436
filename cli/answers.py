"""How a run is shown: the decision and its reasons, the cited context, what is missing, what it cost."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from cli.output import console, marked, plain_text, print_json, print_table
from contracts.api import RunView
from contracts.event import Gap
from contracts.gate import GateDecided
from contracts.index import Answer


def print_run(view: RunView, *, as_json: bool) -> None:
    """Print a run."""
    if as_json:
        print_json(view)
        return
    if view.decision:
        print_decision(view.decision)
    if view.answer:
        print_answer(view.answer)
    print_gaps(view.missing)
    console.print(
        f"[bold]{view.run_id}[/] {view.status} · {view.spend.pages} pages · {view.spend.tokens} tokens · "
        f"{view.spend.usd:.4f} USD · generation {view.generation or 'none'}",
        highlight=False,
        soft_wrap=True,
    )


def leave_unless_finished(view: RunView) -> None:
    """Leave with exit code 1 when the run did not end well."""
    if view.status != "finished":
        raise typer.Exit(1)


def print_decision(decision: GateDecided) -> None:
    """Print why the gate decided as it did."""
    console.print(
        f"[bold]plan {decision.plan}[/] · score {decision.score:.3f} "
        f"(search from {decision.threshold_search:g}, full loop from {decision.threshold_full_loop:g}) · "
        f"intent {marked(decision.intent)} · profile {marked(decision.profile)} v{decision.profile_version} "
        f"{decision.config_hash[:12]}",
        highlight=False,
    )
    rows = [
        (c.feature, f"{c.value:.3f}", f"{c.weight:+.3f}", f"{c.contribution:+.4f}", c.raw)
        for c in decision.contributions
    ]
    print_table("features", ("feature", "value", "weight", "contribution", "measured"), rows)
    for veto in decision.vetoes:
        console.print(
            f"[yellow]veto {marked(veto.name)}[/]: {veto.lowered_from} → {veto.lowered_to}: {marked(veto.why)} "
            f"(lifted by: {marked(veto.lifted_by)})",
            highlight=False,
        )


def print_answer(answer: Answer) -> None:
    """Print the cited context."""
    if answer.context:
        console.print(plain_text(answer.context), markup=False, highlight=False, soft_wrap=True)
    else:
        console.print("[dim](no context)[/]")
    for citation in answer.citations:
        told = f"[{citation.number}] {citation.source}"
        console.print(f"[dim]{marked(told)}[/]", highlight=False, soft_wrap=True)
    console.print(
        f"[dim]generation {answer.generation or 'none'} · plan {answer.plan} · {len(answer.citations)} citations[/]",
        highlight=False,
    )


def print_gaps(gaps: Sequence[Gap]) -> None:
    """Print what could not be had, and why."""
    for gap in gaps:
        lifted = f" (lifted by: {gap.lifted_by})" if gap.lifted_by else ""
        told = marked(f"{gap.stage} · {gap.subject}: {gap.reason} {gap.detail}{lifted}")
        console.print(f"[yellow]missing[/] {told}", highlight=False, soft_wrap=True)
