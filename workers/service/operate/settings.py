"""The settings in force, and where each comes from."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

from sluice.contracts.operations.overview import SettingView
from sluice.otel.logs import MASK, redact
from sluice.workers.data_dir import config_file
from sluice.workers.setting_names import given_variables, names_of, origins
from sluice.workers.settings import Settings

_TABLE = re.compile(r"\s*\[\s*([\w.-]+)\s*\]")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")
SET = "set"
"""Stands for a key or a password that has a value."""


def list_settings(settings: Settings) -> list[SettingView]:
    """Return every setting by name, with its value, and where that comes from as variables and file are now."""
    path = config_file()
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    try:
        origin = origins(Settings, tomllib.loads(text), given_variables())
    except tomllib.TOMLDecodeError:  # it was changed since it was read
        origin = origins(Settings, {}, given_variables())
    return [
        SettingView(
            setting=name,
            value=SET if (shown := redact(value, name)) == MASK else shown,
            source=str(path) if origin.get(name) == "file" else origin.get(name, "default"),
            line=line_of(text, name) if origin.get(name) == "file" else None,
        )
        for name, value in _values(settings)
    ]


def _values(settings: Settings) -> Iterator[tuple[str, object]]:
    held = settings.model_dump(mode="json")
    for name in sorted(names_of(Settings)):
        section, _, field = name.rpartition(".")
        yield name, (held[section] if section else held)[field]


def line_of(text: str, name: str) -> int | None:
    """Return the line of a `sluice.toml` that sets the setting of a dotted name, or that begins its section."""
    section, begins = "", None
    for number, line in enumerate(text.splitlines(), 1):
        if found := _TABLE.match(line):
            section = found[1]
            begins = begins or (number if name.startswith(f"{section}.") or name == section else None)
        elif found := _KEY.match(line):
            own = f"{section}.{found[1]}" if section else found[1]
            if own == name or (name.startswith(f"{own}.") and begins is None):
                return number
    return begins
