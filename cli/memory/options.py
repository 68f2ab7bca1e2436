"""Options that the commands of `sluice memory` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Feature = Annotated[str, typer.Option("--feature", "-f", help="The feature that is worked on.")]
Project = Annotated[
    str,
    typer.Option(help="The project: its folder, by default that of this repository; in an instance any name of it."),
]
Folder = Annotated[
    Path | None, typer.Option(help="Remember in this folder, without an instance; .ralph/db/memory by default.")
]
Local = Annotated[
    bool | None,
    typer.Option(
        "--local/--instance",
        help="In a folder of the project, or in the configured instance. Without either: in the folder where the "
        "project has a .ralph, or no instance is configured here.",
    ),
]
TaskId = Annotated[int | None, typer.Option(min=0, help="The task, where it is not about the whole feature.")]
