"""HTML to Markdown: the content with its headings, tables, lists and code, and nothing else.

The page is read once into arrays (ingest/extract/html/nodes.py); everything after that is loops over them:

    styles that hide        ingest/extract/css/cascade.py
    what is seen            ingest/extract/html/text_density.py
    what is no content      ingest/extract/html/main_content.py, and in doubt ingest/extract/html/block_classifier.py
    headings by their look  ingest/extract/html/visual_outline.py
    the text                ingest/extract/html/to_markdown.py
    the facts               ingest/extract/html/metadata.py

Links keep their words in the text, and their addresses stand beside it: an address tells an embedding nothing.
"""

from __future__ import annotations

from ingest.extract.extracted import Extracted
from ingest.extract.html.block_classifier import second_opinion
from ingest.extract.html.main_content import is_forum, is_marked, main_content, without_link_lists, without_surroundings
from ingest.extract.html.metadata import PageFacts
from ingest.extract.html.nodes import Nodes, read_nodes
from ingest.extract.html.text_density import Measures, Shown, measured, shown_nodes
from ingest.extract.html.to_markdown import Markdown
from ingest.extract.html.visual_outline import outline_of
from ingest.extract.media_types import HTML

_PARAGRAPH_CHARS = 200
"""Text of one paragraph: a page with less is more likely a shell than an article."""

_UNMARKED = 0.7
"""Of the confidence: what is left where the page does not mark its content."""
_DOUBTFUL = 0.75
"""Confidence below which a second opinion is heard: above are only pages that mark their content, and of those the
first opinion finds more."""

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
    confidence = _confidence(
        measures.chars[content],
        shown.chars[-1],
        measures.linked[content],
        is_marked=is_marked(nodes, content),
        is_cut=nodes.is_cut,
    )
    title = _title_before(nodes, shown, measures, content)
    kept = without_link_lists(nodes, measures, content)
    outline = outline_of(nodes, [*title, *kept], measures.chars)
    if confidence < _DOUBTFUL:
        inside = [node for node in measures.left if content <= node < nodes.ends[content]]
        kept = second_opinion(nodes, inside, kept, outline.layout)
    text, linked_words = Markdown(nodes, outline, facts.resolve).write([*title, *kept])
    return Extracted(
        text=text,
        media_type=HTML,
        form="markdown",
        title=facts.title(),
        language=facts.language(),
        published_at=facts.published_at(),
        author=facts.author(),
        canonical_url=facts.canonical_url(),
        confidence=confidence if text else 0.0,
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


def _confidence(chars: int, visible_chars: int, linked_chars: int, *, is_marked: bool, is_cut: bool) -> float:
    """How surely it is content: enough text, a fair part of the page, not mostly links, so marked, and all of it."""
    if chars == 0:
        return 0.0
    enough = min(1.0, chars / _PARAGRAPH_CHARS)
    share = min(1.0, chars / max(1, visible_chars) / 0.5)
    unlinked = 1.0 - min(1.0, linked_chars / chars)
    known = (1.0 if is_marked else _UNMARKED) * (0.5 if is_cut else 1.0)
    return round(enough * (0.4 + 0.3 * share + 0.3 * unlinked) * known, 3)
