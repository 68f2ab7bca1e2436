"""`sluice graph tools`: asks MCP servers for their tools, and ingests what they list."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.agent.ingest import Timeout, counted, finish, indexing_progress
from sluice.cli.output import AsJson, Corpus, checked_corpus, error_console
from sluice.cli.session import session
from sluice.contracts.errors import InvalidInput, SluiceError, Unavailable
from sluice.graph.tools.servers import ToolServer, read_configuration
from sluice.otel.context import span
from sluice.workers.service.graph.tools import tool_documents
from sluice.workers.service.service import Service

MOST_CONFIGURATION_BYTES = 1_000_000


def tools(
    configurations: Annotated[
        list[Path] | None, typer.Argument(help="Configurations of MCP clients, like .mcp.json.", show_default=False)
    ] = None,
    command: Annotated[
        list[str] | None, typer.Option(help="A server's command, which is run; may be given more than once.")
    ] = None,
    url: Annotated[list[str] | None, typer.Option(help="A server's address (streamable HTTP).")] = None,
    name: Annotated[str | None, typer.Option(help="The server's name, where one command or address is given.")] = None,
    run: Annotated[bool, typer.Option("--run", help="Run the commands that the configurations name, too.")] = False,
    corpus: Corpus = "default",
    answer_within: Annotated[float, typer.Option(min=0.1, max=300, help="Seconds that each server has.")] = 30.0,
    timeout: Timeout = 600.0,
    as_json: AsJson = False,
) -> None:
    """Ask MCP servers for their tools, and read them into the corpus: one document a server, mcp/NAME.json.

    A command of a configuration is run with `--run` alone. An address on this machine needs `mcp=HOST:PORT` in
    `egress.allow`. None of the tools is called.
    """
    with session(as_json=as_json, needs_workers=True) as context, indexing_progress(quiet=as_json) as progress:
        servers = [*_given(command or [], url or [], name), *_configured(configurations or [], run=run)]
        if not servers:
            raise InvalidInput("tools", "no server to ask", "name a configuration, a --command or a --url")
        failures: list[SluiceError] = []

        def on_failure(server: ToolServer, error: SluiceError) -> None:
            failures.append(error)
            _tell(f"not asked: {error}")

        found = tool_documents(
            context, servers, timeout_seconds=answer_within, now=datetime.now(UTC), on_failure=on_failure
        )
        documents = list(counted(found, progress))
        if not documents:
            raise failures[0] if len(failures) == 1 else Unavailable(f"none of {len(servers)} servers listed its tools")
        with span("sluice graph tools", kind="client"):
            accepted = Service(context).ingest(checked_corpus(corpus), documents)
        finish(context, accepted.run_id, timeout, progress, as_json=as_json)


def _given(commands: list[str], urls: list[str], name: str | None) -> Iterator[ToolServer]:
    if name is not None and len(commands) + len(urls) != 1:
        raise InvalidInput("--name", "names one server", "give one --command or one --url with it")
    for command in commands:
        try:
            program, *arguments = shlex.split(command)
        except ValueError as error:
            remedy = "close its quotes, and name a program"
            raise InvalidInput("--command", "cannot be read as a command", remedy) from error
        own = name or Path(arguments[-1] if arguments else program).stem
        yield ToolServer(own, command=program, arguments=tuple(arguments))
    for url in urls:
        yield ToolServer(name or ToolServer("", url=url).place, url=url)


def _configured(paths: list[Path], *, run: bool) -> Iterator[ToolServer]:
    for path in paths:
        try:
            if path.stat().st_size > MOST_CONFIGURATION_BYTES:
                raise InvalidInput(str(path), f"larger than {MOST_CONFIGURATION_BYTES:,} bytes")
            text = path.read_text("utf-8")
        except (OSError, UnicodeError) as error:
            raise InvalidInput(str(path), f"cannot be read: {type(error).__name__}") from error
        for server in read_configuration(text, str(path), os.environ):
            if server.url is None and not run:
                _tell(f"{server.name}: its command is not run without --run")
            else:
                yield server


def _tell(text: str) -> None:
    error_console.print(text, markup=False, highlight=False, soft_wrap=True)
