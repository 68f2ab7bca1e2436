"""HTML to Markdown: the content with its headings, tables, lists and code, and nothing else.

The page is read once into arrays (ingest/nodes.py); everything after that is loops over them:

    styles that hide        ingest/cascade.py
    what is no content      ingest/boilerplate.py
    headings by their look  ingest/outline.py
    the text                ingest/markdown.py
    the facts               ingest/page_facts.py

Links keep their words in the text, and their addresses stand beside it: an address tells an embedding nothing.
"""

from __future__ import annotations

from ingest.boilerplate import (
    Measures,
    Shown,
    is_forum,
    main_content,
    measured,
    shown_nodes,
    without_link_lists,
    without_surroundings,
)
from ingest.extracted import Extracted
from ingest.markdown import Markdown
from ingest.media import HTML
from ingest.nodes import Nodes, read_nodes
from ingest.outline import outline_of
from ingest.page_facts import PageFacts

_PARAGRAPH_CHARS = 200
"""Text of one paragraph: a page with less is more likely a shell than an article."""


_NOTHING = Extracted(text="", media_type=HTML, form="markdown", confidence=0.0)


def extract_html(page: str, url: str | None) -> Extracted:
    """The Markdown and the facts of `page`, which was fetched from `url`.

    Raises InvalidInput where the page's style sheets ask for more work than any honest page's do.
    """
    nodes = read_nodes(page)
    if not len(nodes):
        return _NOTHING
    facts = PageFacts(nodes, url)
    shown = shown_nodes(nodes)
    _blank_hidden(nodes, shown.nodes)
    has_many_authors = is_forum(nodes, facts.kinds(), facts.generator())
    left = without_surroundings(nodes, shown, keep_remarks=has_many_authors)
    if not left:  # all of it is hidden, or around content that is not there
        return _NOTHING
    measures = measured(nodes, left)
    content = main_content(nodes, measures, has_many_authors=has_many_authors)
    kept = [*_title_before(nodes, shown, measures, content), *without_link_lists(nodes, measures, content)]
    outline = outline_of(nodes, kept, measures.chars)
    text, linked_words = Markdown(nodes, outline, facts.resolve).write(kept)
    return Extracted(
        text=text,
        media_type=HTML,
        form="markdown",
        title=facts.title(),
        language=facts.language(),
        published_at=facts.published_at(),
        author=facts.author(),
        canonical_url=facts.canonical_url(),
        confidence=_confidence(len(text), shown.chars[-1], measures.linked[content], is_cut=nodes.is_cut),
        licence=facts.licence(),
        json_ld=facts.json_ld(),
        site_name=facts.site_name(),
        linked_words=linked_words,
    )


def _blank_hidden(nodes: Nodes, shown: list[int]) -> None:
    """Take the words that nobody sees out of the arrays, so that no title and no link can hold them."""
    is_shown = bytearray(len(nodes))
    for node in shown:
        is_shown[node] = 1
    texts = nodes.texts
    for node, seen in enumerate(is_shown):
        if not seen and texts[node]:
            texts[node] = ""


def _title_before(nodes: Nodes, shown: Shown, measures: Measures, content: int) -> list[int]:
    """The title of the page where it stands before its content: the headings below belong under it."""
    titles = [title for title in shown.titles if measures.chars[title]]
    if len(titles) != 1 or titles[0] >= content:
        return []
    return [node for node in measures.left if titles[0] <= node < nodes.ends[titles[0]]]


def _confidence(text_chars: int, visible_chars: int, linked_chars: int, *, is_cut: bool) -> float:
    """How surely the text is content: enough of it, a fair part of the page, not mostly links, and all of it."""
    if text_chars == 0:
        return 0.0
    enough = min(1.0, text_chars / _PARAGRAPH_CHARS)
    share = min(1.0, text_chars / max(1, visible_chars) / 0.5)
    unlinked = 1.0 - min(1.0, linked_chars / text_chars)
    return round(enough * (0.4 + 0.3 * share + 0.3 * unlinked) * (0.5 if is_cut else 1.0), 3)
