"""Write the models of the Python client from the description of the HTTP interface.

    .venv/bin/python .ci/client_models.py

A model is made for every shape that a good response holds. Requests have none: the server checks them and names the
field. `tests/unit/client/test_models.py` fails where the files are not what this program writes. A module is imported
when a name of it is first used, as making a hundred classes takes longer than most calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "clients/python/sluice_client/models"
MODULES = {
    "answers": ("/v1/gate", "/v1/runs", "/v1/query", "/v1/documents", "/v1/uploads", "/v1/scrape", "/v1/map"),
    "memory": ("/v1/memory",),
    "operations": ("/",),
}
"""Modules, and the beginnings of the paths whose answers stand there. What several need stands in the earliest."""
WRITTEN = "Written by `.ci/client_models.py` from the server's OpenAPI description: do not edit."
INIT = f'''"""What the server answers. {WRITTEN}

A field that this version does not know is kept, and a value that it does not know is allowed, so that a client
outlives its server's next version. The modules are imported when a name of theirs is first used.
"""

# fmt: off
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
%s

_NAMES = {{
%s
}}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names.split():
            return getattr(import_module(f"{{__name__}}.{{module}}"), name)
    raise AttributeError(f"{{__name__}} has no {{name}}")
'''
HEAD = '''"""What the server answers on: %s. {WRITTEN}"""

# fmt: off
from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

'''.replace("{WRITTEN}", WRITTEN)
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
FORMATS = {"date-time": "datetime"}
WIDTH = 120
LEAST_INHERITED = 4
"""Fields that a shape must share with another to be written as its extension."""

OWN = {"Event": "Event", "JsonValue": "Any", "Where-Output": "dict[str, Any]"}
"""Shapes that are not written from the description, and their types: events stand in `base.py`, with any body; names of
conditions are words of Python."""

PAGE = "Page_"
"""The beginning of the names of shapes that are a part of a list."""

Schemas = Mapping[str, Mapping[str, Any]]


def sources(description: Mapping[str, Any]) -> dict[str, str]:
    """The modules by file name."""
    schemas = description["components"]["schemas"]
    homes = _homes(description)
    bases = {name: _base_of(name, schemas, homes) for name in homes}
    names = {module: sorted(name for name, home in homes.items() if home == module) for module in MODULES}
    imports = "\n".join(f"    from sluice_client.models.{module} import *" for module in ("base", *sorted(MODULES)))
    names = {"base": ["Event", "Page"], **names}
    listed = "\n".join(f'    "{module}": "{" ".join(some)}",' for module, some in names.items())
    files = {"__init__.py": INIT % (imports, listed)}
    files["base.py"] = (FOLDER / "base.py").read_text(encoding="utf-8")  # the one module that is written by hand
    for module in MODULES:
        files[f"{module}.py"] = _module(module, names[module], schemas, homes, bases)
    return files


def _homes(description: Mapping[str, Any]) -> dict[str, str]:
    """The module of each shape that a good response holds."""
    homes: dict[str, str] = {}
    paths = dict(description["paths"])
    for module, beginnings in MODULES.items():
        mine = [path for path in paths if path.startswith(beginnings)]
        good = [
            response
            for path in mine
            for operation in paths.pop(path).values()
            for status, response in operation["responses"].items()
            if status < "400"
        ]
        for name in sorted(_reached(good, description["components"]["schemas"])):
            homes.setdefault(name, module)
    return homes


def _reached(waiting: list[Any], schemas: Schemas) -> set[str]:
    """Names of the shapes in the responses, and of those inside them."""
    found: set[str] = set()
    while waiting:
        for name in set(_references(waiting.pop())) - found - OWN.keys():
            found.add(name)
            waiting.append(schemas[name])
    return {name for name in found if not name.startswith(PAGE)}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for one in value.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)


def _base_of(name: str, schemas: Schemas, homes: Mapping[str, str]) -> str | None:
    """The largest other shape of the same module all of whose fields this one has too."""
    fields = _fields(schemas[name])
    below = {
        other: len(_fields(schemas[other]))
        for other, home in homes.items()
        if home == homes[name]
        and LEAST_INHERITED <= len(_fields(schemas[other])) < len(fields)
        and _fields(schemas[other]).items() <= fields.items()
    }
    return max(below, key=lambda other: (below[other], other), default=None)


def _module(
    module: str, own: list[str], schemas: Schemas, homes: Mapping[str, str], bases: Mapping[str, str | None]
) -> str:
    used: Set[str] = {name for one in own for name in _references(schemas[one])} - {*own, *OWN}
    needed = {home: [name for name in sorted(used) if homes[name] == home] for home in MODULES}
    lines = [f"from sluice_client.models.{home} import {', '.join(some)}" for home, some in needed.items() if some]
    aliases = [f"{name} = {_type(schemas[name])}" for name in own if "properties" not in schemas[name]]
    objects = [name for name in own if "properties" in schemas[name]]
    ordered = sorted(objects, key=lambda name: (_depth(name, bases), name))
    classes = [_class(name, schemas, bases[name]) for name in ordered]
    about = "everything else" if MODULES[module] == ("/",) else ", ".join(MODULES[module])
    base = "Event, Model" if any("Event" in _references(schemas[name]) for name in own) else "Model"
    lines = [f"from sluice_client.models.base import {base}", *lines, "", *aliases, "", *classes]
    return HEAD % about + "\n".join(lines)


def _depth(name: str, bases: Mapping[str, str | None]) -> int:
    base = bases[name]
    return 0 if base is None else 1 + _depth(base, bases)


def _fields(one: Mapping[str, Any]) -> dict[str, str]:
    required = one.get("required", ())
    return {name: _field(schema, is_required=name in required) for name, schema in one.get("properties", {}).items()}


def _class(name: str, schemas: Schemas, base: str | None) -> str:
    inherited = _fields(schemas[base]) if base else {}
    own = [f"    {field}: {told}" for field, told in _fields(schemas[name]).items() if field not in inherited]
    about = " ".join(str(schemas[name].get("description", "")).split(". ")[0].split())
    head = f"class {name}({base or 'Model'}):"
    if len(told := f"{head}  # {about}") > WIDTH:
        told = told[:WIDTH].rpartition(" ")[0]
    return "\n".join([told.rstrip(" #"), *(own or ["    pass"]), ""])


def _field(schema: Mapping[str, Any], *, is_required: bool) -> str:
    told = _type(schema)
    if is_required:
        return told
    default = schema.get("default")
    if isinstance(default, dict) and "$ref" in schema:
        return f"{told} = Field(default_factory=lambda: {told}())"
    if default is None:
        return f"{told} = None" if "None" in told.split(" | ") else f"{told} | None = None"
    return f"{told} = {default!r}"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return OWN.get(name, name)
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        told = f"Literal[{', '.join(map(repr, values))}]"
        return f"{told} | str" if all(isinstance(value, str) for value in values) else told
    if options := schema.get("anyOf", schema.get("oneOf", schema.get("allOf"))):
        return " | ".join(dict.fromkeys(_type(option) for option in options))
    if schema.get("type") == "array":
        if "prefixItems" in schema:
            return f"tuple[{', '.join(_type(item) for item in schema['prefixItems'])}]"
        return f"list[{_type(schema.get('items', {}))}]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_type(values if isinstance(values, dict) else {})}]"
    return FORMATS.get(schema.get("format", ""), PLAIN.get(schema.get("type", ""), "Any"))


def write() -> None:
    """Write every module."""
    from sluice.api.app import make_api
    from sluice.workers.settings import Settings

    FOLDER.mkdir(exist_ok=True)
    for name, text in sources(make_api(Settings()).openapi()).items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
