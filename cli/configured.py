"""The settings of a command, with a warning for variables that set nothing."""

from __future__ import annotations

from sluice.cli.output import error_console, marked
from sluice.workers.settings import Settings, load_settings, stray_variables


def configured() -> Settings:
    """The settings of this command. `SLUICE_*` variables that set nothing are named on stderr.

    Raises:
        InvalidSetting: some cannot be used; names each.
    """
    settings = load_settings()
    for told in stray_variables():
        error_console.print(f"[yellow]warning[/] {marked(told)}", soft_wrap=True)
    return settings
