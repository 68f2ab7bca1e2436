"""The first door: what a question may say, and the statement that an engine gets for it.

`guard` reads the text into a tree, lets `write` put it down anew from allowed parts, and adds what a caller may not
leave out: the corpus in every node of every pattern, and a LIMIT. Values travel as parameters, never as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

from sluice.contracts.errors import InvalidInput
from sluice.graph.cypher.dialects import LADYBUG, NEO4J, Dialect
from sluice.graph.cypher.question.parse import parse
from sluice.graph.cypher.question.write import Writer, Written

Scalar = str | int | float | bool
Parameter = Scalar | Sequence[Scalar] | None

MAX_PARAMETER_ITEMS = 10_000
MAX_PARAMETER_CHARACTERS = 1_000_000
"""Of all texts in parameters together."""
MAX_SKIP = 1_000_000

_DIALECTS = {dialect.name: dialect for dialect in (LADYBUG, NEO4J)}


class Statement(NamedTuple):
    """What an engine runs. `columns` None: all variables are returned, and the engine names them.

    The text asks for one row more than `rows`, so that it can be told whether there were more.
    """

    text: str
    parameters: dict[str, Parameter]
    columns: tuple[str, ...] | None
    rows: int
    cuts_before_the_end: bool = False
    """Whether a WITH orders or cuts rows, which the embedded engine gets wrong when it optimises."""


class _Plan(NamedTuple):
    parts: tuple[Written, ...]
    cuts_before_the_end: bool
    literals: tuple[tuple[str, str], ...]
    parameters: frozenset[str]


def guard(
    query: str, parameters: Mapping[str, Parameter], corpus: str, limit: int, dialect: Dialect = LADYBUG
) -> Statement:
    """The statement for a question. Raises InvalidInput of `query`, with line and column, or of `parameters`."""
    try:
        plan = _plan(query, dialect.name)
    except RecursionError as error:
        raise InvalidInput("query", "is nested too deep", "take the question apart") from error
    missing = sorted(plan.parameters - parameters.keys())
    if missing:
        raise InvalidInput("parameters", f"{missing[0]} is not given", f"the question names ${missing[0]}")
    used = {name: parameters[name] for name in sorted(plan.parameters)}
    _look_at(used)
    is_one = len(plan.parts) == 1
    bounded = [_bounded(part, used, limit, is_one=is_one) for part in plan.parts]
    text = "".join(written for written, _ in bounded)
    rows = bounded[0][1] if is_one else limit
    values: dict[str, Parameter] = {f"p_{name}": value for name, value in used.items()}
    return Statement(
        text, {**values, **dict(plan.literals), "corpus": corpus}, plan.parts[0].columns, rows, plan.cuts_before_the_end
    )


@lru_cache(maxsize=512)
def _plan(query: str, dialect: str) -> _Plan:
    writer = Writer(_DIALECTS[dialect])
    parts = tuple(writer.write(parse(query)))
    return _Plan(parts, writer.cuts_before_the_end, tuple(writer.literals.items()), frozenset(writer.parameters))


def _bounded(part: Written, parameters: Mapping[str, Parameter], limit: int, *, is_one: bool) -> tuple[str, int]:
    """The text of a part with its SKIP and LIMIT, and the most rows that it may give.

    A statement of one part asks for one row more than that; of several, each has its own LIMIT, and what is cut off
    shows where they are put together.
    """
    skip = _whole(part.skip, parameters)
    if skip > MAX_SKIP:
        raise InvalidInput("query", f"skips {skip:,} rows", f"at most {MAX_SKIP:,}")
    own = _whole(part.limit, parameters) if part.limit is not None else None
    rows = limit if own is None else min(limit, own)
    asked = rows if own is not None and own <= limit and not is_one else rows + 1
    joined = f" {part.joined_by} " if part.joined_by else ""
    return f"{joined}{part.text}" + (f" SKIP {skip}" if skip else "") + f" LIMIT {asked}", rows


def _whole(count: int | str, parameters: Mapping[str, Parameter]) -> int:
    value = parameters[count] if isinstance(count, str) else count
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput("parameters", f"{count} is no whole number from 0", "SKIP and LIMIT count rows")
    return value


def _look_at(parameters: Mapping[str, Parameter]) -> None:
    characters = 0
    for name, value in parameters.items():
        items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        if len(items) > MAX_PARAMETER_ITEMS:
            raise InvalidInput("parameters", f"{name} has {len(items):,} items", f"at most {MAX_PARAMETER_ITEMS:,}")
        characters += sum(len(item) for item in items if isinstance(item, str))
        if any(isinstance(item, str) and not _is_encodable(item) for item in items):
            raise InvalidInput("parameters", f"{name} is no valid text", "hand in UTF-8")
        if any(isinstance(item, float) and not isfinite(item) for item in items):
            raise InvalidInput("parameters", f"{name} is no finite number", "leave it out")
        if any(isinstance(item, int) and abs(item) >= 2**63 for item in items):
            raise InvalidInput("parameters", f"{name} is larger than 64 bits", "hand it in as a text")
    if characters > MAX_PARAMETER_CHARACTERS:
        raise InvalidInput("parameters", f"hold {characters:,} characters", f"at most {MAX_PARAMETER_CHARACTERS:,}")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
