"""`sluice version`."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of

from cli.output import AsJson, console, print_json


def version(as_json: AsJson = False) -> None:
    """Print the version."""
    facts = {"sluice": version_of("sluice"), "python": platform.python_version()}
    if as_json:
        print_json(facts)
    else:
        console.print(f"sluice {facts['sluice']} (Python {facts['python']})", highlight=False)
