"""A parser of openCypher, for statements that no server reads here."""

from __future__ import annotations

from antlr4 import CommonTokenStream, InputStream
from antlr4.error.ErrorListener import ErrorListener
from antlr4_cypher import CypherLexer, CypherParser


class Problems(ErrorListener):
    def __init__(self) -> None:
        self.found: list[str] = []

    def syntaxError(self, recognizer, offendingSymbol, line, column, msg, e):  # type: ignore[no-untyped-def]  # noqa: N802, N803
        self.found.append(f"{line}:{column} {msg}")


def problems(text: str) -> list[str]:
    heard = Problems()
    lexer = CypherLexer(InputStream(text))
    parser = CypherParser(CommonTokenStream(lexer))
    for one in (lexer, parser):
        one.removeErrorListeners()
        one.addErrorListener(heard)
    parser.script()
    return heard.found
