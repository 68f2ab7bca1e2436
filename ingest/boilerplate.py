"""What of an HTML page is not its content: hidden parts, scripts, navigation, consent banners.

Hidden text goes first and for a second reason: it is where a page speaks to a machine behind its
reader's back. Works in place on an lxml tree, without recursion.
"""

from __future__ import annotations

import re

from lxml.html import HtmlElement

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
_HIDING_STYLE = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|(?:^|;)opacity:0(?:\.0+)?(?:;|$|!)|font-size:0(?!\.?[1-9])|"
    r"(?:^|;)(?:max-)?(?:width|height):[01](?:px|em|rem|%)?(?:;|$|!)|"
    r"(?:^|;)(?:text-indent:-\d{3,}|(?:left|top|right):-\d{4,})|clip:rect\(0|clip-path:inset\((?:50|100)%|"
    r"transform:scale\(0\)|(?:^|;)color:transparent",
)
_MOST_DOUBTS = 200
_SPACE = re.compile(r"\s+")


def drop_hidden(root: HtmlElement) -> None:
    """Remove comments, what never shows, and what its markup hides."""
    for node in list(root.iter()):
        if not isinstance(node.tag, str) or node.tag in _NEVER_READ or _is_hidden(node):
            _drop(node, root)


def drop_surroundings(root: HtmlElement) -> None:
    """Remove navigation, banners, footers and side columns; open forms, as old sites wrap whole pages in one."""
    most_chars = text_length(root) // 2
    doubts = _MOST_DOUBTS
    for node in list(root.iter()):
        if node.tag == "form":
            node.tag = "div"
        elif _is_around(node):
            _drop(node, root)
        elif _is_named_around(node):
            doubts -= 1
            # `has-sidebar` may stand on the wrapper of everything; the number of such checks is bounded.
            if doubts < 0 or text_length(node) <= most_chars:
                _drop(node, root)


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


def _is_hidden(node: HtmlElement) -> bool:
    attributes = node.attrib
    if not attributes:
        return False
    if attributes.get("hidden", "no") not in ("no", "false") or attributes.get("aria-hidden") == "true":
        return True
    style = attributes.get("style")
    return bool(style) and _HIDING_STYLE.search(_SPACE.sub("", style.lower())) is not None


def _is_around(node: HtmlElement) -> bool:
    if node.tag in _AROUND_CONTENT or node.get("role") in _ROLES_AROUND:
        return True
    if node.tag in ("header", "footer"):
        return not _inside_content(node) and node.find(".//h1") is None
    return False


def _is_named_around(node: HtmlElement) -> bool:
    if node.tag in ("html", "body", "main", "article", "h1", "h2", "h3", "p", "pre", "code", "td", "dt", "dd"):
        return False
    names = f"{node.get('class', '')} {node.get('id', '')}"
    return len(names) > 1 and _CLASSES_AROUND.search(names) is not None and node.find(".//h1") is None


def _inside_content(node: HtmlElement) -> bool:
    return any(ancestor.tag in ("main", "article", "section") for ancestor in node.iterancestors())


def _drop(node: HtmlElement, root: HtmlElement) -> None:
    if node is not root and node.getparent() is not None:
        node.drop_tree()
