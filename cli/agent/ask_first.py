"""The question before something goes for good."""

from __future__ import annotations

import typer

from sluice.cli.connection import wrong
from sluice_client.errors import Conflict


def ask_first(question: str, *, yes: bool) -> None:
    """Ask the operator, unless `yes` says that he agrees.

    Raises:
        InvalidInput: there is nobody to ask.
        Conflict: he does not agree.
    """
    if yes:
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort as error:
        raise wrong("yes", "there is nobody to ask", "give --yes") from error
    if not agreed:
        raise Conflict("nothing was removed")
