"""`sluice graph`: queries to the graph of a corpus, neighbourhoods in it, its status, rebuilding it, and tools.

`tools` asks MCP servers for their lists of tools, and ingests them.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sluice.cli.agent.answers import path_in_words
from sluice.cli.agent.ingest import counted, indexing_progress, submit, wait_here
from sluice.cli.command import Shown, on_disk, over_http, print_rows, table
from sluice.cli.connection import wait_for, wrong
from sluice.cli.output import checked_corpus, console, print_table, warn
from sluice_client import SluiceClient, models
from sluice_client.errors import Unavailable

if TYPE_CHECKING:
    from sluice.contracts.errors import SluiceError
    from sluice.graph.tools.ask import ToolServer
    from sluice.workers.context import Context

MOST_TESTS = 20
"""Most tests printed."""

Nearness = Literal["edges", "failing-tests", "tests", "meaning"]


@over_http
def query(
    client: SluiceClient,
    cypher: str | None = None,
    corpus: str = "default",
    file: str | None = None,
    parameter: list[str] | None = None,
    limit: int = 100,
    timeout: float = 5.0,
    server: bool = False,
) -> Shown:
    """Ask in Cypher, which only reads: MATCH, WHERE, WITH, RETURN, ORDER BY, SKIP, LIMIT."""
    how = {"parameters": dict(map(_parameter, parameter or ())), "limit": limit, "server": server}
    found = client.graph_query(_question(cypher, file), corpus, timeout_seconds=timeout, **how)
    return Shown(found, lambda: _print_rows(found))


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


def _print_rows(found: models.CypherResult) -> None:
    if found.rows:
        print_table("", found.columns, [[_cell(value) for value in row] for row in found.rows])
    count = f"{len(found.rows)} row{'' if len(found.rows) == 1 else 's'}"
    behind = f" · {found.behind} changes behind" if found.behind else ""
    _dim(f"{count} · {found.generation} · {found.duration_ms:.1f} ms{behind}")
    if found.is_cut:
        _dim("there are more rows; raise --limit")


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _dim(text: str) -> None:
    console.print(text, style="dim", markup=False)


@over_http
def near(
    client: SluiceClient,
    what: str,
    by: Nearness = "edges",
    corpus: str = "default",
    direction: Literal["out", "in"] | None = None,
    edge: list[str] | None = None,
    kind: Literal["docs", "code", "tests"] | None = None,
    limit: int | None = None,
) -> Shown:
    """Show the neighbours of a node, the documents linked to its tests, or documents of similar meaning."""
    if by != "edges" and (direction or edge):
        raise wrong("edge" if edge else "direction", f"says nothing by {by}", "--by edges")
    if by == "meaning" and kind:
        raise wrong("kind", "says nothing by meaning", "--by edges")
    found: Any
    match by:
        case "edges":
            narrowed: Any = {"direction": direction, "edges": edge or (), "kind": kind, "limit": limit or 50}
            found = client.graph_neighbours(what, corpus, **narrowed)
            return Shown(found, lambda: _print_neighbours(found))
        case "meaning":
            found = client.graph_nearest(what, corpus, top_k=limit or 10)
            return Shown(found, lambda: _print_nearest(found))
    found = client.graph_linked(what, corpus, failing=by == "failing-tests", top_k=limit or 10, kind=kind)
    return Shown(found, lambda: _print_linked(found, by.replace("-", " ")))


def _print_neighbours(found: Any) -> None:
    neighbour = ("neighbour", lambda one: one.node.path or one.node.id)
    edge = ("edge", lambda one: f"-{one.edge}->" if one.direction == "out" else f"<-{one.edge}-")
    lines = ("lines", lambda one: one.lines[:10])
    candidates = ("candidates", lambda one: f"1 of {one.candidates}" if one.candidates > 1 else "")
    title = f"{found.node.path or found.node.id} · {found.generation}"
    print_rows(title, found.neighbours, neighbour, edge, "by=origin", lines, candidates, "detail")
    if found.total > len(found.neighbours):
        _dim(f"{found.total} in all; raise --limit")


def _print_linked(found: Any, kind: str) -> None:
    print_rows(f"{kind} that touch {found.module}", found.tests[:MOST_TESTS], "test=id")
    if len(found.tests) > MOST_TESTS:
        _dim(f"{len(found.tests)} in all; --json lists them")
    path = ("by", lambda one: path_in_words(one.path))
    document = ("document", "{.document.name}")
    print_rows(f"documents · {found.generation}", found.documents, document, "kind", ("score", "{.score:.3f}"), path)


def _print_nearest(found: Any) -> None:
    document = ("document", lambda one: one.path or one.url or one.document_id)
    print_rows("documents", found.documents, document, ("cosine", "{.score:.3f}"))
    print_rows("linked to them", found.linked, document, "shared_names=shared names")


@over_http
def status(client: SluiceClient, corpus: str | None = None) -> Shown:
    """Show each graph's size, its published generation, and the number of changes that it lacks."""
    found = [client.graph_status(corpus)] if corpus else client.graphs().data
    digest = ("hash", "{.graph_sha256:.16}")
    columns = ("corpus documents edges published=generation", ("behind", _behind), "Cypher=cypher_version", digest)
    drawn = table("graphs", found, *columns, "problem").drawn
    return Shown([{**dict(one), "behind": _behind(one)} for one in found], drawn)


def _behind(one: models.GraphStatus) -> int:
    """Return the number of changes that are not published yet."""
    return max(0, one.version - one.published_version)


@over_http
def rebuild(client: SluiceClient, corpus: str = "default", proven: bool = False, timeout: float = 3_600) -> Shown:
    """Read every document into the graph anew. With `--prove`, exit code 1 where the graph that grew is another."""
    if proven:
        return _proof(client.prove_graph(corpus, patience_seconds=timeout))
    view = wait_for(client, client.rebuild_graph(corpus).run_id, timeout)
    stands = client.graph_status(corpus)
    told = f"{corpus}: {stands.documents} documents, {stands.edges} edges, {stands.graph_sha256[:16]}"
    value = {"run_id": view.run_id, "status": view.status, "graph": stands}
    return Shown(value, f"{told} · {view.run_id} {view.status}", exit_code=int(view.status != "finished"))


def _proof(proof: models.GraphProof) -> Shown:
    is_equal = proof.grown_sha256 == proof.rebuilt_sha256
    told = f"{proof.corpus}: {proof.documents} documents, {proof.edges} edges: the graph that grew is "
    if is_equal:
        told += f"the same ({proof.grown_sha256[:16]})"
    else:
        told += f"another: {proof.grown_sha256[:16]} grown, {proof.rebuilt_sha256[:16]} read anew; "
        told += ", ".join(proof.differing or ())
    return Shown({**dict(proof), "is_equal": is_equal}, told, exit_code=int(not is_equal))


MOST_CONFIGURATION_BYTES = 1_000_000
ANSWER_SECONDS = 30.0
"""Time for each server to answer: longer than the cold start of one that a package manager runs."""


@on_disk
def tools(
    context: Context,
    configurations: list[Path] | None = None,
    command: list[str] | None = None,
    url: list[str] | None = None,
    name: str | None = None,
    run: bool = False,
    corpus: str = "default",
    timeout: float = 600.0,
    as_json: bool = False,
) -> Shown:
    """Ask MCP servers for their tools, and read them into the corpus: one document a server, mcp/NAME.json.

    A configuration's command runs only with `--run`. An address on this machine needs `mcp=HOST:PORT` in
    `egress.allow`. None of the tools is called.
    """
    from sluice.cli.session import begin_work
    from sluice.workers.service.sources import tool_documents

    begin_work(context)
    servers = [*_given(command or [], url or [], name), *_configured(configurations or [], run=run)]
    if not servers:
        raise wrong("tools", "no server to ask", "name a configuration, a --command or a --url")
    failures: list[SluiceError] = []

    def on_failure(server: ToolServer, error: SluiceError) -> None:
        failures.append(error)
        warn(f"not asked: {error}")

    with indexing_progress(quiet=as_json) as progress:
        now = datetime.now(UTC)
        found = tool_documents(context, servers, timeout_seconds=ANSWER_SECONDS, now=now, on_failure=on_failure)
        documents = list(counted(found, progress))
        if not documents:
            raise failures[0] if len(failures) == 1 else Unavailable(f"none of {len(servers)} servers listed its tools")
        runs = submit(context, checked_corpus(corpus), documents, timeout)
        return wait_here(context, runs, timeout, progress)


def _given(commands: list[str], urls: list[str], name: str | None) -> Iterator[ToolServer]:
    from sluice.graph.tools.ask import ToolServer

    if name is not None and len(commands) + len(urls) != 1:
        raise wrong("--name", "names one server", "give one --command or one --url with it")
    for command in commands:
        try:
            program, *arguments = shlex.split(command)
        except ValueError as error:
            remedy = "close its quotes, and name a program"
            raise wrong("--command", "cannot be read as a command", remedy) from error
        own = name or Path(arguments[-1] if arguments else program).stem
        yield ToolServer(own, command=program, arguments=tuple(arguments))
    for url in urls:
        yield ToolServer(name or ToolServer("", url=url).place, url=url)


def _configured(paths: list[Path], *, run: bool) -> Iterator[ToolServer]:
    from sluice.graph.tools.ask import read_configuration

    for path in paths:
        try:
            if path.stat().st_size > MOST_CONFIGURATION_BYTES:
                raise wrong(str(path), f"larger than {MOST_CONFIGURATION_BYTES:,} bytes")
            text = path.read_text("utf-8")
        except (OSError, UnicodeError) as error:
            raise wrong(str(path), f"cannot be read: {type(error).__name__}") from error
        for server in read_configuration(text, str(path), os.environ):
            if server.url is None and not run:
                warn(f"{server.name}: its command is not run without --run")
            else:
                yield server
