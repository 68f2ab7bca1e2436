"""Converts HTML to Markdown: the content with its headings, tables, lists and code, and nothing else.

The page is read once into arrays (ingest/extract/html/nodes.py); each step loops over them:

    styles that show        ingest/extract/css/cascade.py
    what is seen            ingest/extract/html/visible.py
    what is content         ingest/extract/html/main_content.py, by trafilatura
    headings by their look  ingest/extract/html/headings.py
    the text                ingest/extract/html/write_markdown.py
    the facts               ingest/extract/html/metadata.py

Links keep their words in the text, and their addresses are kept separately: an address means nothing to an embedding.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.ingest.extract.extracted import Extracted
from sluice.ingest.extract.html.headings import outline_of
from sluice.ingest.extract.html.main_content import content_of
from sluice.ingest.extract.html.metadata import PageFacts
from sluice.ingest.extract.html.nodes import Nodes, read_nodes
from sluice.ingest.extract.html.visible import Counted, blank_hidden, counted, visible_nodes, without_page_marks
from sluice.ingest.extract.html.write_markdown import Markdown, Written
from sluice.ingest.extract.media_types import HTML

_PARAGRAPH_CHARS = 200
"""Length of one paragraph: a page with less text is more likely a shell than an article."""


def extract_html(page: str, url: str | None) -> Extracted:
    """Extract Markdown and facts of `page` from `url`. Raises InvalidInput if its style sheets need too much work."""
    nodes, facts, visible, is_surely_seen = _read(page, url)
    title = facts.title()
    content = content_of(nodes, visible, title or "")
    text, linked_words, anchors = _written(nodes, content, facts)
    return Extracted(
        text=text,
        media_type=HTML,
        form="markdown",
        title=title,
        language=facts.language(),
        published_at=facts.published_at(),
        author=facts.author(),
        canonical_url=facts.canonical_url(),
        confidence=_confidence(counted(nodes, visible), counted(nodes, content), is_surely_seen=is_surely_seen)
        if text
        else 0.0,
        licence=facts.licence(),
        json_ld=facts.json_ld(),
        site_name=facts.site_name(),
        linked_words=linked_words,
        anchors=anchors,
    )


def extract_fragment(page: str, url: str | None) -> str:
    """Return the Markdown of all visible text of `page`, a feed item's body. Raises InvalidInput as `extract_html`."""
    nodes, facts, visible, _ = _read(page, url)
    return _written(nodes, visible, facts).text


def _read(page: str, url: str | None) -> tuple[Nodes, PageFacts, list[int], bool]:
    """Return the arrays of `page` without hidden words, its facts, its visible entries, and if these are sure and all.

    A page of which nothing shows waits for its scripts: it is read as a browser without scripts shows it.
    """
    nodes = read_nodes(page)
    visible = visible_nodes(nodes)
    is_shown = any(nodes.texts[node].strip() for node in visible)
    if not is_shown:
        nodes = read_nodes(page, runs_scripts=False)
        nodes.tags = ["div" if tag == "noscript" else tag for tag in nodes.tags]
        visible = visible_nodes(nodes, trusts_body=True)
    facts = PageFacts(nodes, url)
    blank_hidden(nodes, visible)
    return nodes, facts, without_page_marks(nodes, visible), is_shown and not nodes.is_cut


def _written(nodes: Nodes, content: Sequence[int], facts: PageFacts) -> Written:
    outline = outline_of(nodes, content, counted(nodes, content).chars)
    return Markdown(nodes, outline, facts.resolve).write(content)


def _confidence(page: Counted, content: Counted, *, is_surely_seen: bool) -> float:
    """Return how surely `content` is the page's: enough text, a fair part of the page, not mostly links, seen whole."""
    visible_chars, chars = max(page.chars, default=0), max(content.chars, default=0)
    if chars == 0:
        return 0.0
    enough = min(1.0, chars / _PARAGRAPH_CHARS)
    share = min(1.0, chars / max(1, visible_chars) / 0.5)
    unlinked = 1.0 - min(1.0, max(content.linked) / chars)
    return round(enough * (0.4 + 0.3 * share + 0.3 * unlinked) * (1.0 if is_surely_seen else 0.5), 3)
