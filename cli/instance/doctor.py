"""`sluice doctor`: is everything there that an instance needs?"""

from __future__ import annotations

from collections.abc import Iterator

import typer

from sluice.cli.instance.checks import Check, checks_of, python_version
from sluice.cli.output import AsJson, console, error_console, marked, print_json
from sluice.contracts.errors import InvalidSetting
from sluice.workers.settings import load_settings, stray_variables

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(as_json: AsJson = False) -> None:
    """Check what this instance needs, and say what would help."""
    found = []
    with error_console.status("checking"):
        for check in _all_checks():
            found.append(check)
            if not as_json:
                _print(check)
    well = all(check.state != "fail" for check in found)
    if as_json:
        print_json({"ok": well, "checks": found})
    if not well:
        raise typer.Exit(1)


def _all_checks() -> Iterator[Check]:
    yield python_version()
    try:
        settings = load_settings()
    except InvalidSetting as error:
        yield Check("settings", "fail", f"{error.field}: {error.problem}", error.remedy)
        return
    yield Check("settings", "ok", f"instance {settings.instance}")
    for told in stray_variables():
        yield Check("settings", "warn", *told.split(": ", 1))
    yield from checks_of(settings)


def _print(check: Check) -> None:
    colour = _COLOURS[check.state]
    console.print(
        f"[{colour}]{check.state:4}[/] [bold]{check.name:15}[/] {marked(check.detail)}", highlight=False, soft_wrap=True
    )
    if check.remedy:
        console.print(f"     {'':15} → {marked(check.remedy)}", highlight=False, soft_wrap=True)
