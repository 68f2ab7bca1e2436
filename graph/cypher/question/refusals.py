"""How a question is refused: with line and column, what is wrong there, and what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn

from sluice.contracts.errors import InvalidInput

MAX_SHOWN = 40


def refuse_at(node: Any, problem: str, remedy: str = "") -> NoReturn:
    """Raise InvalidInput that names where in the text the node or token begins."""
    token = node.start if hasattr(node, "parser") else getattr(node, "symbol", node)
    refuse(token.line, token.column, problem, remedy)


def refuse(line: int, column: int, problem: str, remedy: str = "") -> NoReturn:
    """Raise InvalidInput for a line from 1 and a column from 0."""
    raise InvalidInput("query", f"line {line}, column {column + 1}: {problem}", remedy)


def shown(text: str) -> str:
    """Some words of the question as they may stand in an error."""
    text = " ".join(text.split())
    return repr(text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…")
