"""Prints a run: the cited context, the gaps, the cost, and the gate's decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from sluice.cli.output import console, marked, plain_text, print_json, print_table

if TYPE_CHECKING:
    from sluice.contracts.api import RunView as RecordedRun
    from sluice.contracts.gate import DecisionFields
    from sluice.contracts.learning.control import ModelUse as RecordedUse
    from sluice.contracts.trust import GateCheck as Check
    from sluice_client.models import (
        Answer,
        CodeSample,
        Decision,
        Gap,
        GateCheck,
        GraphPath,
        ModelUse,
        PassageInsights,
        PromptMessage,
        RunView,
        StaleCitation,
        TrustScore,
    )


def print_run(view: RunView, *, as_json: bool, why: bool = False, show_prompt: bool = False) -> None:
    """Print a run: its answer first, or the messages of its prompt; with `why`, how the gate decided, last."""
    if as_json:
        print_json(view)
        return
    if show_prompt:
        print_prompt(view.prompt)
    elif view.answer:
        print_answer(view.answer)
    print_stale(view.stale or ())
    print_gaps(view.missing)
    if view.decision and not why and not (view.answer and view.answer.context):
        print_vetoes(view.decision)
    console.print(
        f"[dim]{view.run_id} {view.status} · {_plan(view)}{view.spend.pages} pages · {view.spend.tokens} tokens · "
        f"{view.spend.usd:.4f} USD · generation {_generation(view) or 'none'}[/]",
        highlight=False,
        soft_wrap=True,
    )
    if why and view.decision:
        print_decision(view.decision)
    if why and view.answer:
        print_paths([(citation.number, citation.graph_path) for citation in view.answer.citations])
        print_trust(view.answer.trust_scores, view.answer.checks)


def print_paths(paths: Iterable[tuple[int, str | None]]) -> None:
    """Print by which path the graph led to each passage, by its number."""
    for number, path in paths:
        if path is not None:
            console.print(f"[dim]\\[{number}] via {marked(path)}[/]", highlight=False, soft_wrap=True)


def path_in_words(path: GraphPath) -> str:
    """As `test_login.py REFERS_TO Session DEFINED_IN session.py`."""
    told = [path.start]
    for step in path.steps:
        arrow = f"<-{step.edge}-" if step.is_reverse else step.edge
        told += [arrow, step.name + (f" (1 of {step.candidates})" if (step.candidates or 1) > 1 else "")]
    return " ".join(told)


def print_stale(citations: Sequence[StaleCitation]) -> None:
    """Print which citations are no longer so at their source."""
    for one in citations:
        told = f"{one.what} since {one.changed_at:%Y-%m-%d %H:%M} UTC: {marked(one.url or one.document_id)}"
        console.print(f"[yellow]stale[/] \\[{one.citation}] {told}", highlight=False, soft_wrap=True)


def _generation(view: RunView) -> str | None:
    return view.generation or (view.answer.generation if view.answer else None)


def _plan(view: RunView) -> str:
    return f"plan {view.decision.plan} · " if view.decision else ""


def leave_unless_finished(view: RunView | RecordedRun) -> None:
    """Leave with exit code 1 when the run did not end well."""
    if view.status != "finished":
        raise typer.Exit(1)


def print_decision(decision: Decision | DecisionFields) -> None:
    """Print why the gate decided as it did."""
    console.print(
        f"[bold]plan {decision.plan}[/] · score {decision.score:.3f} "
        f"(search from {decision.threshold_search:g}, full loop from {decision.threshold_full_loop:g}) · "
        f"intent {marked(decision.intent)} · profile {marked(decision.profile)} v{decision.profile_version} "
        f"{decision.config_hash[:12]}",
        highlight=False,
    )
    if decision.coverage_probability is not None:
        console.print(f"the corpus answers with a probability of {decision.coverage_probability:.2f}", highlight=False)
    if decision.control is not None and decision.control.model is not None:
        console.print(describe_model(decision.control.model), highlight=False)
    rows = [
        (c.feature, f"{c.value:.3f}", f"{c.weight:+.3f}", f"{c.contribution:+.4f}", c.raw)
        for c in decision.contributions
    ]
    print_table("features", ("feature", "value", "weight", "contribution", "measured"), rows)
    print_vetoes(decision)


def describe_model(use: ModelUse | RecordedUse) -> str:
    """The part that a learned model had in a decision, in words."""
    told = f"model {marked(use.version)} ({use.arm})"
    if use.probability is None:
        return f"{told} was not asked"
    return f"{told}: the corpus answers with a probability of {use.probability:.2f}, plan {use.plan}"


def print_trust(scores: Sequence[TrustScore], checks: Sequence[GateCheck]) -> None:
    """Print each passage's trust with its factors (`-` for one that cannot apply), and what the gates say."""
    rows = [
        (
            number,
            f"{one.score:.3f}",
            one.origin,
            _factor(one.factors.domainTrust),
            _factor(one.factors.signatureValid),
            _factor(one.factors.authorReputation),
            f"{one.factors.timeFreshness:.3f}",
            one.chunkId,
        )
        for number, one in enumerate(scores or (), start=1)
    ]
    print_table("trust", ("#", "trust", "origin", "domain", "signature", "author", "freshness", "chunk"), rows)
    for check in checks or ():
        outcome = "[green]passed[/]" if check.passed else "[red]failed[/]"
        console.print(f"{outcome} {describe_check(check)}", highlight=False, soft_wrap=True)


def describe_check(check: GateCheck | Check) -> str:
    """A gate's outcome in words."""
    lowest = f", lowest {check.minimum:.3f}" if check.minimum is not None else ""
    detail = f": {check.detail}" if check.detail else ""
    return f"{check.id} ({check.severity}): {check.value:.3g}, threshold {check.threshold:g}{lowest}{marked(detail)}"


def _factor(value: float | None) -> str:
    return "-" if value is None else f"{float(value):g}"


def print_vetoes(decision: Decision | DecisionFields) -> None:
    """Print what lowered the plan, and what would lift it."""
    for veto in decision.vetoes or ():
        console.print(
            f"[yellow]veto {marked(veto.name)}[/]: {veto.lowered_from} → {veto.lowered_to}: {marked(veto.why)} "
            f"(lifted by: {marked(veto.lifted_by)})",
            highlight=False,
            soft_wrap=True,
        )


def print_answer(answer: Answer) -> None:
    """Print the cited context, each passage under its source, and what its limits are."""
    if answer.context:
        console.print(plain_text(answer.context), markup=False, highlight=False, soft_wrap=True)
        console.print()
    elif answer.plan == "skip":
        console.print("[dim]nothing was looked up for this[/]", highlight=False)
    else:
        console.print(f"[dim]nothing in corpus {marked(answer.corpus)} answers this[/]", highlight=False)
    print_insights(answer)
    if answer.limits:
        console.print(f"[yellow]{marked(answer.limits)}[/]", highlight=False, soft_wrap=True)


def print_insights(answer: Answer) -> None:
    """Print what a profile had the answer checked for; nothing where it asks for nothing."""
    for citation in answer.citations:
        told = [*_told_insights(citation.insights), *_told_code(citation.code)]
        if told:
            console.print(f"[dim]\\[{citation.number}] {marked(' · '.join(told))}[/]", highlight=False, soft_wrap=True)
    if answer.insights is None:
        return
    for where, voices in (("answer", answer.insights.answer_voices), ("corpus", answer.insights.corpus_voices)):
        if voices:
            shares = ", ".join(f"{one.brand} {one.share:.0%} ({one.passages} passages)" for one in voices)
            console.print(
                f"[dim]{marked(f'share of voice in the {where}: {shares}')}[/]", highlight=False, soft_wrap=True
            )
    if channels := answer.insights.channels:
        kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in channels.passages.items())
        told_channels = f"channels: {kinds} · {channels.domains} domains · diversity {channels.diversity:.2f}"
        console.print(f"[dim]{told_channels}[/]", highlight=False, soft_wrap=True)


def _told_insights(found: PassageInsights | None) -> list[str]:
    if found is None:
        return []
    told = [found.channel.replace("_", " ")] if found.channel else []
    if found.sentiment:
        told.append(f"{found.sentiment.label} {found.sentiment.score:+.2f}")
    if found.disclosure:
        told.append(f"disclosure {found.disclosure.status} ({found.disclosure.text})")
    return [*told, *(f"claim needs proof: {claim.text} ({claim.rule})" for claim in found.claims or ())]


def _told_code(sample: CodeSample | None) -> list[str]:
    if sample is None:
        return []
    why = f" ({'; '.join(sample.why)})" if sample.why else ""
    return [f"{sample.language or 'code'}, not executed, {sample.policy.replace('_', ' ')}{why}"]


def print_prompt(messages: Sequence[PromptMessage]) -> None:
    """Print the messages of a prompt, each under its role."""
    for message in messages or ():
        console.print(f"[bold]{message.role}[/]")
        console.print(plain_text(message.content), markup=False, highlight=False, soft_wrap=True)
        console.print()


def print_gaps(gaps: Sequence[Gap]) -> None:
    """Print what could not be had, and why."""
    for gap in gaps or ():
        lifted = f" (lifted by: {gap.lifted_by})" if gap.lifted_by else ""
        told = marked(f"{gap.stage} · {gap.subject}: {gap.reason} {gap.detail}{lifted}")
        console.print(f"[yellow]missing[/] {told}", highlight=False, soft_wrap=True)
