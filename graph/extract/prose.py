"""Reads reStructuredText and plain lines as pieces of prose: words, code, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from sluice.graph.extract.languages.rules import known

MOST_CHARACTERS = 1_000_000
"""Characters of one text that are read: the longest takes some three seconds. A book has half of that."""

_BARE_URL = re.compile(r"https?://[^\s<>\"'`\[\]{}|\\^]{3,2000}")
_TRAILING = ".,:;!?'\"*_~"


class Kind(Enum):
    """Kinds of pieces."""

    WORDS = auto()
    CODE = auto()
    """Code within a line, without its marks."""
    BLOCK = auto()
    """A block of code; `address` is the language that it declares, or empty."""
    LINK = auto()
    """Words that link to `address`, as it is written."""
    LABEL = auto()
    """A reference to the label `address`, which some document has."""
    OWN_LABEL = auto()
    """A label of the document itself, `address`."""
    SYMBOL = auto()
    """The name of a symbol, marked by a role; `address` is its language."""


class Piece(NamedTuple):
    """A piece of prose. `line` is its first line, from 1."""

    kind: Kind
    text: str
    line: int
    address: str = ""


def bare_urls(words: str) -> list[str]:
    """Return the bare addresses in words, without the punctuation of the sentence around them."""
    if "://" not in words:
        return []
    return [_without_sentence(found) for found in _BARE_URL.findall(words)]


def _without_sentence(url: str) -> str:
    url = url.rstrip(_TRAILING)
    while url.endswith(")") and url.count("(") < url.count(")"):
        url = url[:-1].rstrip(_TRAILING)
    return url


def read_lines(text: str) -> Iterator[Piece]:
    """Yield a piece for each line that is not blank."""
    for number, line in enumerate(text[:MOST_CHARACTERS].split("\n"), 1):
        if line.strip():
            yield Piece(Kind.WORDS, line, number)


_TARGET = re.compile(r"\s*\.\. _(?P<name>`[^`]{1,200}`|[^:`]{1,200}):(?:\s+(?P<address>\S.{0,2000}))?\s*$")
_DIRECTIVE = re.compile(
    r"(?P<indent>\s*)\.\. (?:(?P<domain>\w+):)?(?P<name>[\w-]+)::(?:\s+(?P<argument>.{1,1000}))?\s*$"
)
_ROLE = re.compile(r":(?:(?P<domain>[a-z]+):)?(?P<role>[a-z]+):`(?P<text>[^`]{1,500})`")
_LITERAL = re.compile(r"``(?P<code>.{1,300}?)``(?!`)")
_EMBEDDED = re.compile(r"`(?P<words>[^`<>]{0,200})<(?P<address>[^`<>]{1,2000})>`__?")
_PHRASE = re.compile(r"`(?P<name>[^`<>]{1,200})`__?(?!\w)")
_PLAIN_CODE = re.compile(r"(?<![`:\w])`(?P<code>[^`\s][^`]{0,200})`(?![`_])")
_WORD_REFERENCE = re.compile(r"(?<![\w`:/.-])(?P<name>[A-Za-z0-9][\w.-]{0,80})_(?![\w`])")
_EXPLICIT = re.compile(r"(?P<words>.*?)\s*<(?P<target>[^<>]+)>\Z", re.DOTALL)
_ENTRY = re.compile(r"\s+(?:(?P<words>[^<>]{1,200}?)\s*<(?P<target>[^<>\s]{1,500})>|(?P<path>[\w./-]{1,500}))\s*$")

_PAGE_ROLES = frozenset({"doc", "download"})
_LABEL_ROLES = frozenset({"ref", "numref"})
_FILES = frozenset({"literalinclude", "include"})
_IGNORED = frozenset({"image", "figure", "raw", "math", "graphviz", "csv-table"})
_LANGUAGES = {"": "python", "py": "python", "js": "javascript", "c": "c", "cpp": "c", "go": "go", "rst": ""}


def read_restructured(text: str) -> Iterator[Piece]:
    """Yield the pieces of a text, in its order."""
    lines = text[:MOST_CHARACTERS].split("\n")
    yield from _Reading(lines).pieces()


def read_inline(line: str, number: int) -> Iterator[Piece]:
    """Yield the pieces of one line. References to labels are left out, as no label is known."""
    return _Reading([]).inline(line, number)


def is_restructured(text: str) -> bool:
    """Return whether the first 400 lines of a text have marks of reStructuredText, for files that no suffix tells."""
    head = text[:MOST_CHARACTERS]
    return any(_DIRECTIVE.match(line) or _TARGET.match(line) for line in head.split("\n", 400)[:400] if ".. " in line)


class _Reading:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._targets = dict(_targets(lines))
        self._module = ""
        self._owner: tuple[int, str] = (0, "")

    def pieces(self) -> Iterator[Piece]:
        number = 0
        while number < len(self._lines):
            line = self._lines[number]
            number += 1
            if target := _TARGET.match(line):
                if not target["address"]:
                    yield Piece(Kind.OWN_LABEL, "", number, _label(target["name"]))
                elif "://" in target["address"]:
                    yield Piece(Kind.LINK, target["name"].strip("`"), number, target["address"].strip())
                continue
            directive = _DIRECTIVE.match(line) if ".. " in line else None
            if directive is None:
                yield from self.inline(line, number)
                if line.rstrip().endswith("::") and not line.lstrip().startswith(".. "):
                    end = self._end_of_block(number, _indent(line))
                    yield Piece(Kind.BLOCK, "\n".join(self._lines[number:end]), number + 1)
                    number = end
                continue
            yield from self._directive(directive, number)
            name = directive["name"]
            if name in known("rst_code") or name in _IGNORED:
                end = self._end_of_block(number, len(directive["indent"]))
                if name in known("rst_code"):
                    body = "\n".join(self._lines[number:end])
                    yield Piece(Kind.BLOCK, body, number + 1, (directive["argument"] or "").strip().lower())
                number = end
            elif name == "toctree":
                end = self._end_of_block(number, len(directive["indent"]))
                yield from self._entries(number, end)
                number = end

    def _end_of_block(self, number: int, indent: int) -> int:
        """Return the line, from 0, after the lines that are blank or indented deeper than `indent`."""
        end = number
        while end < len(self._lines) and (not self._lines[end].strip() or _indent(self._lines[end]) > indent):
            end += 1
        return end

    def _entries(self, start: int, end: int) -> Iterator[Piece]:
        for number in range(start, end):
            line = self._lines[number]
            if line.lstrip().startswith(":"):
                continue
            if found := _ENTRY.match(line):
                yield Piece(Kind.LINK, found["words"] or "", number + 1, found["target"] or found["path"])

    def _directive(self, found: re.Match[str], number: int) -> Iterator[Piece]:
        name, argument = found["name"], (found["argument"] or "").strip()
        if name in _FILES and argument:
            yield Piece(Kind.LINK, "", number, argument)
        elif name in known("rst_described") and argument:
            yield from self._described(name, found["domain"] or "", argument, len(found["indent"]), number)
        elif argument and name not in known("rst_code") and name not in _IGNORED:
            yield from self.inline(argument, number)

    def _described(self, name: str, domain: str, argument: str, indent: int, number: int) -> Iterator[Piece]:
        bare = argument.partition("(")[0].strip().removeprefix("!")
        if name.endswith("module"):
            self._module, self._owner = bare, (0, "")
            qualified = bare
        else:
            column, owner = self._owner
            prefix = owner if owner and indent > column else self._module
            is_whole = not prefix or bare == prefix or bare.startswith(prefix + ".") or name.startswith("auto")
            qualified = bare if is_whole else f"{prefix}.{bare}"
            if name in ("class", "autoclass", "exception"):
                self._owner = indent, qualified
        if " " not in qualified:
            yield Piece(Kind.SYMBOL, qualified, number, _LANGUAGES.get(domain, "python"))

    def inline(self, line: str, number: int) -> Iterator[Piece]:
        if "`" not in line and "_" not in line:
            if line.strip():
                yield Piece(Kind.WORDS, line, number)
            return
        rest = line
        for pattern, read in (
            (_LITERAL, self._literal),
            (_ROLE, self._role),
            (_EMBEDDED, self._embedded),
            (_PHRASE, self._reference),
            (_PLAIN_CODE, self._literal),
        ):
            for found in pattern.finditer(rest):
                yield from read(found, number)
            rest = pattern.sub(" ", rest)
        for found in _WORD_REFERENCE.finditer(rest):
            yield from self._reference(found, number)
        yield Piece(Kind.WORDS, rest, number)

    def _literal(self, found: re.Match[str], number: int) -> Iterator[Piece]:
        yield Piece(Kind.CODE, found["code"], number)

    def _role(self, found: re.Match[str], number: int) -> Iterator[Piece]:
        role, text = found["role"], found["text"]
        explicit = _EXPLICIT.match(text)
        words, target = (explicit["words"], explicit["target"]) if explicit else (text, text)
        if role in known("rst_symbol_roles"):
            yield Piece(
                Kind.SYMBOL,
                target.lstrip("!~. ").removesuffix("()"),
                number,
                _LANGUAGES.get(found["domain"] or "", "python"),
            )
        elif role in _PAGE_ROLES:
            yield Piece(Kind.LINK, words, number, target)
        elif role in _LABEL_ROLES:
            yield Piece(Kind.LABEL, words, number, _label(target))
        elif role in ("file", "code", "literal", "samp"):
            yield Piece(Kind.CODE, text, number)

    def _embedded(self, found: re.Match[str], number: int) -> Iterator[Piece]:
        address = found["address"].strip()
        if address.endswith("_") and "/" not in address:
            address = self._targets.get(_label(address[:-1]), "")
        if address:
            yield Piece(Kind.LINK, found["words"].strip(), number, address)

    def _reference(self, found: re.Match[str], number: int) -> Iterator[Piece]:
        if address := self._targets.get(_label(found["name"])):
            yield Piece(Kind.LINK, found["name"], number, address)


def _targets(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if ".. _" in line and (found := _TARGET.match(line)) and found["address"]:
            yield _label(found["name"]), found["address"].strip()


def _label(name: str) -> str:
    """Normalise a label: without case, runs of white space as one space (docutils, reference names)."""
    return " ".join(name.strip("`").casefold().split())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
