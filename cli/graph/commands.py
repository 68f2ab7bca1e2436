"""`sluice graph`: questions to the graph of what is indexed, what is near in it, how it stands, and reading it anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sluice.cli.agent.answers import leave_unless_finished, path_in_words
from sluice.cli.connection import connected, wait_for, wrong
from sluice.cli.graph.tools import tools
from sluice.cli.output import AsJson, Corpus, console, marked, print_json, print_table

if TYPE_CHECKING:
    from sluice_client import SluiceClient
    from sluice_client.models import CypherResult, GraphProof, GraphStatus

MOST_TESTS = 20
"""That are printed."""

Nearness = Literal["edges", "failing-tests", "tests", "meaning"]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for the run's end; it goes on in any case.")]

graph = typer.Typer(help="The graph of what is indexed: ask it, see how it stands, read it anew.", no_args_is_help=True)


@graph.command()
def query(
    cypher: Annotated[str | None, typer.Argument(help="The question; instead of it --file.")] = None,
    corpus: Corpus = "default",
    file: Annotated[str | None, typer.Option(help="A file with the question; - for standard input.")] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="name=value for $name; JSON, or else a text. Repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Rows at most.")] = 100,
    timeout: Annotated[float, typer.Option(help="Seconds that it may take, up to 30.")] = 5.0,
    server: Annotated[bool, typer.Option("--server", help="Ask the Neo4j or Memgraph of graph.url.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask in Cypher, which only reads: MATCH, WHERE, WITH, RETURN, ORDER BY, SKIP, LIMIT."""
    with connected(as_json=as_json) as client:
        found = client.graph_query(
            _question(cypher, file),
            corpus,
            parameters=dict(map(_parameter, parameter or ())),
            limit=limit,
            timeout_seconds=timeout,
            server=server,
        )
        if as_json:
            print_json(found)
        else:
            _print_rows(found)


@graph.command()
def near(
    what: Annotated[
        str,
        typer.Argument(help="A symbol, a module, a path, label and key (Symbol:python:shop.cart.Cart); or a question."),
    ],
    by: Annotated[
        Nearness,
        typer.Option(
            help="edges: its neighbours, the surest first. failing-tests, tests: what is linked to the tests that "
            "touch it, and by which path. meaning: documents near a question, by the Neo4j or Memgraph of graph.url."
        ),
    ] = "edges",
    corpus: Corpus = "default",
    direction: Annotated[
        Literal["out", "in"] | None, typer.Option(help="Only edges that leave it, or arrive; by edges.")
    ] = None,
    edge: Annotated[
        list[str] | None, typer.Option(help="Only edges of this type, such as REFERS_TO; by edges. Repeatable.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-k", min=1, help="So many at most: 50 by edges, else 10.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is near: the neighbours of a node, what its tests lead to, or documents that mean what is said."""
    with connected(as_json=as_json) as client:
        if by != "edges" and (direction or edge):
            raise wrong("edge" if edge else "direction", f"says nothing by {by}", "--by edges")
        found: Any
        match by:
            case "edges":
                found = client.graph_neighbours(what, corpus, direction=direction, edges=edge or (), limit=limit or 50)
            case "meaning":
                found = client.graph_nearest(what, corpus, top_k=limit or 10)
            case _:
                found = client.graph_linked(what, corpus, failing=by == "failing-tests", top_k=limit or 10)
        if as_json:
            print_json(found)
        else:
            {"edges": _print_neighbours, "meaning": _print_nearest}.get(by, _print_linked)(found, by)


@graph.command()
def status(
    corpus: Annotated[str | None, typer.Option("--corpus", "-c", help="Of this corpus alone; else of all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what each graph holds, what is published of it, and how far that is behind."""
    with connected(as_json=as_json) as client:
        found = [client.graph_status(corpus)] if corpus else client.graphs()
        if as_json:
            print_json([{**dict(one), "behind": _behind(one)} for one in found])
            return
        columns = ("corpus", "documents", "edges", "published", "behind", "Cypher", "hash", "problem")
        rows = [
            (
                one.corpus,
                one.documents,
                one.edges,
                one.generation,
                _behind(one),
                one.cypher_version,
                one.graph_sha256[:16],
                one.problem,
            )
            for one in found
        ]
        print_table("graphs", columns, rows)


@graph.command()
def rebuild(
    corpus: Corpus = "default",
    proven: Annotated[
        bool, typer.Option("--prove", help="Change nothing: read it anew beside the one that grew, and compare.")
    ] = False,
    timeout: Timeout = 3_600,
    as_json: AsJson = False,
) -> None:
    """Read every document into the graph anew. With `--prove`, exit code 1 where the graph that grew is another."""
    with connected(as_json=as_json) as client:
        if proven:
            _tell_proof(client.prove_graph(corpus, patience_seconds=timeout), as_json=as_json)
        else:
            _rebuild(client, corpus, timeout, as_json=as_json)


graph.command()(tools)


def _rebuild(client: SluiceClient, corpus: str, timeout_seconds: float, *, as_json: bool) -> None:
    view = wait_for(client, client.rebuild_graph(corpus).run_id, timeout_seconds)
    stands = client.graph_status(corpus)
    if as_json:
        print_json({"run_id": view.run_id, "status": view.status, "graph": stands})
    else:
        told = f"{marked(corpus)}: {stands.documents} documents, {stands.edges} edges, {stands.graph_sha256[:16]}"
        console.print(f"{told} · {view.run_id} {view.status}", highlight=False, soft_wrap=True)
    leave_unless_finished(view)


def _tell_proof(proof: GraphProof, *, as_json: bool) -> None:
    is_equal = proof.grown_sha256 == proof.rebuilt_sha256
    told = f"{marked(proof.corpus)}: {proof.documents} documents, {proof.edges} edges"
    if as_json:
        print_json({**dict(proof), "is_equal": is_equal})
    elif is_equal:
        console.print(f"{told}: the graph that grew is the same ({proof.grown_sha256[:16]})", highlight=False)
    else:
        console.print(
            f"{told}: [red]the graph that grew is another[/]: {proof.grown_sha256[:16]} grown, "
            f"{proof.rebuilt_sha256[:16]} read anew; {marked(', '.join(proof.differing or ()))}",
            highlight=False,
            soft_wrap=True,
        )
    if not is_equal:
        raise typer.Exit(1)


def _behind(one: GraphStatus) -> int:
    """Changes that are not published yet."""
    return max(0, one.version - one.published_version)


def _question(cypher: str | None, file: str | None) -> str:
    if (cypher is None) is (file is None):
        raise wrong("query", "give the question or --file", "--file - reads standard input")
    if cypher is not None:
        return cypher
    try:
        return sys.stdin.read() if file == "-" else Path(str(file)).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise wrong("file", f"cannot be read: {error}", "a text in UTF-8, or - for standard input") from error


def _parameter(told: str) -> tuple[str, Any]:
    name, equals, value = told.partition("=")
    if not (equals and name):
        raise wrong("param", f"{told!r} is no name=value", "--param name=Cart")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _print_rows(found: CypherResult) -> None:
    told = f"{found.generation} · {found.duration_ms:.1f} ms"
    behind = f" · {found.behind} changes behind" if found.behind else ""
    if found.rows:
        print_table("", found.columns, [[_cell(value) for value in row] for row in found.rows])
    count = f"{len(found.rows)} row{'' if len(found.rows) == 1 else 's'}"
    console.print(f"[dim]{count} · {told}{behind}[/]", highlight=False, soft_wrap=True)
    if found.is_cut:
        console.print("[dim]there are more rows; raise --limit[/]", highlight=False)


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _print_neighbours(found: Any, _by: str) -> None:
    rows = [
        (
            one.node.path or one.node.id,
            f"-{one.edge}->" if one.direction == "out" else f"<-{one.edge}-",
            one.origin,
            one.lines[:10],
            f"1 of {one.candidates}" if one.candidates > 1 else "",
            one.detail,
        )
        for one in found.neighbours
    ]
    title = f"{found.node.path or found.node.id} · {found.generation}"
    print_table(title, ("neighbour", "edge", "by", "lines", "candidates", "detail"), rows)
    if found.total > len(rows):
        console.print(f"[dim]{marked(found.total)} in all; raise --limit[/]", highlight=False)


def _print_linked(found: Any, by: str) -> None:
    kind = by.replace("-", " ")
    print_table(f"{kind} that touch {found.module}", ("test",), [(test.id,) for test in found.tests[:MOST_TESTS]])
    if len(found.tests) > MOST_TESTS:
        console.print(f"[dim]{len(found.tests)} in all; --json lists them[/]", highlight=False)
    rows = [(one.document.name, f"{one.score:.3f}", path_in_words(one.path)) for one in found.documents]
    print_table(f"documents · {found.generation}", ("document", "score", "by"), rows)


def _print_nearest(found: Any, _by: str) -> None:
    near = [(one.path or one.url or one.document_id, f"{one.score:.3f}") for one in found.documents]
    print_table("documents", ("document", "cosine"), near)
    linked = [(one.path or one.url or one.document_id, one.shared, one.names) for one in found.linked]
    print_table("linked to them", ("document", "shared names", "names"), linked)
