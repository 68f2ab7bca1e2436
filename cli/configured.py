"""Loads a command's settings, and warns of variables that have no effect."""

from __future__ import annotations

from sluice.cli.output import error_console, marked
from sluice.workers.settings import Settings, load_settings, stray_variables


def configured() -> Settings:
    """Return the settings of this command. `SLUICE_*` variables without effect are named on stderr.

    Raises:
        InvalidSetting: some settings cannot be used; the message names each.
    """
    settings = load_settings()
    for told in stray_variables():
        error_console.print(f"[yellow]warning[/] {marked(told)}", soft_wrap=True)
    return settings
