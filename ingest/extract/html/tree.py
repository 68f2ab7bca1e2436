"""An HTML page as an lxml tree of bounded size, for those who ask it with XPath.

The parser is libxml2's. Where it builds a tree itself it compares each attribute of a tag with all before it, so that
a tag of 40,000 attributes takes minutes; here it only reports tags, and the tree is built from what is kept of them.

Promises: linear in the page; no element has more than `MOST_ATTRIBUTES`; no tree has more than `MOST_ELEMENTS`, those
that come first; none is deeper than `MOST_DEPTH`: what is nested deeper stands there side by side. No page is refused:
attributes and characters that a tree cannot hold are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice

from lxml.etree import HTMLParser, LxmlError, TreeBuilder, fromstring
from lxml.etree import _Element as Element

UNNAMED = "unnamed"
"""The tag of an element whose own name a tree cannot hold."""
MOST_ATTRIBUTES = 100
"""Of one tag: the longest that pages have is some thirty."""
MOST_ELEMENTS = 200_000
"""Of one page: some 20 MB of ordinary HTML; a book on one page has a tenth."""

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML tree may hold (XML 1.0, 2.2), which lxml refuses with a ValueError; pages do."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
"""Names that an XML tree may hold. HTML has others (`fb:like`, `@click`), which lxml refuses with a ValueError."""
MOST_DEPTH = 256
"""Elements within one another: browsers stop at 512, a page has some thirty."""


def read_tree(page: str) -> Element | None:
    """The tree of `page` without comments and processing instructions; None where there is no element in it."""
    if not page.strip():
        return None
    target = _Target()
    # As bytes, since a text with an XML encoding declaration is refused.
    parser = HTMLParser(target=target, encoding="utf-8", remove_comments=True, remove_pis=True)
    with suppress(_Full, LxmlError):  # what was read until then is the tree
        fromstring(page.encode("utf-8", "replace"), parser)
    return target.tree()


class _Full(Exception):
    """The page has more elements than are kept."""


class _Target:
    """What the parser reports, put into a tree."""

    def __init__(self) -> None:
        self._builder = TreeBuilder()
        self._open: list[str] = []
        self._elements = self._too_deep = 0

    def data(self, text: str) -> None:
        self._builder.data(_NO_XML.sub("", text))

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(attributes) > MOST_ATTRIBUTES:
            attributes = dict(islice(attributes.items(), MOST_ATTRIBUTES))
        attributes = {name: _NO_XML.sub("", value) for name, value in attributes.items() if _NAME.fullmatch(name)}
        tag = tag if _NAME.fullmatch(tag) else UNNAMED
        self._elements += 1
        if self._elements > MOST_ELEMENTS:
            raise _Full
        self._builder.start(tag, attributes)
        if len(self._open) < MOST_DEPTH:
            self._open.append(tag)
        else:
            self._builder.end(tag)
            self._too_deep += 1

    def end(self, tag: str) -> None:
        if self._too_deep:
            self._too_deep -= 1
        elif self._open:
            self._builder.end(self._open.pop())

    def close(self) -> None:
        """Nothing is left to do: `tree` ends what is open."""

    def tree(self) -> Element | None:
        """The root of what was reported, or None where that is nothing."""
        while self._open:
            self._builder.end(self._open.pop())
        return self._builder.close() if self._elements else None
