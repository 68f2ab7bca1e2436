"""Write a parsed question anew, from allowed parts only.

Names are checked against the schema, texts become parameters, and what is written holds no word of the question but
plain names and numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sluice.graph.cypher.dialects import Dialect
from sluice.graph.cypher.question.parse import Branch
from sluice.graph.cypher.question.refusals import refuse_at
from sluice.graph.cypher.question.values import Values
from sluice.graph.cypher.question.walk import only_child, rule_of

MAX_COLUMN_CHARACTERS = 100
MAX_UNWINDS = 4


class Written(NamedTuple):
    """One of the questions that UNION joins, without its last SKIP and LIMIT."""

    joined_by: str
    text: str
    columns: tuple[str, ...] | None
    """None where all variables are returned: then the engine names them."""
    skip: int | str
    limit: int | str | None
    """A number, or the name of a parameter of the caller."""


class Writer(Values):
    """One question in the words of one dialect. Use once: `write(branches)`, then read the other members."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._columns: tuple[str, ...] | None = None
        self._skip: int | str = 0
        self._limit: int | str | None = None
        self.cuts_before_the_end = False
        """Whether a WITH orders or cuts rows."""
        self._unwinds = 0

    def write(self, branches: list[Branch]) -> list[Written]:
        """The statement, in the parts that UNION joins. Raises InvalidInput of `query`."""
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
            return ""  # the clause that follows begins so
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
