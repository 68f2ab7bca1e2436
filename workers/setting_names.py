"""The names of settings, the name that a misspelt one probably stands for, files of secrets, and variables that are not
called `SLUICE_*`: feature flags, and the graph server's address.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from sluice.contracts.base import Fixed
from sluice.contracts.errors import InvalidSetting
from sluice.contracts.learning.control import FlagName
from sluice.graph.settings import problem_of_address

PREFIX = "SLUICE_"
UNKNOWN = "is no setting"
SCALED_HERE = "SLUICE_SCALED_HERE"
"""The variable by which a supervisor tells its processes the stages whose pools it resizes."""
NO_SETTINGS = frozenset({"SLUICE_CONFIG", "SLUICE_API_KEY", "SLUICE_URL", "SLUICE_LIFELINE", "SLUICE_TEST_MODELS"})
NO_SETTINGS |= {SCALED_HERE, "SLUICE_LOG_FILE", "SLUICE_TARGET_KEY"}
"""Variables of other uses: where the file is, clients' keys, what a supervisor tells its processes, the tests'
folder of models."""


def names_of(settings: type[BaseModel]) -> frozenset[str]:
    """Return every setting by its dotted name: `http_port`, `crawl.max_pages`."""
    return frozenset(name for name, is_fixed in _fields(settings) if not is_fixed)


def constants_of(settings: type[BaseModel]) -> frozenset[str]:
    """Return every constant beside the settings (see `Fixed`), by the dotted name that it would have as one."""
    return frozenset(name for name, is_fixed in _fields(settings) if is_fixed)


def variable_of(name: str) -> str:
    """Return the variable that sets it: `crawl.max_pages` is `SLUICE_CRAWL__MAX_PAGES`."""
    return PREFIX + name.upper().replace(".", "__")


def unknown_variables(settings: type[BaseModel], environment: Mapping[str, str]) -> list[str]:
    """Return the `SLUICE_*` variables that set nothing, by the dotted names that they would have."""
    known = names_of(settings)
    tables = tuple(f"{one}." for one in known)  # a part of a setting that is a table, as `embed.corpora` is
    found = []
    for variable in sorted(environment):
        if not variable.upper().startswith(PREFIX) or variable.upper() in NO_SETTINGS:
            continue
        name = variable[len(PREFIX) :].lower().replace("__", ".")
        is_json_of_section = any(one.startswith(f"{name}.") for one in known)
        if name not in known and not is_json_of_section and not name.startswith(tables):
            found.append(name)
    return found


def problems(error: ValidationError) -> Iterator[tuple[str, str]]:
    """Yield the dotted name and a plain sentence for each problem; `UNKNOWN` if there is no such setting."""
    for entry in error.errors(include_url=False, include_input=False):
        name = ".".join(str(part) for part in entry["loc"])
        is_unknown = entry["type"] == "extra_forbidden"
        yield name, UNKNOWN if is_unknown else entry["msg"].removeprefix("Value error, ")


def remedy_of(name: str, settings: type[BaseModel], told: Callable[[str], str] = str) -> str:
    """Return the remedy for an unknown name: delete a constant, or write the setting that is closest.

    `told` maps a setting's name to the form in which the user set it: in the file, or by a variable.
    """
    if name in constants_of(settings):
        return "it is a constant: delete it"
    known = names_of(settings)
    names = sorted({*known, *(one.partition(".")[0] for one in known)})
    last = {one.rpartition(".")[2]: one for one in names}
    close = get_close_matches(name, names, n=1, cutoff=0.7) or [
        last[one] for one in get_close_matches(name.rpartition(".")[2], last, n=1, cutoff=0.8)
    ]
    return f"did you mean {told(close[0])}?" if close else "`sluice init` writes a file with every setting"


def _fields(settings: type[BaseModel]) -> Iterator[tuple[str, bool]]:
    """Yield the dotted name of each field, and whether it is fixed."""
    for name, field in settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from ((f"{name}.{below}", is_fixed) for below, is_fixed in _fields(field.annotation))
        else:
            yield name, any(isinstance(one, Fixed) for one in field.metadata)


def origins(settings: type[BaseModel], file: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    """Return where each setting that is not at its default comes from: a variable's name, or `file`.

    `file` holds the tables of `sluice.toml`. A variable counts before the file; one that holds a whole section as JSON
    counts for each setting in it.
    """
    variables = {name.upper() for name in environment}
    found = {}
    for name in sorted(names_of(settings)):
        section = name.rpartition(".")[0]
        named = [variable_of(name), *([variable_of(section)] if section else [])]
        if set_by := next((one for one in named if one in variables), None):
            found[name] = set_by
        elif is_in(file, name):
            found[name] = "file"
        elif any(one.startswith(variable_of(name) + "__") for one in variables):
            found[name] = variable_of(name) + "__*"
    return found


def is_in(file: Mapping[str, Any], name: str) -> bool:
    """Return whether the tables of a `sluice.toml` set the setting of a dotted name."""
    section, _, field = name.rpartition(".")
    table = file.get(section, {}) if section else file
    return isinstance(table, Mapping) and field in table


FLAG_VARIABLES: Mapping[FlagName, str] = {
    "gate_weights": "FEATURE_GATE_WEIGHTS",
    "search": "FEATURE_SEARCH",
    "crawl": "FEATURE_CRAWL",
    "hybrid": "FEATURE_HYBRID_RETRIEVAL",
    "rerank": "FEATURE_RERANK",
    "learned_gate": "FEATURE_LEARNED_GATE",
    "ragas": "FEATURE_RAGAS_EVAL",
    "graph": "FEATURE_GRAPH",
    "memory": "FEATURE_MEMORY",
}
GRAPH_VARIABLES = {"url": "NEO4J_URI", "user": "NEO4J_USER", "password": "NEO4J_PASSWORD"}
"""Variables that Neo4j's programs read, by the `[graph]` setting that each gives. A setting overrides its variable."""

SECRETS = Path("/run/secrets")
"""Folder in which container engines mount secrets. systemd names its own in `CREDENTIALS_DIRECTORY`."""


def read_secrets(environment: Mapping[str, str], folder: Path = SECRETS) -> dict[str, str]:
    """Return the settings that files hold, by variable: a file `SLUICE_BROKER_URL` (in any case) sets `broker_url`.

    Raises:
        InvalidSetting: such a file cannot be read as text.
    """
    folders = (folder, Path(environment.get("CREDENTIALS_DIRECTORY") or folder))
    found = {}
    for path in (path for one in folders if one.is_dir() for path in sorted(one.iterdir())):
        name = path.name.upper()
        if name.startswith(PREFIX) and name not in NO_SETTINGS:
            try:
                found[name] = path.read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise InvalidSetting(name, f"{path}: {error}", "let this user read it, or remove it") from error
    return found


def given_variables() -> dict[str, str]:
    """Return this process's variables, and those that files of secrets stand for. A variable counts before a file."""
    return {**read_secrets(os.environ), **{name.upper(): value for name, value in os.environ.items()}}


_WORDS = {"true": True, "1": True, "on": True, "yes": True, "false": False, "0": False, "off": False, "no": False}


def read_flags(environment: Mapping[str, str]) -> dict[FlagName, bool]:
    """Return each flag that a non-empty variable sets. Raises `InvalidSetting` if one is neither true nor false."""
    flags: dict[FlagName, bool] = {}
    for name, variable in FLAG_VARIABLES.items():
        word = environment.get(variable, "").strip().lower()
        if word and word not in _WORDS:
            raise InvalidSetting(variable, f"{word!r} is neither true nor false", f"write {variable}=true or =false")
        if word:
            flags[name] = _WORDS[word]
    return flags


def read_graph_server(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of the graph server, `{"graph": {...}}`. An empty variable sets nothing.

    Raises:
        InvalidSetting: NEO4J_URI is no address of a graph server. The address is not shown.
    """
    stripped = {name: environment.get(variable, "").strip() for name, variable in GRAPH_VARIABLES.items()}
    found = {name: value for name, value in stripped.items() if value}
    problem = problem_of_address(found["url"]) if "url" in found else None
    if problem:
        raise InvalidSetting(GRAPH_VARIABLES["url"], problem, "like bolt://localhost:7687")
    return {"graph": found} if found else {}
