"""`sluice graph tools`: asks MCP servers for their lists of tools, and ingests them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.cli.agent.ingest import counted, indexing_progress, submit, wait_here
from sluice.cli.command import Shown, on_disk
from sluice.cli.connection import wrong
from sluice.cli.output import checked_corpus, warn
from sluice_client.errors import Unavailable

if TYPE_CHECKING:
    from sluice.contracts.errors import SluiceError
    from sluice.graph.tools.ask import ToolServer
    from sluice.workers.context import Context

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
    from sluice.workers.service.tool_documents import tool_documents

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
        run_id = submit(context, checked_corpus(corpus), documents)
        return wait_here(context, run_id, timeout, progress)


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
