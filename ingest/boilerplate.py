"""What of an HTML page is not its content: hidden parts, scripts, navigation, consent banners.

Hidden text goes first and for a second reason: it is where a page speaks to a machine behind its
reader's back. Works in place on an lxml tree, without recursion, and in time that grows with the tree: every part is
looked at once, and what goes is taken out together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lxml import etree
from lxml.html import HtmlElement

from ingest.inline_style import hides

_NEVER_READ = frozenset(
    [
        *("script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "embed", "applet", "portal"),
        *("head", "title", "audio", "video", "map", "link", "meta", "base", "dialog", "frame", "frameset"),
        *("button", "input", "select", "textarea", "datalist", "progress", "meter"),
    ]
)
_AROUND_CONTENT = frozenset(("nav", "aside", "menu"))
_ROLES_AROUND = frozenset(("navigation", "banner", "contentinfo", "search", "complementary", "dialog", "menu", "alert"))
_CLASSES_AROUND = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|breadcrumbs?|cookies?|consent|gdpr|adverts?|advertisement|promo|sponsored|"
    r"newsletter|social|share|sharing|sidebar|skip-?(?:link|nav|to-content)|popup|modal|related-posts|"
    r"comments?-(?:list|section|area)|sphinxsidebar|site-footer|site-header|toctree-wrapper-nav)(?:$|[\s_-])",
    re.IGNORECASE,
)


def drop_hidden(root: HtmlElement) -> None:
    """Remove comments, what never shows, and what its markup hides."""
    drop([node for node in root.iter() if _never_shows(node)], root)


def drop_surroundings(root: HtmlElement) -> None:
    """Remove navigation, banners, footers and side columns; open forms, as old sites wrap whole pages in one."""
    around = [node for node in root.iter() if _may_be_around(node)]
    contents = _contents(root, frozenset((root, *around)))
    most_chars = contents[root].chars // 2
    drop([node for node in around if _is_around(node, contents[node], most_chars)], root)
    for form in list(root.iter("form")):
        form.tag = "div"


def drop(nodes: Collection[HtmlElement], root: HtmlElement) -> None:
    """Take `nodes` out of `root`, but never itself, and leave what stands behind each."""
    doomed = set(nodes) - {root}
    for parent in {node.getparent() for node in doomed} - {None}:
        _drop_children(parent, doomed)


def main_content(root: HtmlElement) -> HtmlElement:
    """The element that a page marks as its main content, if it holds a fair part of the text; else `root`."""
    whole = text_length(root)
    for query in (".//main", ".//*[@role='main']", ".//article"):
        found = root.findall(query)
        if len(found) == 1 and text_length(found[0]) >= max(40, whole * 0.3):
            return found[0]
    return root


def text_length(node: HtmlElement) -> int:
    """Characters of visible text, runs of white space counted once."""
    return len(" ".join(node.text_content().split()))


def _never_shows(node: HtmlElement) -> bool:
    return not isinstance(node.tag, str) or node.tag in _NEVER_READ or _is_hidden(node)


def _is_hidden(node: HtmlElement) -> bool:
    attributes = node.attrib
    if not attributes:
        return False
    # `hidden` hides by being there: `hidden=no` does too.
    if "hidden" in attributes or attributes.get("aria-hidden", "").strip().lower() == "true":
        return True
    style = attributes.get("style")
    return bool(style) and hides(style)


@dataclass(slots=True)
class _Content:
    """What stands inside an element: characters of visible text, runs of white space counted once, and headings."""

    chars: int
    titles: int


def _contents(root: HtmlElement, measured: Collection[HtmlElement]) -> Mapping[HtmlElement, _Content]:
    """The content of each of `measured`, by one walk over the tree: the count at its end less that at its start."""
    chars = titles = 0
    found: dict[HtmlElement, _Content] = {}
    for event, node in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            titles += node.tag == "h1"
            if node in measured:
                found[node] = _Content(-chars, -titles)
            chars += _chars(node.text)
            continue
        if node in found:
            found[node].chars += chars
            found[node].titles += titles
        chars += _chars(node.tail)
    return found


def _chars(text: str | None) -> int:
    """Characters of the words in `text`, and one space behind each."""
    words = text.split() if text else ()
    return sum(map(len, words)) + len(words)


def _may_be_around(node: HtmlElement) -> bool:
    if node.tag == "form":
        return False
    says_so = node.tag in ("header", "footer") or node.tag in _AROUND_CONTENT or node.get("role") in _ROLES_AROUND
    return says_so or _is_named_around(node)


def _is_around(node: HtmlElement, content: _Content, most_chars: int) -> bool:
    if node.tag in _AROUND_CONTENT or node.get("role") in _ROLES_AROUND:
        return True
    if content.titles:
        return False
    if node.tag in ("header", "footer"):
        return not _inside_content(node)
    # `has-sidebar` may stand on the wrapper of everything.
    return content.chars <= most_chars


def _is_named_around(node: HtmlElement) -> bool:
    if node.tag in ("html", "body", "main", "article", "h1", "h2", "h3", "p", "pre", "code", "td", "dt", "dd"):
        return False
    names = f"{node.get('class', '')} {node.get('id', '')}"
    return len(names) > 1 and _CLASSES_AROUND.search(names) is not None


def _inside_content(node: HtmlElement) -> bool:
    return any(ancestor.tag in ("main", "article", "section") for ancestor in node.iterancestors())


def _drop_children(parent: HtmlElement, doomed: Collection[HtmlElement]) -> None:
    """Take out the `doomed` among the children and put together the text around them, once for each gap."""
    before: HtmlElement | None = None
    gap = [parent.text or ""]
    for child in list(parent):
        if child not in doomed:
            _fill(parent, before, gap)
            before, gap = child, [child.tail or ""]
        else:
            gap.append(child.tail or "")
            parent.remove(child)
    _fill(parent, before, gap)


def _fill(parent: HtmlElement, before: HtmlElement | None, gap: list[str]) -> None:
    if len(gap) == 1:
        return
    text = "".join(gap)
    if before is None:
        parent.text = text
    else:
        before.tail = text
