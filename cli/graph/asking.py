"""`sluice graph query`, `neighbours` and `linked`: questions to the published graph of a corpus."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from sluice.cli.output import AsJson, Corpus, checked_corpus, console, marked, print_json, print_table
from sluice.cli.session import session
from sluice.contracts.errors import InvalidInput, first_problem
from sluice.contracts.graph.api import Cell, CypherRequest, CypherResult, Neighbours
from sluice.contracts.graph.model import EdgeType
from sluice.workers.service.caller import OWN_MACHINE
from sluice.workers.service.graph.desk import GraphDesk

MOST_TESTS = 20
"""That are printed."""


class Direction(StrEnum):
    """Which edges of a node."""

    OUT = "out"
    IN = "in"


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
    with session(as_json=as_json) as context:
        request = _request(
            query=_question(cypher, file),
            corpus=corpus,
            parameters=dict(map(_parameter, parameter or ())),
            limit=limit,
            timeout_seconds=timeout,
            server=server,
        )
        found = GraphDesk(context).query(request, OWN_MACHINE)
        if as_json:
            print_json(found)
        else:
            _print_rows(found)


def nearest(
    question: Annotated[str, typer.Argument(help="What is asked.")],
    corpus: Corpus = "default",
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=100, help="Documents at most.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Show the documents that the Neo4j or Memgraph of graph.url finds nearest to a question, and their links."""
    with session(as_json=as_json) as context:
        found = GraphDesk(context).nearest(checked_corpus(corpus), question, OWN_MACHINE, top_k=top_k)
        if as_json:
            print_json(found)
            return
        near = [(one.path or one.url or one.document_id, f"{one.score:.3f}") for one in found.documents]
        print_table("documents", ("document", "cosine"), near)
        linked = [(one.path or one.url or one.document_id, one.shared, one.names) for one in found.linked]
        print_table("linked to them", ("document", "shared names", "names"), linked)


def neighbours(
    node: Annotated[str, typer.Argument(help="Label and key (Symbol:python:shop.cart.Cart), a path, or a plain name.")],
    corpus: Corpus = "default",
    direction: Annotated[Direction | None, typer.Option(help="Only edges that leave it, or arrive.")] = None,
    edge: Annotated[list[EdgeType] | None, typer.Option(help="Only edges of this type. Repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Neighbours at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show what is next to a node, the surest edges first."""
    with session(as_json=as_json) as context:
        found = GraphDesk(context).neighbours(
            checked_corpus(corpus),
            node,
            OWN_MACHINE,
            direction=direction.value if direction else None,
            types=tuple(edge or ()),
            limit=limit,
        )
        if as_json:
            print_json(found)
        else:
            _print_neighbours(found)


def linked(
    module: Annotated[str, typer.Argument(help="A module, another symbol, or a path.")],
    corpus: Corpus = "default",
    failing: Annotated[
        bool, typer.Option("--failing/--all", help="Only tests that a report names as failing, or all tests.")
    ] = True,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=100, help="Documents at most.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show the documents linked to a failing test that touches a module, and by which path."""
    with session(as_json=as_json) as context:
        found = GraphDesk(context).linked(checked_corpus(corpus), module, OWN_MACHINE, failing=failing, top_k=top_k)
        if as_json:
            print_json(found)
            return
        kind = "failing tests" if failing else "tests"
        print_table(f"{kind} that touch {module}", ("test",), [(test.id,) for test in found.tests[:MOST_TESTS]])
        if len(found.tests) > MOST_TESTS:
            console.print(f"[dim]{len(found.tests)} in all; --json lists them[/]", highlight=False)
        rows = [(one.document.name, f"{one.score:.3f}", one.path) for one in found.documents]
        print_table(f"documents · {found.generation}", ("document", "score", "by"), rows)


def _request(**values: object) -> CypherRequest:
    try:
        return CypherRequest.model_validate(values)
    except ValidationError as error:
        raise InvalidInput(*first_problem(error)) from error


def _question(cypher: str | None, file: str | None) -> str:
    if (cypher is None) is (file is None):
        raise InvalidInput("query", "give the question or --file", "--file - reads standard input")
    if cypher is not None:
        return cypher
    try:
        return sys.stdin.read() if file == "-" else Path(str(file)).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("file", f"cannot be read: {error}", "a text in UTF-8, or - for standard input") from error


def _parameter(told: str) -> tuple[str, Cell]:
    name, equals, value = told.partition("=")
    if not (equals and name):
        raise InvalidInput("param", f"{told!r} is no name=value", "--param name=Cart")
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


def _cell(value: Cell) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _print_neighbours(found: Neighbours) -> None:
    rows = [
        (
            one.node.id if one.node.path is None else one.node.path,
            f"-{one.edge}->" if one.direction == "out" else f"<-{one.edge}-",
            one.origin,
            one.lines[:10],
            f"1 of {one.candidates}" if one.candidates > 1 else "",
            one.detail,
        )
        for one in found.neighbours
    ]
    print_table(
        f"{found.node.path or found.node.id} · {found.generation}",
        ("neighbour", "edge", "by", "lines", "candidates", "detail"),
        rows,
    )
    if found.total > len(rows):
        console.print(f"[dim]{marked(found.total)} in all; raise --limit[/]", highlight=False)
