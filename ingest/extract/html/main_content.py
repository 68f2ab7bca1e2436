"""What of an HTML page is its content, and what stands around it: navigation, banners, side columns, remarks.

Two steps over what a reader could see of a page (ingest/extract/html/text_density.py), each linear in it:

1. `without_surroundings`: out goes what its element, its role or its name (ingest/extract/html/class_hints.py) says
is no
   content, unless most of the page stands in it.
2. `main_content`: where the page marks its content, that; then down the tree as long as one child holds nearly all of
   the text that reads like prose. Text counts by its length and by how little of it is linked (shallow text features:
   Kohlschütter, Fankhauser, Nejdl, "Boilerplate Detection using Shallow Text Features", WSDM 2010).

What is left is then cleared of lists of links and of headings that have lost what stood under them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ingest.extract.html.class_hints import Names, is_gutter, names_of
from ingest.extract.html.nodes import BLOCKS, HEADINGS, Nodes
from ingest.extract.html.text_density import Measures, Shown

_AROUND_CONTENT = frozenset(("nav", "aside", "menu"))
_SECTIONING = frozenset(("nav", "aside", "menu", "header", "footer", "form", "main", "article", "section"))
_ROLES_AROUND = frozenset(("navigation", "banner", "contentinfo", "search", "complementary", "dialog", "menu", "alert"))
_NEVER_AROUND = frozenset(("html", "body", "main", "h1", "h2", "h3", "p", "pre", "code", "td", "dt", "dd"))
_LITERAL = frozenset(("pre", "code", "samp", "kbd", "xmp", "listing"))
"""Elements in which classes colour code: `hljs-comment` is no remark of a reader's."""
_CONTENT_NAMES = re.compile(
    r"(?:^|\s)(?:"
    r"(?:post|entry|article|story|page|main|node|blog|news|single|content)[_-]*(?:content|body|text|main|copy)|"
    r"(?:article|story|post|entry|content)(?:body|text|content)|article__(?:body|content|text)|post__(?:body|content|text)|"
    r"story__(?:body|content|text)|mw-parser-output|rst-content|markdown-body|main|content)(?:$|\s)",
    re.IGNORECASE,
)
_REMARK_HEADINGS = re.compile(
    r"(?:\d+ )?(?:comments?|responses?|replies|leave a (?:reply|comment)|post a comment|"
    r"related(?: (?:posts?|articles?|stories|news|topics|content|links|reading))?|"
    r"(?:you (?:may|might)|you'll) also (?:like|enjoy|be interested in).*|read (?:more|next|also)|"
    r"more (?:from|in|on|news|stories|articles|posts)\b.*|recommended(?: for you| reading| articles)?|"
    r"most (?:read|popular|viewed)|trending(?: now)?|popular (?:posts?|articles|stories)|"
    r"latest (?:news|posts|articles|stories)|recent (?:posts|comments|articles)|share (?:this|on|via)\b.*|share|tags|"
    r"categories|newsletter|subscribe\b.*|sign up\b.*|follow us\b.*|about the author|"
    r"kommentare?|ähnliche (?:artikel|beiträge)|mehr zum thema|verwandte (?:artikel|themen)|"
    r"das könnte sie auch interessieren|commentaires?|articles? (?:liés|similaires|connexes)|à lire aussi|"
    r"comentarios|artículos relacionados|commenti|articoli correlati|leggi anche|lees ook|reacties)"
    r"(?: \(\d+\)|:|\s*\d*)",
    re.IGNORECASE,
)
"""Headings of what stands below a text on sites of news and on blogs, in the languages that most of those have."""
_FORUMS = re.compile(
    r"phpbb|vbulletin|xenforo|discourse|mybb|simple machines|smf|invision|vanilla|nodebb|flarum|fluxbb|punbb|woltlab|"
    r"(?:^|[\s_-])(?:forums?|viewtopic|showthread|question-page|threads?|topics?)(?:$|[\s_-])",
    re.IGNORECASE,
)
_FORUM_KINDS = frozenset(("discussionforumposting", "qapage", "question", "socialmediaposting"))

_MARKED_SHARE = 0.4
"""Of the prose of the page: what a part holds at least that is taken at its word to be the main content."""
_DESCENT_SHARE = 0.88
"""Of the prose of an element: what a child holds at least to stand for it."""
_FORUM_DESCENT_SHARE = 0.98
"""The same where many write: the first of them may have written a tenth."""
_NEVER_DESCENDED = frozenset(
    ("p", "pre", "table", "tbody", "tr", "ul", "ol", "dl", "blockquote", "li", "dd", "figure", "details")
)
_LINK_LISTS = frozenset(
    ("ul", "ol", "div", "section", "table", "p", "dl", "figure", "form", "footer", "header", "article", "center")
)
_PLAIN_LISTS = frozenset(("ul", "ol", "dl", "p"))
_LINKED_SHARE = 0.75
"""Of the characters of a part: above, it is a list of links."""
_INDEX_SHARE = 0.5
"""Of the characters of the content: above, the page is itself a list of links, and keeps them."""
_FEW_CHARS = 200
_HEADING_CHARS = 80
_ENOUGH_PROSE = 1_000
_TOO_MUCH_SHARE = 0.4
"""Of the characters of the page that are in no link: a part with more of them is no surroundings, whatever its name."""


def is_forum(nodes: Nodes, kinds: frozenset[str], generator: str) -> bool:
    """Whether the remarks of the page's readers are its content."""
    if not kinds.isdisjoint(_FORUM_KINDS) or _FORUMS.search(generator):
        return True
    pages = (nodes.attributes[node] for node in range(min(len(nodes), 400)) if nodes.tags[node] in ("html", "body"))
    return any(_FORUMS.search(name) for attributes in pages for name in names_of(attributes))


def without_surroundings(nodes: Nodes, shown: Shown, *, keep_remarks: bool) -> list[int]:
    """What is left of the shown entries when navigation, banners, side columns and remarks are taken out."""
    names = Names()
    remarks = frozenset() if keep_remarks else frozenset(_remarks(nodes, shown, names))
    tags, ends, attributes = nodes.tags, nodes.ends, nodes.attributes
    most_chars = shown.chars[-1] // 2
    kept: list[int] = []
    skipped_to = content_to = code_to = 0
    for node in shown.nodes:
        if node < skipped_to:
            continue
        tag = tags[node]
        if node < code_to:
            if attributes[node] and names.are_line_numbers(attributes[node]):
                skipped_to = ends[node]
                continue
        elif tag and (attributes[node] or tag in _SECTIONING):
            if node in remarks or _is_around(nodes, node, shown, most_chars, node < content_to, names):
                skipped_to = ends[node]
                continue
            if tag in ("main", "article", "section"):
                content_to = max(content_to, ends[node])
        if tag in _LITERAL:
            code_to = max(code_to, ends[node])
        kept.append(node)
    return kept


def _is_around(nodes: Nodes, node: int, shown: Shown, most_chars: int, in_content: bool, names: Names) -> bool:
    tag, attributes, end = nodes.tags[node], nodes.attributes[node], nodes.ends[node]
    if tag in _NEVER_AROUND:
        return tag in ("td", "pre") and is_gutter(attributes)
    says_so = tag in _AROUND_CONTENT or attributes.get("role") in _ROLES_AROUND
    is_edge = tag in ("header", "footer") and not in_content
    is_small = shown.chars_in(node, end) <= most_chars
    # `has-sidebar` may stand on the wrapper of everything; old sites wrap whole pages in one form.
    is_named_so = is_small and (tag == "form" or names.are_around(attributes))
    if not (says_so or is_edge) and (not is_named_so or _is_too_much(shown, node, end)):
        return False
    if shown.has_title(node, end):
        return says_so and is_small
    return tag != "form" or says_so or shown.unlinked_in(node, end) < _FEW_CHARS or names.are_around(attributes)


def _is_too_much(shown: Shown, start: int, end: int) -> bool:
    unlinked = shown.unlinked_in(start, end)
    return unlinked >= _ENOUGH_PROSE and unlinked > _TOO_MUCH_SHARE * (shown.chars[-1] - shown.linked[-1])


def _remarks(nodes: Nodes, shown: Shown, names: Names) -> list[int]:
    """The outermost parts that hold the remarks of readers, where there is a text besides that they are about."""
    found: list[int] = []
    done = 0
    for node in shown.nodes:
        attributes = nodes.attributes[node]
        if attributes and node >= done and nodes.tags[node] not in _NEVER_AROUND and names.are_remarks(attributes):
            found.append(node)
            done = nodes.ends[node]
    inside = sum(shown.unlinked_in(node, nodes.ends[node]) for node in found)
    outside = shown.unlinked_in(0, len(nodes)) - inside
    if outside < min(_ENOUGH_PROSE, inside / 2):
        return []
    return [node for node in found if not shown.has_title(node, nodes.ends[node])]


def main_content(nodes: Nodes, measures: Measures, *, has_many_authors: bool = False) -> int:
    """The element that holds the content: the one so marked, then as far down as one child holds nearly all of it."""
    top = measures.left[0]
    node = _marked(nodes, measures, top)
    share = _FORUM_DESCENT_SHARE if has_many_authors else _DESCENT_SHARE
    while (child := _fullest_child(nodes, measures, node, share)) is not None:
        node = child
    return node


def is_marked(nodes: Nodes, content: int) -> bool:
    """Whether `content`, or what is around it, says by its element, role or name that it is the content."""
    names: dict[str, bool] = {}
    return any(
        any(True for _ in _marks(nodes.tags[node], nodes.attributes[node], names))
        for node in (content, *nodes.ancestors(content))
    )


def _marked(nodes: Nodes, measures: Measures, top: int) -> int:
    """The one part that is marked as the content, by the strongest mark that only one part of weight has."""
    least = max(1.0, measures.prose[top] * _MARKED_SHARE)
    found: tuple[list[int], ...] = ([], [], [])
    names: dict[str, bool] = {}
    for node in measures.left:
        if measures.prose[node] >= least:
            for marked in _marks(nodes.tags[node], nodes.attributes[node], names):
                if not found[marked] or nodes.ends[found[marked][-1]] <= node:
                    found[marked].append(node)
    return next((nodes_found[0] for nodes_found in found if len(nodes_found) == 1), top)


def _marks(tag: str, attributes: Mapping[str, str], names: dict[str, bool]) -> Iterator[int]:
    """0 for an article, 1 for a main part, 2 for what is only named like one."""
    if tag == "article" or "articleBody" in attributes.get("itemprop", ""):
        yield 0
    if tag == "main" or attributes.get("role") == "main":
        yield 1
    if tag not in ("html", "body"):
        for name in names_of(attributes):
            if name not in names:
                names[name] = _CONTENT_NAMES.search(name) is not None
            if names[name]:
                yield 2
                return


def _fullest_child(nodes: Nodes, measures: Measures, node: int, share: float) -> int | None:
    """The child that holds nearly all of the prose, where no heading before it would be lost."""
    prose = measures.prose
    least = max(1.0, prose[node] * share)
    for child in nodes.children(node):
        tag = nodes.tags[child]
        if tag in HEADINGS and measures.chars[child]:
            return None
        if prose[child] >= least:
            return None if tag in _NEVER_DESCENDED or tag not in BLOCKS else child
    return None


def without_link_lists(nodes: Nodes, measures: Measures, content: int) -> list[int]:
    """The shown entries of `content` without lists of links, and without headings of what has gone."""
    end = nodes.ends[content]
    inside = [node for node in measures.left if content <= node < end]
    chars, linked = measures.chars, measures.linked
    if linked[content] > chars[content] * _INDEX_SHARE:
        return inside
    headings = [node for node in inside if nodes.tags[node] in HEADINGS]
    doomed = _link_lists(nodes, measures, inside)
    if doomed and nodes.tags[content] not in ("html", "body"):
        doomed -= _sections_of_links(nodes, measures, headings, doomed)
    doomed |= _emptied_headings(nodes, measures, headings, doomed, most_prose=measures.prose[content] / 4)
    if not doomed:
        return inside
    return _spared(nodes, inside, doomed)


def _link_lists(nodes: Nodes, measures: Measures, inside: Sequence[int]) -> set[int]:
    """Parts that are nearly all links, and say little besides."""
    chars, linked, prose, tags = measures.chars, measures.linked, measures.prose, nodes.tags
    return {
        node
        for node in inside
        if linked[node] > chars[node] * _LINKED_SHARE and tags[node] in _LINK_LISTS and prose[node] < _FEW_CHARS
    } - {inside[0]}


def _sections_of_links(nodes: Nodes, measures: Measures, headings: Sequence[int], lists: set[int]) -> set[int]:
    """What is in lists of links that are a whole section, as `See also` is: within an article they belong to it."""
    found: set[int] = set()
    done = 0
    for heading in headings:
        if heading < done or measures.linked[heading] * 2 > measures.chars[heading]:
            continue
        below = list(_below(nodes, measures, heading))
        if below and all(part in lists and nodes.tags[part] in _PLAIN_LISTS for part in below):
            done = nodes.ends[below[-1]]
            found.update(range(below[0], done))
    return found


def _emptied_headings(
    nodes: Nodes, measures: Measures, headings: Sequence[int], doomed: set[int], *, most_prose: float
) -> set[int]:
    """Headings of remarks with what follows them, and headings with nothing left below them.

    A section with as much as `most_prose` is no remark, nor is one under the title of the page.
    """
    found: set[int] = set()
    title = next((heading for heading in headings if nodes.tags[heading] == "h1"), -1)
    for heading in headings:
        if heading in doomed:
            continue
        below = list(_below(nodes, measures, heading))
        is_short = heading != title and measures.chars[heading] < _HEADING_CHARS
        is_remark = is_short and _REMARK_HEADINGS.fullmatch(nodes.text(heading)) is not None
        kept = [part for part in below if part not in doomed]
        if is_remark and sum(measures.prose[part] for part in kept) < most_prose:
            found.update((heading, *below))
        elif below and not kept:
            found.add(heading)
    return found


def _below(nodes: Nodes, measures: Measures, heading: int) -> Iterator[int]:
    """What stands beside `heading` and under it, up to the next heading."""
    parent = nodes.parents[heading]
    end = nodes.ends[parent] if parent >= 0 else len(nodes)
    part = nodes.ends[heading]
    while part < end and nodes.tags[part] not in HEADINGS:
        if measures.chars[part]:
            yield part
        part = nodes.ends[part]


def _spared(nodes: Nodes, inside: Iterable[int], doomed: set[int]) -> list[int]:
    kept: list[int] = []
    end = 0
    for node in inside:
        if node < end:
            continue
        if node in doomed:
            end = nodes.ends[node]
        else:
            kept.append(node)
    return kept
