"""Extracts from Markdown what a reader of the rendered page sees. Every line keeps its number.

Nothing is copied from the source but what the parser (CommonMark with tables) says is shown: words, code, marks. So
addresses and titles of links, pictures, definitions, comments, front matter, and what a fence says behind its
language are left out. HTML shows its text where its elements, attributes and style sheets are known to show it, a
closed `<details>` if its summary has words. A footnote is shown if the visible text refers to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import unescape
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.ingest.extract import media_types
from sluice.ingest.extract.css.cascade import hides
from sluice.ingest.extract.css.sheet import Sheets
from sluice.ingest.extract.extracted import Extracted, LinkedWords
from sluice.ingest.extract.html.metadata import parse_moment
from sluice.text.hidden import visible, visible_in_its_lines
from sluice.text.pattern_file import PatternFile

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n(?P<facts>.*?\n)(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FACT = re.compile(r"^([\w\"'-][^\n:=]{0,80}?)[ \t]*[:=][ \t]*(.*?)[ \t]*$", re.MULTILINE)
_FIRST_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_LANGUAGE = re.compile(r"[\w+#.-]{1,20}")
_MARKUP = re.compile(r"[\n<\[!`\\&*_~]")
_NOTE = re.compile(r"\[\^([^\]\s]{1,100})\]:")
_NOTE_REFERENCE = re.compile(r"\[\^([^\]\s]{1,100})\]")
_WINDOW, _MOST_WINDOW = 50_000, 100_000
"""Characters that are parsed at a time: the parser takes 200 bytes for each. A block is parsed whole up to the most."""

_HTML = PatternFile(Path(__file__).with_name("markdown_html.toml"))
_HIDING_CLASS = re.compile(r"hid|none|sr-|reader|invis|visual|collaps|screen|clip|transp|opac|zero", re.IGNORECASE)
_AS_BROWSERS_READ = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in ((r"<!---?>", "<!---->"), ("--!>", "-->"), (r"--\s+>", "- >"), (r"<!\[", "<?"))
)
"""Comments whose end the library sees elsewhere."""
_SHEET = re.compile(r"<style\b[^>]*>(.*?)(?:</style|\Z)", re.IGNORECASE | re.DOTALL)
_CLOSED, _CLOSED_SUMMARY = "closed details", "summary of closed details"
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}


def extract_markdown(source: str) -> Extracted:
    """Return the visible text of a document with its links, and the facts of its front matter."""
    text = visible_in_its_lines(source)
    front = _FRONT_MATTER.match(text)
    facts: dict[str, str] = {}
    if front and (found := _FACT.findall(front["facts"])):  # else two rules with text between them
        facts = {name.lower(): value.strip("\"'") for name, value in found}
        text = "\n" * front[0].count("\n") + text[front.end() :]
    shown, links = _Page(text).read()
    heading = _FIRST_HEADING.search(shown)
    language = facts.get("lang") or facts.get("language")
    return Extracted(
        text=shown,
        media_type=media_types.MARKDOWN,
        form="markdown",
        title=facts.get("title") or (heading[1] if heading else None),
        author=facts.get("author"),
        published_at=parse_moment(facts.get("date")),
        language=language[:2].lower() if language else None,
        linked_words=links,
    )


class _Page:
    """One document: its lines, and what is shown of them so far."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._source: list[str] = []
        self._first = 0
        self._shown: list[list[str]] = [[] for _ in range(text.count("\n") + 1)]
        self._widths = [0] * len(self._shown)
        self._hidden = _hidden_names(text)
        self._html = _Html(self._hidden)
        self._links: list[tuple[int, int, int, int, str]] = []
        self._notes: dict[int, str] = {}
        self._note = ""
        self._referred: set[str] = set()
        self._references: dict[str, Any] = {}

    def read(self) -> tuple[str, tuple[LinkedWords, ...]]:
        for first, source, tokens in _blocks(self._text, self._references):
            self._first, self._source = first, source
            for number, token in enumerate(tokens):
                self._read(token, tokens[number - 1])
        for line, note in self._notes.items():
            if note not in self._referred:
                self._shown[line], self._widths[line] = [], 0
        starts = list(accumulate((width + 1 for width in self._widths), initial=0))
        links = tuple(
            LinkedWords(starts[line] + column, starts[last] + end, url)
            for line, column, last, end, url in self._links
            if self._notes.get(line, "") in self._referred or line not in self._notes
        )
        return "\n".join(map("".join, self._shown)), links

    def _read(self, token: Token, before: Token) -> None:
        first, last = token.map or (0, 0)
        if token.type in ("paragraph_open", "heading_open", "fence", "html_block", "table_open"):
            self._note = ""
        if token.type == "inline" and self._hidden.isdisjoint(("*", before.tag)):
            self._read_inline(token, is_cell=before.type in ("th_open", "td_open"))
        elif token.type == "html_block":
            for line in range(first, last):
                self._put(line, self._html.text_of(self._source[line] + "\n").strip())
        elif not self._html.shows():
            return
        elif token.type == "fence":
            language = _LANGUAGE.match(token.info.strip())
            opening = self._source[first].partition(token.markup[0])[0] + token.markup
            self._put(first, opening + (language[0] if language else ""))
            self._copy(first + 1, last)
        elif token.type in ("code_block", "hr"):
            self._copy(first, last)
        elif token.type == "heading_open" and token.markup in "=-":
            self._copy(last - 1, last)
        elif token.type == "table_open":
            self._copy(first + 1, first + 2)

    def _copy(self, first: int, last: int) -> None:
        for line in range(first, min(last, len(self._source))):
            self._put(line, self._source[line])

    def _put(self, line: int, words: str) -> None:
        place = self._first + line
        self._shown[place].append(words)
        self._widths[place] += len(words)
        if self._note and words:
            self._notes[place] = self._note

    def _read_inline(self, token: Token, *, is_cell: bool) -> None:
        """Show the children of a block of words, each on the line of the source that it stands in."""
        line, content, at = (token.map or (0, 0))[0], token.content, 0
        opened: list[tuple[int, int, str]] = []
        self._begin(line, content.partition("\n")[0], is_cell)
        if not _MARKUP.search(content) and self._html.shows():
            self._put(line, visible(content))
            content = ""
        depth = self._html.depth()
        for child in _parsed(content, self._references):
            if child.type in ("softbreak", "hardbreak"):
                at = content.find("\n", at) + 1 or at
                line += 1
                self._begin(line, content[at:].partition("\n")[0], is_cell=False)
                continue
            found = content.find(child.content, at) if child.content else -1
            if found >= 0:
                line += content.count("\n", at, found)
                at = found + len(child.content)
            place = self._first + line
            if child.type == "html_inline":
                self._put(line, self._html.text_of(child.content))
                line += child.content.count("\n")
            elif not self._html.shows():
                continue
            elif child.type == "link_open" and child.info != "auto":
                opened.append((place, self._widths[place], str(child.attrs.get("href", ""))))
            elif child.type == "link_close" and opened:
                begun, column, url = opened.pop()
                if url:
                    self._links.append((begun, column, place, self._widths[place], url))
            elif child.type == "code_inline":
                pad = " " * ("`" in child.content[:1] + child.content[-1:])
                words = f"{child.markup}{pad}{child.content}{pad}{child.markup}"
                self._put(line, words.replace("|", "\\|") if is_cell else words)
            elif child.type != "image":
                words = child.markup if child.info == "escape" or not child.content else child.content
                self._put(line, visible(words).replace("\n", " "))
                if not self._note:
                    self._referred.update(_NOTE_REFERENCE.findall(words))
        self._html.end_paragraph(depth)
        if is_cell:
            self._put((token.map or (0, 0))[0], " |")

    def _begin(self, line: int, content: str, is_cell: bool) -> None:
        """Write the marks before the words of a line: of lists, quotations, headings."""
        source = self._source[line]
        if is_cell:
            self._put(line, " " if self._widths[self._first + line] else "| ")
            return
        if note := _NOTE.match(content):
            self._note = note[1]
        if self._html.shows():
            self._put(line, source[: max(0, source.find(content.strip()))])


class _Html(HTMLParser):
    """The raw HTML of a document as a browser would read it: what elements are open, and whether text in them shows."""

    def __init__(self, hidden: frozenset[str]) -> None:
        super().__init__(convert_charrefs=False)
        self._hidden = hidden
        self._has_summary = False
        self._open: list[tuple[str, bool]] = []
        self._text: list[str] = []
        self._shows: bool | None = True

    def depth(self) -> int:
        return len(self._open)

    def text_of(self, html: str) -> str:
        """Return the visible text of a piece of HTML that goes on where the piece before ended."""
        self._text.clear()
        self._shows = None
        for pattern, instead in _AS_BROWSERS_READ:
            html = pattern.sub(instead, html)
        self.feed(html)
        return visible(unescape("".join(self._text))).replace("\n", " ")

    def shows(self) -> bool:
        """Return whether text that stands here shows. In an open comment, tag or script it does not."""
        if self._shows is None:
            self._text.clear()
            self.feed("x")
            self._shows = bool(self._text)
        return self._shows

    def end_paragraph(self, depth: int) -> None:
        """Close what was opened in a paragraph and not closed, as a browser does."""
        if len(self._open) > depth:
            self._open[depth:] = [one for one in self._open[depth:] if one[0] in _HTML.words("reopened")]
            self._shows = None

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag in _HTML.words("breaks") and self._text:
            self._text.append(" ")
        if tag in _HEADINGS and not self._text and self._is_shown():
            self._text.append(_HEADINGS[tag])
        if tag in _HTML.words("void"):
            return
        if tag in _HTML.words("raw"):
            self.set_cdata_mode(tag)
        names = dict(attrs)
        is_shown = tag not in _HTML.words("not_shown") and all(
            (
                name in _HTML.words("harmless") or name.startswith("data-")
                if tag in _HTML.words("known")
                else name not in _HTML.words("global")
            )
            or _leaves_shown(name, value or "")
            for name, value in names.items()
        )
        named = {f".{name}" for name in (names.get("class") or "").lower().split()}
        is_shown = is_shown and self._hidden.isdisjoint({"*", tag, f"#{names.get('id') or ''}".lower(), *named})
        if tag == "summary" and self._open and self._open[-1] == (_CLOSED, False):
            self._open[-1], self._has_summary = ("details", True), False
            tag = _CLOSED_SUMMARY
        closed = tag == "details" and "open" not in names
        self._open.append((_CLOSED, False) if closed and is_shown else (tag, is_shown and not closed))

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        also = {"summary": _CLOSED_SUMMARY, "details": _CLOSED}.get(tag, tag)
        for place in range(len(self._open) - 1, -1, -1):
            if (name := self._open[place][0]) in (tag, also):
                del self._open[place:]
                if name == _CLOSED_SUMMARY and not self._has_summary:
                    self._open[-1] = ("details", False)
                return

    def handle_data(self, data: str) -> None:
        if self._is_shown():
            self._text.append(data)
            self._has_summary = self._has_summary or bool(visible(unescape(data)).strip())

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def _is_shown(self) -> bool:
        return all(shows for _, shows in self._open)


def _hidden_names(text: str) -> frozenset[str]:
    """Return classes, ids and tags of which a style sheet in `text` says what does not surely show."""
    sheets = Sheets()
    for sheet in _SHEET.findall(text):
        sheets.read(sheet)
    return frozenset(
        rule.selector.key() or "*"
        for rule in sheets.rules
        if hides(";".join(f"{name}:{value}" for name, value, _ in rule.declarations))
    )


def _leaves_shown(name: str, value: str) -> bool:
    """Return whether a class or style hides nothing; a class can only by a sheet that pages of this kind share."""
    return not _HIDING_CLASS.search(value) if name == "class" else name == "style" and not hides(value)


def _blocks(text: str, references: dict[str, Any]) -> Iterator[tuple[int, list[str], list[Token]]]:
    """Yield the first line, the lines and the block tokens of each part of a text: as many whole blocks as fit."""
    at = line = 0
    size = _WINDOW
    while at < len(text):
        end = at + size
        if end < len(text):
            end = text.rfind("\n", at, end) + 1 or text.rfind(" ", at, end) + 1 or end
        part = text[at:end]
        tokens = _parser().parse(part, references)
        tops = [number for number, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0 and token.map]
        if end < len(text):
            if len(tops) > 1:  # the last block may go on
                last = tokens[tops[-1]].map or [0]
                part, tokens = "".join(part.splitlines(True)[: last[0]]), tokens[: tops[-1]]
            elif size < _MOST_WINDOW:
                size *= 2
                continue
        yield line, part.split("\n"), tokens
        at, line, size = at + len(part), line + part.count("\n"), _WINDOW


@cache
def _parser() -> MarkdownIt:
    """Return the parser of blocks; `_parsed` reads what stands in one, so that few tokens are kept at a time."""
    from markdown_it import MarkdownIt

    class Parser(MarkdownIt):
        """Accepts every address as it is written."""

        def validateLink(self, _: str) -> bool:  # noqa: N802
            return True

        def normalizeLink(self, url: str) -> str:  # noqa: N802
            return url

    parser = Parser("commonmark").enable(["table", "strikethrough"]).disable("inline")
    rules = parser.block.ruler
    define = next(rule.fn for rule in rules.__rules__ if rule.name == "reference")

    def define_unless_note(state: StateBlock, first: int, last: int, silent: bool) -> bool:
        at = state.bMarks[first] + state.tShift[first]
        return not _NOTE.match(state.src, at) and define(state, first, last, silent)

    rules.at("reference", define_unless_note)
    return parser


def _parsed(content: str, references: dict[str, Any]) -> Sequence[Token]:
    """Return the words and marks of a block, with the references that were defined up to it."""
    tokens: list[Token] = []
    _parser().inline.parse(content, _parser(), references, tokens)
    return tokens
