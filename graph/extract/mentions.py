"""Finds the names in prose: symbols in backquotes and roles, tests by their ids, files by their paths.

A word in backquotes counts as a symbol's name where it looks like one: it has an underscore, a dot, parentheses or a
capital. English words do not, so `run` and `default` in backquotes count for nothing. Undefined names lead nowhere.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Node, Origin, document_node, symbol, unknown
from sluice.graph.extract.addresses import name_address, path_address, path_beside
from sluice.graph.extract.prose import Kind, Piece

_NAME = re.compile(r"[@&*]?(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*)(?P<call>\(.*\))?[;,]?", re.DOTALL)
_IMPORT = re.compile(r"(?:from\s+(?P<module>[\w.]+)\s+)?import\s+(?P<name>[\w.]+)")
_HUMP = re.compile(r"[a-z0-9][A-Z]")
_SUFFIXES = (
    "py|pyi|js|mjs|cjs|jsx|ts|mts|cts|tsx|go|rs|java|c|h|cc|cpp|cxx|hpp|hh|hxx|cs|rb|php|kt|swift|scala|lua|sh|sql"
    "|md|mdx|rst|txt|html|json|jsonl|yaml|yml|toml|ini|cfg|conf|css|proto|tf|lock|xml|csv|svg|scm|ipynb|vue|svelte"
)
_PART = r"[\w@+-][\w.@+-]{0,99}"
_PATH = re.compile(
    rf"(?<![\w/.:@+~-])(?P<up>(?:\.{{1,2}}/){{0,8}})(?P<path>(?:{_PART}/){{1,24}}{_PART}\.(?:{_SUFFIXES}))(?![\w/-]|\.\w)"
)
_FILE = re.compile(rf"{_PART}\.(?:{_SUFFIXES})(?=:|\Z)")
_TEST = re.compile(r"(?P<path>(?:[\w.@+-]+/){0,24}[\w.@+-]+)\.py(?P<names>(?:::\w+){1,6})")
_DOMAINS = frozenset({"com", "org", "net", "io", "dev", "ai", "example", "localhost", "local"})
_OWN = frozenset({"self", "cls", "this"})
_BUILTINS = frozenset(dir(builtins)) | {"self", "cls", "this", "undefined", "null"}
_LANGUAGES = {
    **dict.fromkeys(("python", "py", "python3", "pycon", "ipython", "doctest"), "python"),
    **dict.fromkeys(("javascript", "js", "jsx", "typescript", "ts", "tsx", "mjs", "node"), "javascript"),
    **dict.fromkeys(("go", "golang"), "go"),
    **dict.fromkeys(("rust", "rs"), "rust"),
    "java": "java",
    **dict.fromkeys(("c", "cpp", "c++", "cc", "h"), "c"),
}


def mention_edges(
    document: GraphDocument, pieces: Iterable[Piece], languages: tuple[str, ...] = ("python",)
) -> Iterator[Edge]:
    """Yield REFERS_TO and LINKS_TO edges of names in `pieces`. `languages` apply to names without a stated language."""
    mentions = _Mentions(document, languages)
    for piece in pieces:
        if piece.kind is Kind.CODE:
            yield from mentions.code(piece)
        elif piece.kind is Kind.SYMBOL and _NAME.fullmatch(piece.text):
            yield mentions.symbol(piece.address or languages[0], piece.text, piece.line)
        elif piece.kind is Kind.WORDS:
            yield from mentions.paths(piece.text, piece.line)


def languages_of(pieces: Iterable[Piece]) -> tuple[str, ...]:
    """Return the languages that a text's code blocks declare, the most frequent first; Python where none does."""
    counts = Counter(
        _LANGUAGES[piece.address] for piece in pieces if piece.address in _LANGUAGES and piece.kind is Kind.BLOCK
    )
    return tuple(name for name, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:2]) or ("python",)


class _Mentions:
    def __init__(self, document: GraphDocument, languages: tuple[str, ...]) -> None:
        self._document = document
        self._source = document_node(document.document_id)
        self._languages = languages

    def code(self, piece: Piece) -> Iterator[Edge]:
        text, line = piece.text.strip(), piece.line
        if found := _TEST.search(text):
            test = found["path"].strip("./").replace("/", ".") + found["names"].replace("::", ".")
            yield self.symbol("python", test, line)
        if file := _FILE.match(text):
            yield self._link(name_address(file[0]), line)
            return
        paths = list(self.paths(text, line))
        yield from paths
        if paths:
            return
        if imported := _IMPORT.match(text):
            yield self.symbol("python", ".".join(filter(None, (imported["module"], imported["name"]))), line)
        elif (named := _NAME.fullmatch(text)) and _is_identifier(named["name"], is_call=named["call"] is not None):
            for language in self._languages_of(named["name"]):
                yield from self._named(language, named["name"], line, is_call=named["call"] is not None)

    def _named(self, language: str, name: str, line: int, *, is_call: bool) -> Iterator[Edge]:
        """Yield a name as it is written, and where its holder may be no module, its most specific part."""
        yield self.symbol(language, name, line)
        first, *_, last = re.split(r"\.|::|#", name) * 2
        if first == last or first in _OWN:
            return
        if first[:1].isupper():
            yield self.symbol(language, first, line)
        elif "_" in last.strip("_") or _HUMP.search(last) or is_call:
            yield self.symbol(language, last, line)

    def paths(self, text: str, line: int) -> Iterator[Edge]:
        if "/" not in text:
            return
        for found in _PATH.finditer(text):
            node: Node | None = path_address(found["path"])
            if found["up"] and self._document.path is not None:
                node = path_beside(self._document.path, found["up"] + found["path"])
            if node is not None:
                yield self._link(node, line)

    def symbol(self, language: str, name: str, line: int) -> Edge:
        plain = name.replace("::", ".").replace("#", ".").strip(".")
        target = symbol(language, plain) if "." in plain else unknown(language, plain)
        return Edge(EdgeType.REFERS_TO, self._source, target, Origin.MENTION, (line,))

    def _link(self, target: Node, line: int) -> Edge:
        return Edge(EdgeType.LINKS_TO, self._source, target, Origin.MENTION, (line,))

    def _languages_of(self, name: str) -> tuple[str, ...]:
        if "::" in name and not {"rust", "c"} & set(self._languages):
            return ("rust", "c")
        return self._languages


def _is_identifier(name: str, *, is_call: bool) -> bool:
    last = re.split(r"\.|::|#", name)[-1]
    if name in _BUILTINS or (last.startswith("__") and last.endswith("__")) or len(last) < 2:
        return False
    if last in _DOMAINS and not is_call:
        return False
    is_capitalised = name[0].isupper() and not name.isupper() and len(name) > 2
    return is_call or is_capitalised or any(mark in name for mark in "._:#") or _HUMP.search(name) is not None
