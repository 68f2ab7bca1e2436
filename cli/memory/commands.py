"""`sluice memory`: its commands."""

from __future__ import annotations

import typer

from sluice.cli.memory.learnings import learn, review
from sluice.cli.memory.reading import prompt, recall, status
from sluice.cli.memory.rebuild import rebuild
from sluice.cli.memory.record import record

memory = typer.Typer(
    help="Memory: what an agent's iterations taught, in a folder of the project or in the instance.",
    no_args_is_help=True,
)

for command in (record, recall, learn, review, prompt, status, rebuild):
    memory.command(command.__name__)(command)
