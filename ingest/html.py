"""HTML to Markdown: the content with its headings, tables, lists and code, and nothing else.

lxml reads the page once, for its facts and to cut away what is hidden or around the content; the
converter sees only what is left. Both are bounded in depth, so a hostile page costs text, not time.
Links keep their words and lose their addresses, which are returned apart: an address tells an
embedding nothing.
"""

from __future__ import annotations

import re

from html_to_markdown import ConversionOptions, PreprocessingOptions, convert
from lxml import etree
from lxml.html import HtmlElement, HTMLParser, document_fromstring

from ingest.boilerplate import drop, drop_hidden, drop_surroundings, main_content, text_length
from ingest.extracted import Extracted
from ingest.invisible import visible
from ingest.media import HTML
from ingest.outline import ESCAPED, reveal_outline
from ingest.page_facts import PageFacts

_OPTIONS = ConversionOptions(
    preprocessing=PreprocessingOptions(enabled=True, preset="aggressive"),
    extract_metadata=False,
    autolinks=False,
    compact_tables=True,
    skip_images=True,
    strip_tags=["a"],
    hidden_content="reachable",
    expand_abbreviations=False,
    max_depth=512,
)
_PARAGRAPH_CHARS = 200
"""Text of one paragraph: a page with less is more likely a shell than an article."""
_TRAILING_SPACE = re.compile(r"[ \t]+$", re.MULTILINE)
_PILCROW = re.compile(r"\s*[¶§🔗]+\s*")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_BLANK_RUN = re.compile(r"\n{4,}")


def extract_html(page: str, url: str | None) -> Extracted:
    """The Markdown and the facts of `page`, which was fetched from `url`."""
    root = _parse(page)
    if root is None:
        return Extracted(text="", media_type=HTML, form="markdown", confidence=0.0)
    proxies = list(root.iter())  # held while the page is worked on: lxml would make them anew at each visit
    _drop_forbidden(proxies)
    facts = PageFacts(root, url)
    title, published_at = facts.title(), facts.published_at()
    language, author, canonical = facts.language(), facts.author(), facts.canonical_url()
    drop_hidden(root)
    content = main_content(root)
    links = facts.links(content, root)
    visible_chars = text_length(root)
    drop_surroundings(content)
    linked_chars = sum(len(anchor.text_content()) for anchor in content.iterfind(".//a"))
    _drop_permalinks(content)
    reveal_outline(content)
    proxies.clear()
    text = to_markdown(etree.tostring(content, encoding="unicode", method="html", with_tail=False))
    return Extracted(
        text=text,
        media_type=HTML,
        form="markdown",
        title=visible(title) if title else None,
        language=language,
        published_at=published_at,
        author=visible(author) if author else None,
        canonical_url=canonical,
        links=links,
        confidence=_confidence(len(text), visible_chars, linked_chars),
    )


def to_markdown(fragment: str) -> str:
    """Markdown of already cleaned HTML, without invisible characters."""
    text = visible(convert(fragment, _OPTIONS).content or "").replace("\u00a0", " ")
    text = _TRAILING_SPACE.sub("", text).replace(ESCAPED, "\\")
    return _BLANK_RUN.sub("\n\n\n", text).strip("\n")


def _parse(page: str) -> HtmlElement | None:
    page = _DECLARATION.sub("", page.replace("\x00", ""), count=1)
    if not page.strip():
        return None
    # A fresh parser: lxml's own default is shared between threads. huge_tree stays off: it is the depth limit.
    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=False)
    try:
        return document_fromstring(page.encode("utf-8", "replace"), parser=parser)
    except etree.ParserError:
        return None


def _drop_forbidden(nodes: list[HtmlElement]) -> None:
    """Take out the characters that XML forbids: lxml reads them, and refuses to write them back."""
    for node in nodes:
        if node.text and _FORBIDDEN.search(node.text):
            node.text = _FORBIDDEN.sub("", node.text)
        if node.tail and _FORBIDDEN.search(node.tail):
            node.tail = _FORBIDDEN.sub("", node.tail)


def _drop_permalinks(root: HtmlElement) -> None:
    drop([anchor for anchor in root.iter("a") if _PILCROW.fullmatch(anchor.text_content())], root)


def _confidence(text_chars: int, visible_chars: int, linked_chars: int) -> float:
    """How surely the text is content: enough of it, a fair part of the page, not mostly links."""
    if text_chars == 0:
        return 0.0
    enough = min(1.0, text_chars / _PARAGRAPH_CHARS)
    share = min(1.0, text_chars / max(1, visible_chars) / 0.5)
    unlinked = 1.0 - min(1.0, linked_chars / text_chars)
    return round(enough * (0.4 + 0.3 * share + 0.3 * unlinked), 3)
