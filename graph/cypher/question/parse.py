"""From text to trees by the grammar of openCypher, with the position of the first error.

The grammar's lexer skips what it does not know; here that is an error, as everything is that an engine might read
differently. The trees are all that is used further on, never the text.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from sluice.graph.cypher.question.tokens import first_error, read_tokens, split

_one_at_a_time = threading.Lock()


class Branch(NamedTuple):
    """One of the questions that UNION joins: trees that stand one after the other, each but the last up to a WITH."""

    joined_by: str
    """`UNION`, `UNION ALL`, or nothing before the first."""
    trees: list[Any]
    """Each is of the rule `script` of the grammar."""


def parse(query: str) -> list[Branch]:
    """The question as trees. Raises InvalidInput of `query` with line and column, both from 1."""
    with _one_at_a_time:  # lexers and parsers share what they learn
        tokens = read_tokens(query)
        return [Branch(part.joined_by, [_tree(clause, query) for clause in part.clauses]) for part in split(tokens)]


def _tree(tokens: list[Any], query: str) -> Any:
    from antlr4 import CommonTokenStream
    from antlr4.ListTokenSource import ListTokenSource
    from antlr4_cypher import CypherParser

    parser = CypherParser(CommonTokenStream(ListTokenSource(tokens)))
    parser.removeErrorListeners()
    parser.addErrorListener(first_error(query))
    return parser.script()
