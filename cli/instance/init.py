"""`sluice init`: a `sluice.toml` to edit."""

from __future__ import annotations

import os
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.output import AsJson, console, errors_told, marked, print_json
from sluice.contracts.errors import Conflict
from sluice.workers.setting_names import names_of
from sluice.workers.settings import CONFIG_FILE, Settings


def init(
    path: Annotated[
        Path | None, typer.Option(help="Where to; by default SLUICE_CONFIG, else sluice.toml in this folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a sluice.toml with every setting, its default and its reason."""
    with errors_told(as_json=as_json):
        target = path or Path(os.environ.get("SLUICE_CONFIG", CONFIG_FILE))
        _write(target, commented_settings(), replace=force)
        count = len(names_of(Settings))
        if as_json:
            print_json({"path": str(target.absolute()), "settings": count})
        else:
            console.print(f"wrote {marked(target)} with {count} settings, all at their defaults")


def commented_settings() -> str:
    """The `sluice.toml` of this package: every setting with its meaning, commented out."""
    return files("cli").joinpath(CONFIG_FILE).read_text("utf-8")


def _write(target: Path, text: str, *, replace: bool) -> None:
    """Write the file whole or not at all, readable by its owner alone: keys may come to stand in it.

    Raises:
        Conflict: there is a file and it may not be replaced.
    """
    descriptor, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if replace:
            os.replace(partial, target)
        else:
            os.link(partial, target)  # unlike a rename, a link never replaces
    except FileExistsError as error:
        raise Conflict(f"{target} is there already; --force replaces it") from error
    finally:
        Path(partial).unlink(missing_ok=True)
