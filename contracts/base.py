"""The base of every contract: a frozen value, closed to unknown fields, JSON on the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field


class Fixed:
    """Marks a field of a settings class as a constant: only code may set it, no file and no variable.

    It stands beside the settings for its reason and its unit, and so that a test can build a part with another value.
    """


FIXED = Fixed()


class Value(BaseModel):
    """A frozen value. Unknown fields are refused, so a misspelt name is an error; numbers are finite, as in JSON."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_bytes="base64", val_json_bytes="base64"
    )


def told(*names: str) -> dict[str, Any]:
    """Return the JSON Schema of an object that has each of these fields, none of them null."""
    return {"required": [*names], "properties": {name: {"not": {"type": "null"}} for name in names}}


def untold(*names: str) -> dict[str, Any]:
    """Return the JSON Schema of an object in which these fields are missing or null."""
    return {"properties": {name: {"type": "null"} for name in names}}


def _to_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("outside the years 1 to 9999 in UTC") from error


CORPUS_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
"""A corpus name is also a folder name, so it holds only characters that every file system accepts."""

Moment = Annotated[AwareDatetime, AfterValidator(_to_utc)]
"""A point in time with its zone, kept in UTC. A time without a zone is refused."""

CorpusName = Annotated[str, Field(pattern=rf"^{CORPUS_NAME.pattern}$", max_length=63)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class BlobRef(Value):
    """A claim check: a reference to a body too large for a message, by the hash of its content."""

    sha256: Sha256
    size_bytes: Annotated[int, Field(ge=0)]


def is_none(value: object) -> bool:
    """Return whether `value` is None. Used to leave fields of later versions out of the JSON."""
    return value is None


def is_empty(value: object) -> bool:
    """Return whether `value` is empty, 0 or off. Used like `is_none`."""
    return not value


Switch = Annotated[bool, Field(exclude_if=is_empty)]
"""A switch of a later version: left out of the JSON when off, so that older records keep their bytes."""
LaterText = Annotated[str | None, Field(exclude_if=is_none)]
"""Text of a later version: left out of the JSON when None."""


def fields_of(kind: type[BaseModel], value: BaseModel) -> dict[str, Any]:
    """Return the fields of `kind` with the values that `value` has for them, to construct another value."""
    return {name: getattr(value, name) for name in kind.model_fields}


def shared_fields(kind: type[BaseModel], value: object) -> dict[str, Any]:
    """Return the fields of `kind` that `value` also has; the caller adds the others."""
    return {name: getattr(value, name) for name in kind.model_fields if hasattr(value, name)}


SomeValue = TypeVar("SomeValue", bound=BaseModel)


def construct_unvalidated(kind: type[SomeValue], fields: Mapping[str, Any], names: set[str]) -> SomeValue:
    """Construct a value from all its fields without validation, in a tenth of the time of pydantic's `model_construct`.
    `names` are the fields' names; the set is kept, and must not be changed."""
    value = kind.__new__(kind)
    _set(value, "__dict__", fields)
    _set(value, "__pydantic_fields_set__", names)
    _set(value, "__pydantic_extra__", None)
    _set(value, "__pydantic_private__", None)
    return value


_set = object.__setattr__
