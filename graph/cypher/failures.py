"""What the locked process tells, as a result or as the error that a person can do something about."""

from __future__ import annotations

import re
from typing import Any

from sluice.contracts.errors import InvalidInput, TimedOut, Unavailable
from sluice.graph.schema import NODE_PROPERTIES

_MEMORY_WORDS = ("buffer pool is full", "bad_alloc", "cannot allocate", "mmap")
_NO_PROPERTY = re.compile(r"Cannot find property (\w+) for (\w+)")
_SHOWN_CHARACTERS = 300


class Unreadable(Unavailable):
    """The engine does not open the file."""


def judged(told: dict[str, Any], timeout_seconds: float) -> dict[str, Any]:
    """`told` where it is a result.

    Raises InvalidInput of `query` where the engine does not take the question, TimedOut, Unavailable, Unreadable, and
    FileNotFoundError where the file is gone.
    """
    kind = told.get("error")
    if kind is None:
        return told
    message = str(told.get("message", ""))
    if kind == "no_jail":
        raise Unavailable(
            "Cypher is refused, as this system cannot lock up the process that would run it; it takes user namespaces, "
            f"Landlock or seccomp ({message})"
        )
    if kind == "memory" or any(word in message.lower() for word in _MEMORY_WORDS):
        raise InvalidInput("query", "takes more memory than a query may", "match less, or LIMIT earlier")
    if "FileNotFoundError" in message:
        raise FileNotFoundError(message)
    if kind == "closed":
        raise Unavailable(f"the locked process cannot read the file of the Cypher engine: {message}")
    if kind == "unreadable":
        raise Unreadable("the file of the Cypher engine cannot be opened; it is written anew with the next generation")
    if "interrupted" in message.lower():
        raise TimedOut(f"the query took longer than {timeout_seconds:g} s")
    raise InvalidInput("query", *_refusal(message))


def _refusal(message: str) -> tuple[str, str]:
    """Problem and remedy for what the engine says of a question that passed the guard."""
    missing = _NO_PROPERTY.search(message)
    if missing:
        has = "; ".join(f"{label}: {', '.join(names)}" for label, names in NODE_PROPERTIES.items())
        return f"{missing[2]} has no property {missing[1]}", f"by label: {has}"
    if "AGGREGATE_FUNCTION" in message:
        return (
            "a count or another aggregate is computed with a value that is not returned",
            "return that value too, or aggregate first: WITH total, count(d) AS n RETURN n / total",
        )
    return f"the engine does not take it: {_plain(message)}", "see docs/graph-cypher.md"


def _plain(message: str) -> str:
    """The engine's words without places of this machine, names of parameters and its drawing of the position."""
    first = message.split('\n"', 1)[0].split(" Supported inputs are", 1)[0]
    words = [word for word in first.replace("`", "").split() if "/" not in word]
    return " ".join(words).removeprefix("RuntimeError: ").removeprefix("Binder exception: ")[:_SHOWN_CHARACTERS]
