"""Parses text into trees by the grammar of openCypher, with the position of the first error.

The grammar (`antlr4_cypher`) lacks some of the syntax that people write for Neo4j. This module adapts the tokens, one
by one and before the parser reads them: they never say more than the query does, and the resulting trees are checked
later. Its lexer skips unknown characters; here they are errors, as is everything that an engine might read
differently. Later stages use only the trees, never the text.

The words of a query, and of the engines' dialects into which it is translated, stand in `cypher.toml`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from sluice.contracts.errors import InvalidInput, needed
from sluice.text.pattern_file import PatternFile

SAID = PatternFile(Path(__file__).with_name("cypher.toml"))
MAX_SHOWN = 40


def refuse_at(node: Any, problem: str, remedy: str = "") -> NoReturn:
    """Raise InvalidInput with the position where the node or token begins."""
    token = node.start if hasattr(node, "parser") else getattr(node, "symbol", node)
    refuse(token.line, token.column, problem, remedy)


def refuse(line: int, column: int, problem: str, remedy: str = "") -> NoReturn:
    """Raise InvalidInput for a line from 1 and a column from 0."""
    raise InvalidInput("query", f"line {line}, column {column + 1}: {problem}", remedy)


def shown(text: str) -> str:
    """Return a shortened text of the query for an error message."""
    text = " ".join(text.split())
    return repr(text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…")


_one_at_a_time = threading.Lock()


class Branch(NamedTuple):
    """One of the queries that UNION joins: trees in sequence, each but the last up to a WITH."""

    joined_by: str
    """`UNION`, `UNION ALL`, or nothing before the first."""
    trees: list[Any]
    """Each is of the rule `script` of the grammar."""


def parse(query: str) -> list[Branch]:
    """Return the query as trees. Raises InvalidInput of `query` with line and column, both from 1; NotInstalled."""
    try:
        import antlr4_cypher  # noqa: F401 - other readers of a query import it where they use it
    except ImportError as error:
        raise needed("cypher", error) from error
    with _one_at_a_time:  # lexers and parsers share a cache
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


MAX_CHARACTERS = 10_000
MAX_TOKENS = 1_000
"""A parser in Python takes half a second for so many."""
MAX_NESTING = 16
"""Limit of nested brackets and CASE: the parser is recursive."""

STATEMENT = "the question is one statement like MATCH … WHERE … RETURN … LIMIT …"
_OPENING = frozenset({"LPAREN", "LBRACE", "LBRACK"})
_CLOSING = frozenset({"RPAREN", "RBRACE", "RBRACK"})


class Part(NamedTuple):
    """One of the queries that UNION joins, as clauses that end where the next WITH begins."""

    joined_by: str
    """`UNION`, `UNION ALL`, or nothing before the first."""
    clauses: list[list[Any]]


def read_tokens(query: str) -> list[Any]:
    """Return the tokens of a query, white space included, the end last. Raises InvalidInput of `query`."""
    from antlr4 import CommonTokenStream, InputStream
    from antlr4_cypher import CypherLexer

    if len(query) > MAX_CHARACTERS:
        raise InvalidInput("query", f"has {len(query):,} characters", f"at most {MAX_CHARACTERS:,}")
    first_odd = re.search(r"[^\t\n\r -\U0010ffff]|[\x7f-\x9f\ud800-\udfff]", query)
    if first_odd:
        line = query.count("\n", 0, first_odd.start()) + 1
        refuse(line, first_odd.start() - query.rfind("\n", 0, first_odd.start()) - 1,
               "a control character", "remove it")  # fmt: skip
    listener = first_error(query)
    lexer = CypherLexer(InputStream(query))
    lexer.removeErrorListeners()
    lexer.addErrorListener(listener)
    stream = CommonTokenStream(lexer)
    stream.fill()
    words = [token for token in stream.tokens if token.channel == 0]
    if len(words) > MAX_TOKENS:
        refuse_at(words[MAX_TOKENS], f"more than {MAX_TOKENS:,} words and signs", "hand lists in as a parameter")
    tokens = list(_one_space(_helped(words, listener.tildes)))
    _look_at_depth(tokens)
    return tokens


def split(tokens: list[Any]) -> Iterator[Part]:
    """Split the query at each UNION, and each of its parts before every WITH.

    The grammar reads one WITH, and no UNION. A clause with a successor gets a `RETURN *` of its own, which keeps the
    WITH's text, so that the writer leaves it out.
    """
    from antlr4 import Token
    from antlr4_cypher import CypherLexer

    part = Part("", [[]])
    depth = 0
    before = None
    for token in tokens:
        depth += _step(token)
        name = _name(token)
        clause = part.clauses[-1]
        if depth == 0 and name == "UNION":
            clause.append(_as(token, Token.EOF, "<EOF>"))
            yield part
            part = Part("UNION", [[]])
        elif depth == 0 and name == "ALL" and before == "UNION":
            part = Part("UNION ALL", [[]])
        elif depth == 0 and name == "WITH" and before not in ("STARTS", "ENDS") and clause:
            clause += [_as(token, CypherLexer.RETURN), _as(token, CypherLexer.MULT, "*"), _as(token, Token.EOF)]
            part.clauses.append([token])
        elif name != "SP" or clause:
            clause.append(token)
        before = name if name != "SP" else before
    yield part


def first_error(query: str) -> Any:
    """Return a listener for the lexer or the parser that raises at the first error: guesses after it help no reader.

    Its `tildes` are the positions of tildes after an equals sign, which the lexer does not know.
    """
    from antlr4.error.ErrorListener import ErrorListener

    class FirstError(ErrorListener):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tildes: set[tuple[int, int]] = set()

        def syntaxError(self, recognizer: Any, symbol: Any, line: int, column: int, message: str, error: Any) -> None:  # noqa: N802
            text = getattr(symbol, "text", None)
            found = message.removeprefix("token recognition error at: ").strip("'") if text is None else text
            if text is None and found == "~" and query.split("\n")[line - 1][column - 1 : column] == "=":
                self.tildes.add((line, column))
                return
            if text is None:
                problem = f"cannot be read from {shown(found)}"
            else:
                problem = "ends too early" if text == "<EOF>" else f"{shown(text)} is not expected here"
            refuse(line, column, problem, SAID.tables["instead"].get(found.upper(), STATEMENT))

    return FirstError()


def _one_space(tokens: Iterator[Any]) -> Iterator[Any]:
    before = None
    for token in tokens:
        name = _name(token)
        if name != "SP" or before != "SP":
            yield token
        before = name


def _helped(words: list[Any], tildes: set[tuple[int, int]]) -> Iterator[Any]:
    """Yield the tokens, with those replaced that the grammar would misread."""
    from antlr4_cypher import CypherLexer

    open_brackets: list[str] = []
    cases = 0
    before = None
    places = iter(range(len(words)))
    for at in places:
        token, name = words[at], _name(words[at])
        following = next((_name(one) for one in words[at + 1 :] if _name(one) != "SP"), None)
        number = _real_number(words[at : at + 3])
        cases += name == "CASE"
        if name in _OPENING:
            open_brackets.append(name)
        elif name in _CLOSING and open_brackets:
            open_brackets.pop()
        if number is not None:
            # The lexer reads `100.0` and `1.05` as a number, a dot and a name.
            token = number
            next(places), next(places)
        elif name == "DIGIT" and token.text[0] == "-" and before in SAID.words("operands"):
            # The lexer reads `size(x)-1` as two numbers.
            minus = _as(token, CypherLexer.SUB, "-")
            minus.stop = minus.start
            yield minus
            token = _as(token, CypherLexer.Integer if token.text[1:].isdigit() else CypherLexer.DIGIT, token.text[1:])
            token.start, token.column = token.start + 1, token.column + 1
        elif token.text == "0":
            token = _as(token, CypherLexer.Integer)
        elif name == "END":
            if cases:
                cases -= 1
            else:
                token = _as(token, CypherLexer.ID)  # a variable
        elif name == "EXISTS" and following == "LPAREN":
            token = _as(token, CypherLexer.ID)  # the function
        elif name == "COUNT" and following == "LBRACE":
            token = _as(token, CypherLexer.EXISTS)  # its text tells it from EXISTS
        elif name == "MATCH" and before == "LBRACE":
            continue  # EXISTS { MATCH … } means the same without it
        elif name == "STICK" and open_brackets[-1:] == ["LPAREN"]:
            token = _as(token, CypherLexer.COLON)  # one label or another; its text tells it from a colon
        elif name == "ASSIGN" and (token.line, token.column + 1) in tildes:
            token.text = "=~"
        yield token
        before = _name(token) if name != "SP" else before


def _real_number(tokens: list[Any]) -> Any:
    """Return one token for three that touch: digits, a dot, digits first. None: they are no number."""
    from antlr4_cypher import CypherLexer

    if len(tokens) < 3 or _name(tokens[1]) != "DOT":
        return None
    whole, dot, rest = tokens
    if not whole.text.isdigit() or not rest.text[0].isdigit():
        return None
    if whole.stop + 1 != dot.start or dot.stop + 1 != rest.start:
        return None
    number = _as(whole, CypherLexer.DIGIT, f"{whole.text}.{rest.text}")
    number.stop = rest.stop
    return number


def _look_at_depth(tokens: list[Any]) -> None:
    depth = 0
    for token in tokens:
        depth += _step(token)
        if depth > MAX_NESTING:
            refuse_at(token, f"nested more than {MAX_NESTING} deep", "take the question apart")


def _step(token: Any) -> int:
    """Return the change of depth in brackets and CASE by a token."""
    name = _name(token)
    return (name in _OPENING or name == "CASE") - (name in _CLOSING or name == "END")


def _name(token: Any) -> str:
    from antlr4_cypher import CypherLexer

    names = CypherLexer.symbolicNames
    return str(names[token.type]) if 0 < token.type < len(names) else ""


def _as(token: Any, kind: int, text: str | None = None) -> Any:
    changed = token.clone()
    changed.type = kind
    changed.text = token.text if text is None else text
    return changed


LADYBUG, NEO4J = "ladybug", "neo4j"
WRITTEN_OUT = frozenset({"exists", "id", "elementid", "isempty"})
"""Functions that are never sent to an engine: the query is written by other means."""


class Function(NamedTuple):
    """Fewest and most arguments of a function, and its text by their number; the last text serves for more."""

    fewest: int
    most: int
    written: tuple[str, ...]
    takes_distinct: bool = False


class Dialect(NamedTuple):
    """The words of one engine. `{0}`, `{1}` are placeholders."""

    functions: Mapping[str, Function]
    """By lower-case name."""
    variable_length: str
    """`{0}` is the least and `{1}` the greatest number of edges. No engine walks an edge twice."""
    label_test: str
    """`{0}` is a variable, `{1}` a label."""
    either_label: str
    """Separates alternative labels of a node."""
    shortest: Mapping[str, tuple[str, str]]
    """By lower-case function name: the length, as `variable_length`, and the text around the path."""
    matches: str
    """Tests the whole text `{0}` against the regular expression `{1}`. Empty: not supported."""
    place: str
    """The item of list `{0}` at position `{1}` from 0, which is `{2}` from 1; null beyond its end."""
    place_from_end: str
    """The item at position `{1}` from the end, whose last is 1."""
    part: str
    """The slice from position `{1}` from 0, which is `{3}` from 1, up to the one before `{2}` from 0."""
    loop: Mapping[str, str]
    """Loops by name (`filter`, `map` or `both`), filled with variable, list, condition and result."""
    order_alone: str
    """Added after the ORDER BY of a WITH without SKIP and LIMIT."""
    loops_without_parameters: bool
    """Whether the engine fails on a parameter inside a loop."""


@cache
def dialect_named(name: str) -> Dialect:
    """Return the dialect of an engine, `LADYBUG` or `NEO4J`. Memgraph understands Neo4j's but for shortest paths."""
    words = dict(SAID.tables[name])
    shared = SAID.tables["functions"]
    written = {**shared["written"], **words.pop("written")}
    aggregates = shared["aggregates"].split()
    arguments = dict.fromkeys((*aggregates, *shared["of_one_value"].split()), (1, 1)) | shared["arguments"]
    functions = {
        one.lower(): Function(fewest, most, tuple(written.get(one, [f"{one}({{*}})"])), one in aggregates)
        for one, (fewest, most) in arguments.items()
    }
    return Dialect(functions, **words)
