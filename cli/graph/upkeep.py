"""`sluice graph status` and `rebuild`: how the graphs stand, and reading one anew."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.cli.agent.answers import leave_unless_finished
from sluice.cli.output import AsJson, Corpus, checked_corpus, console, marked, print_json, print_table
from sluice.cli.session import goes_on, session, wait_for
from sluice.contracts.graph.api import GraphProof, GraphStatus
from sluice.workers.context import Context
from sluice.workers.service.caller import OWN_MACHINE
from sluice.workers.service.graph.upkeep import GraphUpkeep
from sluice.workers.service.service import Service
from sluice.workers.wiring.graph.directives import is_graphed


def status(
    corpus: Annotated[str | None, typer.Option("--corpus", "-c", help="Of this corpus alone; else of all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what each graph holds, what is published of it, and how far that is behind."""
    with session(as_json=as_json) as context:
        names = [checked_corpus(corpus)] if corpus else list(filter(is_graphed, context.readers.names()))
        found = [_upkeep(context).status(name, OWN_MACHINE) for name in names]
        if as_json:
            print_json([{**one.model_dump(mode="json"), "behind": one.behind} for one in found])
            return
        columns = ("corpus", "documents", "edges", "published", "behind", "Cypher", "hash", "problem")
        print_table("graphs", columns, [_row(one) for one in found])


def rebuild(
    corpus: Corpus = "default",
    proven: Annotated[
        bool, typer.Option("--prove", help="Change nothing: read it anew beside the one that grew, and compare.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the run's end; it goes on in any case.")] = 3_600,
    as_json: AsJson = False,
) -> None:
    """Read every document into the graph anew. With `--prove`, exit code 1 where the graph that grew is another."""
    with session(as_json=as_json, needs_workers=not proven) as context:
        upkeep = _upkeep(context)
        if proven:
            _tell_proof(upkeep.prove(checked_corpus(corpus), OWN_MACHINE), as_json=as_json)
            return
        accepted = upkeep.rebuild(checked_corpus(corpus), OWN_MACHINE)
        with goes_on(accepted.run_id):
            view = wait_for(context, accepted.run_id, timeout)
        stands = upkeep.status(corpus, OWN_MACHINE)
        if as_json:
            print_json({"run_id": view.run_id, "status": view.status, "graph": stands})
        else:
            told = f"{marked(corpus)}: {stands.documents} documents, {stands.edges} edges, {stands.graph_sha256[:16]}"
            console.print(f"{told} · {view.run_id} {view.status}", highlight=False, soft_wrap=True)
        leave_unless_finished(view)


def _upkeep(context: Context) -> GraphUpkeep:
    return GraphUpkeep(context, Service(context))


def _row(one: GraphStatus) -> tuple[object, ...]:
    return (
        one.corpus,
        one.documents,
        one.edges,
        one.generation,
        one.behind,
        one.cypher_version,
        one.graph_sha256[:16],
        one.problem,
    )


def _tell_proof(proof: GraphProof, *, as_json: bool) -> None:
    if as_json:
        print_json({**proof.model_dump(mode="json"), "is_equal": proof.is_equal})
    else:
        told = f"{marked(proof.corpus)}: {proof.documents} documents, {proof.edges} edges"
        if proof.is_equal:
            console.print(f"{told}: the graph that grew is the same ({proof.grown_sha256[:16]})", highlight=False)
        else:
            console.print(
                f"{told}: [red]the graph that grew is another[/]: {proof.grown_sha256[:16]} grown, "
                f"{proof.rebuilt_sha256[:16]} read anew; {marked(', '.join(proof.differing))}",
                highlight=False,
                soft_wrap=True,
            )
    if not proof.is_equal:
        raise typer.Exit(1)
