"""Asking: `ask` goes through the gate, `query` straight to the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.agent.answers import (
    leave_unless_finished,
    path_in_words,
    print_paths,
    print_prompt,
    print_run,
    print_trust,
)
from sluice.cli.choices import Plan, Strategy
from sluice.cli.connection import connected, follow, given, wrong
from sluice.cli.output import AsJson, Corpus, console, error_console, marked, print_json, print_table

if TYPE_CHECKING:
    from sluice_client import SluiceClient
    from sluice_client.models import Retrieval

GRACE_SECONDS = 15.0
"""What a run may take beyond its deadline to hand over its answer."""


def ask(
    question: str,
    corpus: Corpus = "default",
    profile: Annotated[str, typer.Option(help="The gate's profile; see `sluice gate profiles`.")] = "default",
    plan: Annotated[Plan | None, typer.Option(help="Override the score (never a veto).")] = None,
    rag: Annotated[
        bool | None,
        typer.Option(
            "--rag/--no-rag",
            help="--no-rag is --plan skip: the answer has no context. --rag, the default, lets the gate decide.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[list[str] | None, typer.Option(help="A URL to crawl first. Repeatable.")] = None,
    deadline: Annotated[float, typer.Option(help="Seconds until the answer is given with what is there.")] = 60.0,
    confidence_floor: Annotated[
        float | None, typer.Option(help="Cite nothing that answers with a lower probability; 0 cites what is found.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Print the messages of this prompt instead; see `sluice prompts`.")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Show how the gate decided, and why sources are trusted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask the gate, and wait for the cited answer."""
    with connected(as_json=as_json) as client:
        asked = given(plan=choose_plan(plan, rag=rag), confidence_floor=confidence_floor, prompt=prompt)
        accepted = client.gate(
            question, corpus, wait=False, profile=profile, seeds=seed or [], deadline_seconds=deadline, **asked
        )
        _tell_events(client, accepted.run_id, deadline + GRACE_SECONDS, quiet=as_json)
        view = client.run(accepted.run_id)
        print_run(view, as_json=as_json, why=why, show_prompt=prompt is not None)
        leave_unless_finished(view)


def choose_plan(plan: Plan | None, *, rag: bool | None) -> Plan | None:
    """The plan to ask for: `skip` without retrieval, else the one that is named; None lets the gate decide.

    Raises:
        InvalidInput: the two contradict each other.
    """
    if rag is None or plan is None:
        return "skip" if rag is False else plan
    if rag is (plan == "skip"):
        raise wrong("rag", f"contradicts --plan {plan}", "name one of the two")
    return plan


def query(
    text: str,
    corpus: Corpus = "default",
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="How many chunks at most.")] = 8,
    strategy: Annotated[Strategy, typer.Option(help="Which arms find candidates.")] = "hybrid",
    trust_threshold: Annotated[float, typer.Option(help="Drop what is trusted less, from 0 to 1.")] = 0.0,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens of all chunks together at most.")] = None,
    diversity: Annotated[
        float | None, typer.Option(help="0: by relevance alone; 1: by difference from those before alone.")
    ] = None,
    neighbours: Annotated[int, typer.Option(help="Chunks before and behind each one, given with it.")] = 0,
    max_per_domain: Annotated[int | None, typer.Option(help="Results of one host at most; 0 for no cap.")] = None,
    duplicate_threshold: Annotated[
        float | None, typer.Option(help="How alike two texts must be to count as one; 0 for never.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Print the messages of this prompt instead; see `sluice prompts`.")
    ] = None,
    rerank: Annotated[bool, typer.Option(help="Ask the reranker, where one is configured.")] = True,
    confidence_floor: Annotated[
        float | None, typer.Option(help="Leave out what answers with a lower probability, from 0 to 1.")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Show how far each source is trusted, and why.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search the corpus as it is, without the gate."""
    with connected(as_json=as_json) as client:
        limits = given(
            max_tokens=max_tokens,
            diversity=diversity,
            max_per_domain=max_per_domain,
            duplicate_threshold=duplicate_threshold,
            confidence_floor=confidence_floor,
            prompt=prompt,
        )
        found = client.query(
            text,
            corpus,
            top_k=top_k,
            strategy=strategy,
            trust_threshold=trust_threshold,
            neighbours=neighbours,
            rerank=rerank,
            **limits,
        )
        if as_json:
            print_json(found)
        elif found.prompt:
            print_prompt(found.prompt)
        else:
            _print_chunks(found)
            if why:
                print_trust(found.metadata.trust_scores, found.metadata.checks)


def _tell_events(client: SluiceClient, run_id: str, timeout_seconds: float, *, quiet: bool) -> None:
    with error_console.status(f"run {run_id}") as status:
        for event in follow(client, run_id, timeout_seconds):
            if not quiet:
                status.update(f"{event.kind} · run {run_id}")


def _print_chunks(found: Retrieval) -> None:
    rows = [
        (
            chunk.rank,
            f"{chunk.fused_score:.4f}",
            "" if chunk.confidence is None else f"{chunk.confidence:.0%}",
            f"{chunk.url or chunk.file_path or chunk.document_id}:{chunk.start_line}-{chunk.end_line}",
            " ".join(chunk.text.split())[:120],
        )
        for chunk in found.chunks
    ]
    title = f"{found.generation or 'no generation yet'} · {found.metadata.duration_ms:.1f} ms"
    print_table(title, ("rank", "score", "confidence", "source", "text"), rows)
    print_paths((one.rank, path_in_words(one.graph_path) if one.graph_path else None) for one in found.chunks)
    if found.metadata.graph and found.metadata.graph.abstained:
        console.print(f"[dim]graph: {marked(found.metadata.graph.abstained)}[/]", highlight=False, soft_wrap=True)
