"""`sluice graph`: its commands."""

from __future__ import annotations

import typer

from sluice.cli.graph.asking import linked, nearest, neighbours, query
from sluice.cli.graph.tools import tools
from sluice.cli.graph.upkeep import rebuild, status

graph = typer.Typer(
    help="The graph of what is indexed: ask it, see how it stands, read it anew.",
    no_args_is_help=True,
)

for command in (query, nearest, neighbours, linked, status, rebuild, tools):
    graph.command(command.__name__)(command)
