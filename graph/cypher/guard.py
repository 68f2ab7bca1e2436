"""The first stage: checks a query, and writes the statement that an engine gets for it.

`guard` has the text parsed into a tree, lets `Writer` put it down anew from allowed parts, and adds two things that a
caller may not leave out: the corpus in every node of every pattern, and a LIMIT. Names are checked against the
schema, and values travel as parameters, so the statement holds no word of the query but plain names and numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

from sluice.contracts.errors import InvalidInput
from sluice.graph.cypher.parse import LADYBUG, Branch, Dialect, dialect_named, parse, refuse_at
from sluice.graph.cypher.values import Values
from sluice.graph.cypher.walk import only_child, rule_of

MAX_COLUMN_CHARACTERS = 100
MAX_UNWINDS = 4


class Written(NamedTuple):
    """One of the queries that UNION joins, without its last SKIP and LIMIT."""

    joined_by: str
    text: str
    columns: tuple[str, ...] | None
    """None where all variables are returned: then the engine names them."""
    skip: int | str
    limit: int | str | None
    """A number, or the name of a parameter of the caller."""


class Writer(Values):
    """One query in the words of one dialect. Use once: `write(branches)`, then read the other members."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._columns: tuple[str, ...] | None = None
        self._skip: int | str = 0
        self._limit: int | str | None = None
        self.cuts_before_the_end = False
        """Whether a WITH orders or cuts rows."""
        self._unwinds = 0

    def write(self, branches: list[Branch]) -> list[Written]:
        """Return the statement, in the parts that UNION joins. Raises InvalidInput of `query`."""
        written: list[Written] = []
        for branch in branches:
            text = " ".join(self._rule(tree).strip() for tree in branch.trees)
            written.append(Written(branch.joined_by, text, self._columns, self._skip, self._limit))
            if self._columns != written[0].columns:
                names = ", ".join(written[0].columns or ("*",))
                refuse_at(branch.trees[-1], "its columns are not those before UNION", f"name them by AS: {names}")
            if len({part.joined_by for part in written[1:]}) > 1:
                refuse_at(branch.trees[0], "UNION and UNION ALL in one question", "use one of them")
            self._columns, self._skip, self._limit = None, 0, None
        return written

    def _returnSt(self, node: Any) -> str:  # noqa: N802
        if node.RETURN().getText().upper() == "WITH":
            return ""  # the next clause begins with this WITH
        return self._parts(node)

    def _unwindSt(self, node: Any) -> str:  # noqa: N802
        self._unwinds += 1
        if self._unwinds > MAX_UNWINDS:
            refuse_at(node, f"more than {MAX_UNWINDS} UNWINDs", "take the question apart")
        return f"UNWIND {self._rule(node.expression())} AS {self._rule(node.symbol())}"

    def _projectionBody(self, node: Any) -> str:  # noqa: N802
        is_last = rule_of(node.parentCtx) == "returnSt"
        parts = ["DISTINCT"] if node.DISTINCT() is not None else []
        parts.append(self._rule(node.projectionItems()))
        if node.orderSt() is not None:
            parts.append(self._rule(node.orderSt()))
        skip = self._count(node.skipSt(), is_last) if node.skipSt() is not None else None
        limit = self._count(node.limitSt(), is_last) if node.limitSt() is not None else None
        if is_last:
            self._skip, self._limit = skip or 0, limit
            self._columns = _columns(node.projectionItems())
        else:
            parts += [f"SKIP {skip}"] if skip is not None else []
            parts += [f"LIMIT {limit}"] if limit is not None else []
            parts += [self._dialect.order_alone] if node.orderSt() is not None and skip is limit is None else []
            cuts = node.orderSt() is not None or skip is not None or limit is not None
            self.cuts_before_the_end = self.cuts_before_the_end or cuts
        return " ".join(filter(None, parts))

    def _count(self, node: Any, may_be_parameter: bool) -> int | str:
        found = only_child(node.expression())
        text = found.getText()
        if may_be_parameter and text.startswith("$"):
            return self._parameter(found).removeprefix("$p_")
        remedy = "a number, or in the last clause a parameter" if may_be_parameter else "a number"
        return self._whole(node, text, remedy)

    def _projectionItem(self, node: Any) -> str:  # noqa: N802
        written = self._rule(node.expression())
        return f"{written} AS {self._rule(node.symbol())}" if node.symbol() is not None else written


def _columns(items: Any) -> tuple[str, ...] | None:
    if items.MULT() is not None:
        return None
    return tuple(_column(item) for item in items.projectionItem())


def _column(item: Any) -> str:
    if item.symbol() is not None:
        return str(item.symbol().getText().strip("`"))
    written = item.start.getInputStream().getText(item.start.start, item.stop.stop)
    return " ".join(written.split())[:MAX_COLUMN_CHARACTERS]


Scalar = str | int | float | bool
Parameter = Scalar | Sequence[Scalar] | None

MAX_PARAMETER_ITEMS = 10_000
MAX_PARAMETER_CHARACTERS = 1_000_000
"""Limit of all texts in parameters together."""
MAX_SKIP = 1_000_000
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Statement(NamedTuple):
    """Statement for an engine. `columns` is None where all variables are returned; then the engine names them.

    The text requests one row more than `rows`, which shows whether there were more.
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
    query: str, parameters: Mapping[str, Parameter], corpus: str, limit: int, dialect: str = LADYBUG
) -> Statement:
    """Return the statement for a query. Raises InvalidInput of `query`, with line and column, or of `parameters`."""
    try:
        plan = _plan(query, dialect)
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
    writer = Writer(dialect_named(dialect))
    parts = tuple(writer.write(parse(query)))
    return _Plan(parts, writer.cuts_before_the_end, tuple(writer.literals.items()), frozenset(writer.parameters))


def _bounded(part: Written, parameters: Mapping[str, Parameter], limit: int, *, is_one: bool) -> tuple[str, int]:
    """Return the text of a part with its SKIP and LIMIT, and the most rows that it may give.

    A statement of one part requests one row more than that; of several parts, each has its own LIMIT, and joining them
    shows whether rows were cut off.
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
        if any(isinstance(item, str) and _SURROGATE.search(item) for item in items):
            raise InvalidInput("parameters", f"{name} is no valid text", "hand in UTF-8")
        if any(isinstance(item, float) and not isfinite(item) for item in items):
            raise InvalidInput("parameters", f"{name} is no finite number", "leave it out")
        if any(isinstance(item, int) and abs(item) >= 2**63 for item in items):
            raise InvalidInput("parameters", f"{name} is larger than 64 bits", "hand it in as a text")
    if characters > MAX_PARAMETER_CHARACTERS:
        raise InvalidInput("parameters", f"hold {characters:,} characters", f"at most {MAX_PARAMETER_CHARACTERS:,}")
