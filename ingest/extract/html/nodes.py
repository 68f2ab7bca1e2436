"""An HTML page as arrays: one entry for each element and each text, in the order of the source.

An element is followed by its content, up to `ends`; so a subtree is a range, the ancestors of an
entry are found by `parents`, and a sum over subtrees is one loop from the end to the start. No depth is too deep and
nothing is visited twice. White space beside the tag of a block is left out. Promises: linear in the page; no text
outside scripts and styles holds a no-break space or an invisible character
(text/hidden.py); of a page with more than `MOST_NODES` entries the first ones are read.

The parser is libxml2's, which reads tag soup as browsers do. When it builds a tree itself it compares each attribute
of a tag with all before it, so that a tag of 40,000 attributes takes minutes; here it only reports tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from lxml import etree

from sluice.text.hidden import visible

MOST_NODES = 400_000
"""Most entries of one page: some 20 MB of ordinary HTML; a book on one page has a tenth."""

BLOCKS = frozenset(
    [
        *("html", "body", "main", "article", "section", "header", "footer", "nav", "aside", "div", "p", "pre"),
        *("blockquote", "ul", "ol", "li", "dl", "dt", "dd", "menu", "dir", "table", "caption", "thead", "tbody"),
        *("tfoot", "tr", "td", "th", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "form", "fieldset", "legend"),
        *("figure", "figcaption", "address", "details", "summary", "center", "hgroup", "search", "xmp", "listing"),
        *("plaintext", "noframes"),
    ]
)
"""Elements that begin a line of their own (HTML, section 15.3)."""
HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))

_DECLARATION = re.compile(r"\s*<\?xml[^>]*\?>")
_SPACE_IS_NOTHING = (BLOCKS | {"head", "script", "style", "meta", "link"}) - {"pre", "xmp", "listing", "plaintext"}
"""Elements at whose tags white space is not rendered."""
_PROGRAMS = frozenset(("script", "style"))
"""Elements whose text may be megabytes and is never shown; code that reads it cleans it itself."""
_UNUSUAL = re.compile(r"[^\t\n -~]")
_NAMED_FOR_OTHERS = re.compile(r"(</?)(noscript|noembed)(?![\w-])", re.IGNORECASE)
_EXCHANGED = {"noscript": "noembed", "noembed": "noscript"}
_ROOT = re.compile(r"<(?:html|body)\b[^>]*>", re.IGNORECASE)
_MOST_ROOTS = 50
_NONE: Mapping[str, str] = {}
_Event = Mapping[str, str] | str | None


class Nodes:
    """The arrays. `tags` is "" for a text; `texts` is "" for an element; `parents` is -1 at the top."""

    __slots__ = ("attributes", "ends", "is_cut", "parents", "tags", "texts")

    def __init__(self) -> None:
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[Mapping[str, str]] = []
        self.parents: list[int] = []
        self.ends: list[int] = []
        self.is_cut = False

    def __len__(self) -> int:
        return len(self.tags)

    def text(self, node: int) -> str:
        """Return all text in `node`, on one line."""
        return " ".join("".join(self.texts[node : self.ends[node]]).split())

    def ancestors(self, node: int) -> Iterator[int]:
        """Yield the elements around `node`, innermost first."""
        above = self.parents[node]
        while above >= 0:
            yield above
            above = self.parents[above]

    def children(self, node: int) -> Iterator[int]:
        """Yield the entries directly in `node`."""
        child, end = node + 1, self.ends[node]
        while child < end:
            yield child
            child = self.ends[child]


def read_nodes(page: str, *, runs_scripts: bool = True) -> Nodes:
    """Return the arrays of `page`; empty for an empty page.

    A browser that `runs_scripts` takes all up to `</noscript>` as one text, whatever is open in it (HTML, 13.2.6.4.7).
    The parser reads so only `<noembed>`: for it the two exchange their names.
    """
    page = page.replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n")
    if declaration := _DECLARATION.match(page):
        page = page[declaration.end() :]
    if not page.strip():
        return Nodes()
    if runs_scripts:
        page = _NAMED_FOR_OTHERS.sub(lambda found: found[1] + _EXCHANGED[found[2].lower()], page)
    nodes = _arranged(_events(page))
    if runs_scripts:
        nodes.tags = [_EXCHANGED.get(tag, tag) for tag in nodes.tags]
    for tag in _ROOT.findall(page)[:_MOST_ROOTS] if page.lower().count("<body") > 1 else ():
        _add_attributes(nodes, tag)
    return nodes


def _add_attributes(nodes: Nodes, tag: str) -> None:
    """Give the page's root or body what a later tag adds to it (HTML, 13.2.6.4.7)."""
    again = _arranged(_events(tag))
    for number, name in enumerate(again.tags):
        first = next((node for node, other in enumerate(nodes.tags) if other == name), -1)
        if again.attributes[number] and first >= 0:
            nodes.attributes[first] = {**again.attributes[number], **nodes.attributes[first]}


class _Enough(Exception):
    """Raised to stop the parser at the limit of tags."""


class _Target:
    """Appends the parser's reports to `events`: attributes and their tag, a piece of text, None for an element's end.

    It uses closures and a list's own method, since they are called for each tag of a page.
    """

    def __init__(self, events: list[_Event]) -> None:
        add = events.append

        def start(tag: str, attributes: Mapping[str, str]) -> None:
            add(attributes)
            add(tag)
            if len(events) > 4 * MOST_NODES:
                raise _Enough

        self.start = start
        self.end = lambda _: add(None)
        self.data = add

    def close(self) -> None:
        """Do nothing; the parser requires the method."""


def _events(page: str) -> list[_Event]:
    events: list[_Event] = []
    # huge_tree stays off: it would lift the limit of 10 MB for one text.
    parser = etree.HTMLParser(
        target=_Target(events),
        encoding="utf-8",
        remove_comments=True,
        remove_pis=True,
        no_network=True,
        huge_tree=False,
    )
    with suppress(_Enough, etree.ParserError):
        etree.fromstring(page.encode("utf-8", "replace"), parser)
    return events


def _arranged(events: Iterable[_Event]) -> Nodes:
    """Arrange events in one loop; names are bound before it, as it takes a quarter of a whole extraction's time."""
    nodes = Nodes()
    tags, texts, ends = nodes.tags, nodes.texts, nodes.ends
    add_tag, add_text, add_end = tags.append, texts.append, ends.append
    add_attributes, add_parent = nodes.attributes.append, nodes.parents.append
    opened: list[int] = []
    above = -1
    last = "html"
    more: list[str] = []
    is_unusual = _UNUSUAL.search
    coming = iter(events)
    for event in coming:
        if event.__class__ is str and not last:
            more.append(str(event))
            continue
        if more:
            _add_to_last(nodes, more)
            more.clear()
        if event is None:
            if above >= 0:
                ends[above] = len(tags)
                last = tags[above]
                above = opened.pop()
            continue
        if event.__class__ is str:
            text = str(event)
            if last in _SPACE_IS_NOTHING and text.isspace():
                continue
            last = ""
            if (above < 0 or tags[above] not in _PROGRAMS) and is_unusual(text):
                text = readable(text)
            add_tag("")
            add_text(text)
            add_attributes(_NONE)
            add_parent(above)
            add_end(len(tags))
            continue
        last = str(next(coming))
        add_parent(above)
        opened.append(above)
        above = len(tags)
        add_tag(last)
        add_text("")
        add_attributes(event if isinstance(event, dict) else _NONE)  # the parser's stand-in for no attributes is slow
        add_end(0)
        if above >= MOST_NODES:
            break
    if more:
        _add_to_last(nodes, more)
    nodes.is_cut = len(tags) > MOST_NODES
    while above >= 0:
        ends[above] = len(tags)
        above = opened.pop()
    return nodes


def _add_to_last(nodes: Nodes, more: Iterable[str]) -> None:
    """Append the later pieces of a text that the parser reported in parts."""
    text, parent = "".join((nodes.texts[-1], *more)), nodes.parents[-1]
    nodes.texts[-1] = text if parent >= 0 and nodes.tags[parent] in _PROGRAMS else readable(text)


def readable(text: str) -> str:
    """Return `text` without invisible characters, and with spaces for no-break spaces."""
    return visible(text).replace("\u00a0", " ")
