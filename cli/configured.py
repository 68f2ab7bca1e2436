"""Loads a command's settings, and warns of variables that have no effect."""

from __future__ import annotations

from sluice.cli.output import error_console, marked
from sluice.workers.settings import Settings, load_settings, stray_variables


def configured() -> Settings:
    """Return the settings of this command, and name `SLUICE_*` variables without effect on stderr. Raises
    `InvalidSetting`, naming each, if some settings cannot be used."""
    settings = load_settings()
    for told in stray_variables():
        error_console.print(f"[yellow]warning[/] {marked(told)}", soft_wrap=True)
    return settings
