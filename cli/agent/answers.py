"""Prints a run: the cited context, the gaps, the cost, and the gate's decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sluice.cli.command import Shown, print_rows
from sluice.cli.output import console, marked, say

if TYPE_CHECKING:
    from sluice.contracts.trust import GateCheck
    from sluice_client import models


def shown_run(view: Any, **how: bool) -> Shown:
    """Return a run as a command's answer, drawn by `print_run`. The exit code is 1 where the run did not end well."""
    return Shown(view, lambda: print_run(view, **how), exit_code=int(view.status != "finished"))


def print_run(view: models.RunView, *, why: bool = False, show_prompt: bool = False) -> None:
    """Print a run: its answer or the messages of its prompt first; with `why`, the gate's decision last."""
    if show_prompt:
        print_prompt(view.prompt)
    elif view.answer:
        _print_answer(view.answer)
    for stale in view.stale or ():
        told = f"{stale.what} since {stale.changed_at:%Y-%m-%d %H:%M} UTC: {marked(stale.url or stale.document_id)}"
        console.print(f"[yellow]stale[/] \\[{stale.citation}] {told}")
    for gap in view.missing or ():
        lifted = f" (lifted by: {gap.lifted_by})" if gap.lifted_by else ""
        console.print(f"[yellow]missing[/] {marked(f'{gap.stage} · {gap.subject}: {gap.reason} {gap.detail}{lifted}')}")
    for gap in view.mended or ():
        told = f"{gap.stage} · {gap.subject}: {gap.reason}, until its dead letter was replayed with success"
        console.print(f"[green]mended[/] {marked(told)}")
    if view.decision and not why and not (view.answer and view.answer.context):
        _print_vetoes(view.decision)
    plan = f"plan {view.decision.plan} · " if view.decision else ""
    generation = view.generation or (view.answer.generation if view.answer else None) or "none"
    console.print(
        f"[dim]{view.run_id} {view.status} · {plan}{view.spend.pages} pages · {view.spend.tokens} tokens · "
        f"{view.spend.usd:.4f} USD · generation {generation}[/]"
    )
    if why and view.decision:
        print_decision(view.decision)
    if why and view.answer:
        print_paths((citation.number, citation.graph_path) for citation in view.answer.citations)
        print_trust(view.answer.trust_scores, view.answer.checks)


def print_prompt(messages: Sequence[models.PromptMessage]) -> None:
    """Print the messages of a prompt, each under its role."""
    for message in messages or ():
        console.print(f"[bold]{message.role}[/]")
        say(message.content)
        console.print()


# -- answer


def _print_answer(answer: models.Answer) -> None:
    if answer.context:
        say(answer.context)
        console.print()
    elif answer.plan == "skip":
        console.print("[dim]nothing was looked up for this[/]")
    else:
        console.print(f"[dim]nothing in corpus {marked(answer.corpus)} answers this[/]")
    for citation in answer.citations:
        if told := [*_insights_in_words(citation.insights), *_code_in_words(citation.code)]:
            console.print(f"[dim]\\[{citation.number}] {marked(' · '.join(told))}[/]")
    if found := answer.insights:
        for where, voices in (("answer", found.answer_voices), ("corpus", found.corpus_voices)):
            if voices:
                shares = ", ".join(f"{one.brand} {one.share:.0%} ({one.passages} passages)" for one in voices)
                console.print(f"[dim]{marked(f'share of voice in the {where}: {shares}')}[/]")
        if channels := found.channels:
            kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in channels.passages.items())
            console.print(
                f"[dim]channels: {kinds} · {channels.domains} domains · diversity {channels.diversity:.2f}[/]"
            )
    if answer.limits:
        console.print(f"[yellow]{marked(answer.limits)}[/]")


def _insights_in_words(found: models.PassageInsights | None) -> Iterator[str]:
    if found is None:
        return
    if found.channel:
        yield found.channel.replace("_", " ")
    if found.sentiment:
        yield f"{found.sentiment.label} {found.sentiment.score:+.2f}"
    if found.disclosure:
        yield f"disclosure {found.disclosure.status} ({found.disclosure.text})"
    yield from (f"claim needs proof: {claim.text} ({claim.rule})" for claim in found.claims or ())


def _code_in_words(sample: models.CodeSample | None) -> Iterator[str]:
    if sample is not None:
        why = f" ({'; '.join(sample.why)})" if sample.why else ""
        yield f"{sample.language or 'code'}, not executed, {sample.policy.replace('_', ' ')}{why}"


def print_paths(paths: Iterable[tuple[int, str | None]]) -> None:
    """Print the path by which the graph led to each passage, with the passage's number."""
    for number, path in paths:
        if path is not None:
            console.print(f"[dim]\\[{number}] via {marked(path)}[/]")


def path_in_words(path: models.GraphPath) -> str:
    """Return a path in words, as `test_login.py REFERS_TO Session DEFINED_IN session.py`."""
    told = [path.start]
    for step in path.steps:
        arrow = f"<-{step.edge}-" if step.is_reverse else step.edge
        told += [arrow, step.name + (f" (1 of {step.candidates})" if (step.candidates or 1) > 1 else "")]
    return " ".join(told)


# -- decision and trust


def print_decision(decision: models.Decision) -> None:
    """Print the reasons of the gate's decision."""
    console.print(
        f"[bold]plan {decision.plan}[/] · score {decision.score:.3f} "
        f"(search from {decision.threshold_search:g}, full loop from {decision.threshold_full_loop:g}) · "
        f"intent {marked(decision.intent)} · profile {marked(decision.profile)} v{decision.profile_version} "
        f"{decision.config_hash[:12]}"
    )
    if decision.coverage_probability is not None:
        say(f"the corpus answers with a probability of {decision.coverage_probability:.2f}")
    if decision.control is not None and (use := decision.control.model) is not None:
        told = f"the corpus answers with a probability of {use.probability or 0:.2f}, plan {use.plan}"
        told = " was not asked" if use.probability is None else f": {told}"
        say(f"model {use.version} ({use.arm}){told}")
    figures = (("value", "{.value:.3f}"), ("weight", "{.weight:+.3f}"), ("contribution", "{.contribution:+.4f}"))
    print_rows("features", decision.contributions, "feature", *figures, "measured=raw")
    _print_vetoes(decision)


def _print_vetoes(decision: models.Decision) -> None:
    """Print each veto that lowered the plan, and the change that would lift it."""
    for veto in decision.vetoes or ():
        console.print(
            f"[yellow]veto {marked(veto.name)}[/]: {veto.lowered_from} → {veto.lowered_to}: {marked(veto.why)} "
            f"(lifted by: {marked(veto.lifted_by)})"
        )


def print_trust(scores: Sequence[models.TrustScore], checks: Sequence[models.GateCheck]) -> None:
    """Print each passage's trust with its factors (`-` for one that cannot apply), and the outcomes of the gates."""
    factors = {"domain": "domainTrust", "signature": "signatureValid", "author": "authorReputation"}
    of = [(name, lambda one, field=field: _factor(getattr(one[1].factors, field))) for name, field in factors.items()]
    ends = (("freshness", "{0[1].factors.timeFreshness:.3f}"), ("chunk", "{0[1].chunkId}"))
    begins = (("#", "{0[0]}"), ("trust", "{0[1].score:.3f}"), ("origin", "{0[1].origin}"))
    print_rows("trust", list(enumerate(scores or (), start=1)), *begins, *of, *ends)
    for check in checks or ():
        outcome = "[green]passed[/]" if check.passed else "[red]failed[/]"
        console.print(f"{outcome} {describe_check(check)}")


def _factor(value: float | None) -> str:
    return "-" if value is None else f"{float(value):g}"


def describe_check(check: models.GateCheck | GateCheck) -> str:
    """Return a gate's outcome in words, escaped for rich's markup."""
    lowest = f", lowest {check.minimum:.3f}" if check.minimum is not None else ""
    detail = f": {check.detail}" if check.detail else ""
    return f"{check.id} ({check.severity}): {check.value:.3g}, threshold {check.threshold:g}{lowest}{marked(detail)}"
