"""From text to a tree by the grammar of openCypher, with the position of the first error.

The grammar's lexer skips what it does not know; here that is an error, as everything is that an engine might read
differently. The tree is all that is used further on, never the text.
"""

from __future__ import annotations

import re
import threading
from typing import Any, NoReturn

from contracts.errors import InvalidInput

MAX_CHARACTERS = 10_000
MAX_TOKENS = 1_000
"""A parser in Python takes half a second for so many."""
MAX_NESTING = 16
"""Of brackets and CASE: the parser is recursive."""
MAX_SHOWN = 40

_one_at_a_time = threading.Lock()
_OPENING = frozenset({"LPAREN", "LBRACE", "LBRACK", "CASE"})
_CLOSING = frozenset({"RPAREN", "RBRACE", "RBRACK", "END"})


def parse(query: str) -> Any:
    """The root of the tree of one statement: the rule `script` of the grammar.

    Raises InvalidInput of `query` with line and column, both from 1.
    """
    from antlr4 import CommonTokenStream, InputStream
    from antlr4_cypher import CypherLexer, CypherParser

    if len(query) > MAX_CHARACTERS:
        raise InvalidInput("query", f"has {len(query):,} characters", f"at most {MAX_CHARACTERS:,}")
    first_odd = re.search(r"[^\t\n\r -\U0010ffff]|[\x7f-\x9f\ud800-\udfff]", query)
    if first_odd:
        line = query.count("\n", 0, first_odd.start()) + 1
        refuse(line, first_odd.start() - query.rfind("\n", 0, first_odd.start()) - 1,
               "a control character", "remove it")  # fmt: skip
    listener = _first_error()
    lexer = CypherLexer(InputStream(query))
    lexer.removeErrorListeners()
    lexer.addErrorListener(listener)
    tokens = CommonTokenStream(lexer)
    with _one_at_a_time:
        tokens.fill()
    _look_at_size(tokens.tokens, CypherLexer.symbolicNames)
    parser = CypherParser(tokens)
    parser.removeErrorListeners()
    parser.addErrorListener(listener)
    with _one_at_a_time:  # parsers share what they learn
        return parser.script()


def refuse_at(node: Any, problem: str, remedy: str = "") -> NoReturn:
    """Raise InvalidInput that names where in the text the node begins."""
    token = node.start if hasattr(node, "start") else node.symbol
    refuse(token.line, token.column, problem, remedy)


def refuse(line: int, column: int, problem: str, remedy: str = "") -> NoReturn:
    """Raise InvalidInput for a line from 1 and a column from 0."""
    raise InvalidInput("query", f"line {line}, column {column + 1}: {problem}", remedy)


def shown(text: str) -> str:
    """Some words of the question as they may stand in an error."""
    text = " ".join(text.split())
    return repr(text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…")


def _look_at_size(tokens: list[Any], names: list[str]) -> None:
    depth = count = 0
    for token in tokens:
        count += token.channel == 0
        if count > MAX_TOKENS:
            refuse(token.line, token.column, f"more than {MAX_TOKENS:,} words and signs",
                   "hand lists in as a parameter")  # fmt: skip
        name = names[token.type] if 0 < token.type < len(names) else ""
        depth += (name in _OPENING) - (name in _CLOSING)
        if depth > MAX_NESTING:
            refuse(token.line, token.column, f"nested more than {MAX_NESTING} deep", "take the question apart")


def _first_error() -> Any:
    from antlr4.error.ErrorListener import ErrorListener

    class FirstError(ErrorListener):  # type: ignore[misc]
        """Ends at the first error: what the parser guesses after it helps no reader."""

        def syntaxError(self, recognizer: Any, symbol: Any, line: int, column: int, message: str, error: Any) -> None:  # noqa: N802
            text = getattr(symbol, "text", None)
            if text is None:
                found = message.removeprefix("token recognition error at: ").strip("'")
                problem = f"cannot be read from {shown(found)}"
            else:
                problem = "ends too early" if text == "<EOF>" else f"{shown(text)} is not expected here"
            refuse(line, column, problem, "the question is one statement like MATCH … WHERE … RETURN … LIMIT …")

    return FirstError()
