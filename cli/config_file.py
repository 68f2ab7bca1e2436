"""The text of a `sluice.toml` that holds every setting: its reason, its bounds and, commented out, its default.

A line `#name = value` (no blank after the `#`) is a setting at its default; with every such `#` removed the file
still loads to the same settings. A setting without a default is only described.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
import tomlkit
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from workers.settings import Settings

WIDTH = 110

_HEADER = """\
# Settings of one Sluice instance, each at its default. To change one, remove the `#` before its name.
# Every setting is also a variable, which goes before this file: crawl.max_pages is SLUICE_CRAWL__MAX_PAGES.
# Keys and passwords are better kept in variables than here."""

_BOUNDS = ((annotated_types.Ge, "ge", "at least"), (annotated_types.Gt, "gt", "more than"))
_UPPER_BOUNDS = ((annotated_types.Le, "le", "at most"), (annotated_types.Lt, "lt", "less than"))
_KINDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Path: "a path",
    SecretStr: "secret",
}


def config_text() -> str:
    """The whole file."""
    plain = {name: one for name, one in Settings.model_fields.items() if not _is_section(one)}
    sections = {name: one for name, one in Settings.model_fields.items() if _is_section(one)}
    context = [_HEADER, _fields(Settings, plain)]
    for name, section in sections.items():
        kind = _section(section)
        context.append(f"[{name}]\n{_comment(inspect.getdoc(kind) or '')}\n\n{_fields(kind, kind.model_fields)}")
    return "\n\n".join(context) + "\n"


def setting_count() -> int:
    """How many settings there are."""
    fields = Settings.model_fields.values()
    return sum(len(_section(one).model_fields) if _is_section(one) else 1 for one in fields)


def _section(one: FieldInfo) -> type[BaseModel]:
    kind: type[BaseModel] = one.annotation  # type: ignore[assignment]  # asked of fields that _is_section() found
    return kind


def _is_section(one: FieldInfo) -> bool:
    return isinstance(one.annotation, type) and issubclass(one.annotation, BaseModel)


def _fields(owner: type[BaseModel], fields: dict[str, FieldInfo]) -> str:
    docs = dict(_attribute_docstrings(owner))
    return "\n\n".join(_field(name, one, docs.get(name, "")) for name, one in fields.items())


def _field(name: str, one: FieldInfo, doc: str) -> str:
    default = one.get_default(call_default_factory=True)
    told = " ".join(part for part in (" ".join(doc.split()), _allowed(one)) if part)
    if default is None:
        return _comment(f"{name}: {told} Not set by default.")
    setting = f"#{name} = {tomlkit.item(_toml_value(default)).as_string()}"
    return f"{_comment(told)}\n{setting}" if told else setting


def _comment(text: str) -> str:
    wrapped = textwrap.wrap(" ".join(text.split()), WIDTH, break_on_hyphens=False, break_long_words=False)
    return "\n".join(f"# {line}" for line in wrapped)


def _toml_value(default: Any) -> Any:
    if isinstance(default, Path):
        return str(default)
    if isinstance(default, dict):
        return tomlkit.inline_table() | default
    return list(default) if isinstance(default, tuple) else default


def _allowed(one: FieldInfo) -> str:
    """What may stand there, in words."""
    bounds = [
        f"{words} {getattr(found, attribute):,}"
        for kind, attribute, words in (*_BOUNDS, *_UPPER_BOUNDS)
        for found in one.metadata
        if isinstance(found, kind)
    ]
    choices = list(_choices(one.annotation))
    if choices:
        return f"One of: {', '.join(choices)}."
    if bounds:
        return f"({', '.join(bounds)})"
    return f"({_kind(one.annotation)})" if one.get_default(call_default_factory=True) is None else ""


def _choices(annotation: Any) -> Iterator[str]:
    if get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
        return
    for argument in get_args(annotation):
        yield from _choices(argument)


def _kind(annotation: Any) -> str:
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(one for one in get_args(annotation) if one is not NoneType)
    return _KINDS.get(annotation, "a value")


def _attribute_docstrings(owner: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Each field's docstring: the bare text that stands below it in its class."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    for above, below in pairwise(body):
        if isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield above.target.id, text.value
