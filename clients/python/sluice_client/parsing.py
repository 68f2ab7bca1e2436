"""Parses responses into the types of `sluice_client.models`. Imported with the first answer, as pydantic is."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sluice_client import models
from sluice_client.errors import Unavailable

PLAIN: dict[str, Any] = {"dict[str, str]": dict[str, str], "list[str]": list[str]}


def parse(kind: str, content: bytes) -> Any:
    """Parse `content` as the type that `kind` names. Raises `Unavailable` if it does not fit."""
    try:
        return _adapter(kind).validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise Unavailable(f"the server answered no {kind}: {where}: {first['msg']}") from error


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    inner = kind.removeprefix("list[").removesuffix("]")
    if kind in PLAIN:
        return TypeAdapter(PLAIN[kind])
    model: Any = getattr(models, inner)
    return TypeAdapter(model if inner == kind else list[model])
