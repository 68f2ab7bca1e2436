"""What of an HTML page is its content, and what stands around it: navigation, banners, side columns, remarks.

Three steps over the arrays of a page (ingest/extraction/nodes.py), each linear in it:

1. `shown_nodes`: what a reader could see. Hidden text goes first and for a second reason: it is where a page speaks to
   a machine behind its reader's back.
2. `without_surroundings`: out goes what its element, its role or its name says is no content, unless most of the page
   stands in it.
3. `main_content`: where the page marks its content, that; then down the tree as long as one child holds nearly all of
   the text that reads like prose. Text counts by its length and by how little of it is linked (shallow text features:
   Kohlschütter, Fankhauser, Nejdl, "Boilerplate Detection using Shallow Text Features", WSDM 2010).

What is left is then cleared of lists of links and of headings that have lost what stood under them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ingest.extraction.cascade import Cascade
from ingest.extraction.nodes import BLOCKS, Nodes

HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))

_NEVER_READ = frozenset(
    [
        *("script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "embed", "applet", "portal"),
        *("title", "audio", "video", "map", "link", "meta", "base", "dialog", "frame", "frameset", "noembed"),
        *(
            "button",
            "input",
            "select",
            "textarea",
            "datalist",
            "progress",
            "meter",
            "annotation",
            "annotation-xml",
            "rp",
        ),
    ]
)
_AROUND_CONTENT = frozenset(("nav", "aside", "menu"))
_SECTIONING = frozenset(("nav", "aside", "menu", "header", "footer", "form", "main", "article", "section"))
_ROLES_AROUND = frozenset(("navigation", "banner", "contentinfo", "search", "complementary", "dialog", "menu", "alert"))
_NEVER_AROUND = frozenset(("html", "body", "main", "h1", "h2", "h3", "p", "pre", "code", "td", "dt", "dd"))
_LITERAL = frozenset(("pre", "code", "samp", "kbd", "xmp", "listing"))
"""Elements in which classes colour code: `hljs-comment` is no remark of a reader's."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BETWEEN_WORDS = re.compile(r"[\s_-]+")
_AROUND_WORDS = frozenset(
    [
        *("nav", "navbar", "navigation", "navigator", "sidenav", "subnav", "topnav", "menu", "menus", "submenu"),
        *("breadcrumb", "breadcrumbs", "cookie", "cookies", "cookiebar", "consent", "gdpr", "ad", "ads", "advert"),
        *("adverts", "advertisement", "advertising", "adsense", "adsbygoogle", "promo", "promos", "promotion"),
        *("promotions", "promoted", "sponsor", "sponsors", "sponsored", "newsletter", "newsletters", "subscribe"),
        *("subscription", "signup", "social", "socials", "socialmedia", "share", "shares", "sharing", "sharedaddy"),
        *("addtoany", "addthis", "sidebar", "sidebars", "sphinxsidebar", "popup", "popover", "modal", "overlay"),
        *("lightbox", "related", "relatedposts", "recommend", "recommended", "recommendation", "recommendations"),
        *("outbrain", "taboola", "zergnet", "trending", "pagination", "pager", "pagenav", "toolbar", "masthead"),
        *("footer", "colophon", "copyright", "login", "signin", "searchform", "searchbox", "searchbar", "byline"),
        *("tagcloud", "taglist", "tags", "rating", "ratings", "reaction", "reactions", "likes", "vote", "votes"),
        *("voting", "widget", "widgets", "topbar", "bottombar", "headerlink", "paywall", "donate", "donation"),
        *("signature", "postprofile", "postauthor", "userinfo", "lineno", "linenos", "linenumber", "linenumbers"),
        *("gutter", "visuallyhidden", "noprint", "jumplinks", "toplink", "backtotop", "scrolltop", "disclaimer"),
        *("survey", "feedback", "navbox", "catlinks", "printfooter", "hatnote", "ambox", "cta", "postmeta"),
        *("entrymeta", "readmore", "upnext"),
    ]
)
"""Words of a class or an id that say: no content."""
_AROUND_PAIRS = frozenset(
    [
        *("ad-slot", "ad-unit", "ad-box", "ad-container", "ad-wrapper", "sign-up", "sign-in", "log-in", "skip-link"),
        *("skip-links", "skip-nav", "skip-to", "most-read", "most-popular", "most-viewed", "most-shared"),
        *("popular-posts", "popular-post", "latest-news", "latest-posts", "recent-posts", "recent-articles"),
        *("recent-comments", "more-news", "more-posts", "more-articles", "more-stories", "other-news", "other-posts"),
        *("other-articles", "read-next", "read-also", "read-more", "up-next", "page-links", "post-navigation"),
        *("posts-navigation", "page-navigation", "prev-next", "search-form", "search-box", "search-bar", "by-line"),
        *("author-bio", "author-box", "author-info", "author-card", "author-meta", "author-profile"),
        *("author-details", "about-author", "the-author", "post-tags", "entry-tags", "tag-list", "tag-links"),
        *("tag-cloud", "cat-links", "post-meta", "entry-meta", "article-meta", "post-info", "entry-info"),
        *("article-info", "post-footer", "entry-footer", "article-footer", "post-actions", "article-actions"),
        *("post-tools", "article-tools", "story-tools", "posted-on", "posted-in", "posted-by", "edit-section"),
        *("edit-link", "print-link", "print-button", "site-header", "site-footer", "site-info", "site-branding"),
        *("site-nav", "site-menu", "page-footer", "page-tools", "top-bar", "bottom-bar", "header-top", "header-bar"),
        *("header-nav", "header-menu", "follow-us", "follow-me", "follow-bar", "app-promo", "app-banner"),
        *("user-info", "user-profile", "user-details", "user-stats", "user-panel", "post-author", "post-profile"),
        *("post-buttons", "post-options", "post-controls", "message-user", "message-attribution"),
        *("message-actionbar", "message-signature", "line-number", "line-numbers", "screen-reader", "reader-text"),
        *("sr-only", "visually-hidden", "assistive-text", "d-none", "is-hidden", "no-print", "hidden-print"),
        *("to-top", "back-to", "scroll-top", "mw-editsection", "mw-jump", "inline-related", "toctree-wrapper-nav"),
    ]
)
"""The same in two words."""
_MEANT_OTHERWISE = frozenset(("elementor-widget", "widget-blog", "node-promoted"))
"""Pairs whose words say nothing of the kind: a page builder's parts, Blogger's posts, Drupal's stories on its front."""
_POST = re.compile(r"(?:^|\s)(?:hentry|post-\d+|type-[a-z]\S*)(?=\s|$)")
_TOPICS = re.compile(r"(?:^|\s)(?:category|tag)-\S+")
"""Of a WordPress post: classes that its author made up."""
_GUTTERS = frozenset(("lineno", "linenos", "linenumber", "linenumbers", "lines", "gutter"))
"""Words of a cell that numbers the lines of the code beside it."""
_LINE_NUMBERS = _GUTTERS - {"lines"}
_LINE_NUMBER_PAIRS = frozenset((("line", "number"), ("line", "numbers")))
"""The same of what stands within the code itself."""
_REMARK_WORDS = frozenset(
    [
        *("comment", "comments", "commentlist", "commentform", "disqus", "respond", "replyform", "livefyre"),
        *("pingback", "pingbacks", "trackback", "trackbacks", "guestbook", "discussion"),
    ]
)
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

_SHORTEST_PROSE = 25
"""Characters of a block below which it tells nothing about where the content is (as in Readability)."""
_FULL_PROSE = 80
"""Characters from which a block counts in full: a line of text."""
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


@dataclass(frozen=True, slots=True)
class Shown:
    """What a reader could see of a page. `chars` and `linked` count, for every entry, the characters before it."""

    nodes: list[int]
    chars: list[int]
    linked: list[int]
    titles: list[int]

    def chars_in(self, start: int, end: int) -> int:
        """Characters of the entries from `start` up to `end`."""
        return self.chars[end] - self.chars[start]

    def unlinked_in(self, start: int, end: int) -> int:
        """As `chars_in`, those of links left out."""
        return self.chars[end] - self.chars[start] - self.linked[end] + self.linked[start]

    def has_title(self, start: int, end: int) -> bool:
        """Whether an `<h1>` with text stands from `start` up to `end`."""
        return bisect_left(self.titles, start) < bisect_left(self.titles, end)


@dataclass(frozen=True, slots=True)
class Measures:
    """Of every entry, summed over what is left in it: characters, linked ones and prose."""

    left: list[int]
    chars: list[int]
    linked: list[int]
    prose: list[float]


def shown_nodes(nodes: Nodes) -> Shown:
    """The entries that a reader could see, in their order.

    Raises InvalidInput where the page's style sheets ask for more work than any honest page's do.
    """
    cascade = Cascade(nodes)
    hides = cascade.hides if cascade.is_needed else None
    tags, ends, texts, attributes = nodes.tags, nodes.ends, nodes.texts, nodes.attributes
    shown: list[int] = []
    titles: list[int] = []
    chars, linked = [0], [0]
    node, count = 0, len(tags)
    total = total_linked = anchored_to = 0
    while node < count:
        tag = tags[node]
        if not tag:
            if hides is None or not hides(node):
                shown.append(node)
                length = len(texts[node].strip())
                if length:
                    total += length + 1
                    if node < anchored_to:
                        total_linked += length + 1
            chars.append(total)
            linked.append(total_linked)
            node += 1
        elif (
            tag in _NEVER_READ or (attributes[node] and _is_marked_hidden(attributes[node])) or (hides and hides(node))
        ):
            chars += [total] * (ends[node] - node)
            linked += [total_linked] * (ends[node] - node)
            node = ends[node]
        else:
            shown.append(node)
            chars.append(total)
            linked.append(total_linked)
            if tag == "a":
                anchored_to = max(anchored_to, ends[node])
            elif tag == "h1":
                titles.append(node)
            node += 1
    return Shown(shown, chars, linked, [title for title in titles if chars[ends[title]] > chars[title]])


def _is_marked_hidden(attributes: Mapping[str, str]) -> bool:
    # `hidden` hides by being there: `hidden=no` does too.
    return "hidden" in attributes or attributes.get("aria-hidden", "").strip().lower() == "true"


def measured(nodes: Nodes, left: list[int]) -> Measures:
    """The measures of `nodes`, of which those in `left` are counted. Two loops: to the nearest block, then upwards."""
    count = len(nodes)
    tags, texts, parents = nodes.tags, nodes.texts, nodes.parents
    chars, linked, blocks = [0] * count, [0] * count, [0] * count
    own, own_linked = [0] * count, [0] * count
    prose = [0.0] * count
    anchored_to = 0
    for node in left:
        tag = tags[node]
        if tag:
            if tag in BLOCKS or parents[node] < 0:
                blocks[node] = node
            else:
                blocks[node] = blocks[parents[node]]
                if tag == "a":
                    anchored_to = nodes.ends[node]
            continue
        length = len(texts[node].strip())
        if length:
            length += 1
            chars[node] = length
            block = blocks[parents[node]]
            own[block] += length
            if node < anchored_to:
                linked[node] = length
                own_linked[block] += length
    for node in reversed(left):
        if not chars[node]:
            continue
        if own[node] >= _SHORTEST_PROSE:
            prose[node] += _prose(tags[node], own[node], own_linked[node])
        parent = parents[node]
        if parent >= 0:
            chars[parent] += chars[node]
            linked[parent] += linked[node]
            prose[parent] += prose[node]
    return Measures(left, chars, linked, prose)


def _prose(tag: str, chars: int, linked: int) -> float:
    """How much of a block's own text reads like prose."""
    if tag in HEADINGS:
        return 0.0
    unlinked = 1.0 - linked / chars
    if tag != "pre":
        unlinked *= min(1.0, chars / _FULL_PROSE)
    return chars * unlinked * unlinked


def is_forum(nodes: Nodes, kinds: frozenset[str], generator: str) -> bool:
    """Whether the remarks of the page's readers are its content."""
    if not kinds.isdisjoint(_FORUM_KINDS) or _FORUMS.search(generator):
        return True
    pages = (nodes.attributes[node] for node in range(min(len(nodes), 400)) if nodes.tags[node] in ("html", "body"))
    return any(_FORUMS.search(name) for attributes in pages for name in _written(attributes))


def without_surroundings(nodes: Nodes, shown: Shown, *, keep_remarks: bool) -> list[int]:
    """What is left of the shown entries when navigation, banners, side columns and remarks are taken out."""
    names = _Names()
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


def _is_around(nodes: Nodes, node: int, shown: Shown, most_chars: int, in_content: bool, names: _Names) -> bool:
    tag, attributes, end = nodes.tags[node], nodes.attributes[node], nodes.ends[node]
    if tag in _NEVER_AROUND:
        return tag in ("td", "pre") and any(not _GUTTERS.isdisjoint(_words_of(name)) for name in _written(attributes))
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


class _Names:
    """What the classes and ids of elements say; each is looked at once."""

    def __init__(self) -> None:
        self._around: dict[str | None, bool] = {None: False, "": False}
        self._remarks: dict[str | None, bool] = {None: False, "": False}
        self._line_numbers: dict[str | None, bool] = {None: False, "": False}

    def are_around(self, attributes: Mapping[str, str]) -> bool:
        """Whether they name what stands around content."""
        return _is_either(attributes, self._around, _names_surroundings)

    def are_remarks(self, attributes: Mapping[str, str]) -> bool:
        """Whether they name what readers added."""
        return _is_either(attributes, self._remarks, _names_remarks)

    def are_line_numbers(self, attributes: Mapping[str, str]) -> bool:
        """Whether they name the numbers of lines, for what stands within code."""
        return _is_either(attributes, self._line_numbers, _names_line_numbers)


def _is_either(attributes: Mapping[str, str], known: dict[str | None, bool], judge: Callable[[str], bool]) -> bool:
    for name in (attributes.get("class"), attributes.get("id")):
        if name not in known:
            known[name] = judge(name or "")
        if known[name]:
            return True
    return False


def _written(attributes: Mapping[str, str]) -> Iterator[str]:
    for key in ("class", "id"):
        if name := attributes.get(key):
            yield name


def _words_of(name: str) -> list[str]:
    return _BETWEEN_WORDS.split(_CAMEL.sub("-", name[:300]).lower().strip())


def _names_surroundings(name: str) -> bool:
    words = _words_of(_TOPICS.sub("", name) if _POST.search(name) else name)
    pairs = [f"{one}-{other}" for one, other in pairwise(words)]
    meant_otherwise = {word for pair in _MEANT_OTHERWISE.intersection(pairs) for word in pair.split("-")}
    return not _AROUND_WORDS.isdisjoint(set(words) - meant_otherwise) or not _AROUND_PAIRS.isdisjoint(pairs)


def _names_remarks(name: str) -> bool:
    return not _REMARK_WORDS.isdisjoint(_words_of(name))


def _names_line_numbers(name: str) -> bool:
    words = _words_of(name)
    return not _LINE_NUMBERS.isdisjoint(words) or any(pair in _LINE_NUMBER_PAIRS for pair in pairwise(words))


def _remarks(nodes: Nodes, shown: Shown, names: _Names) -> list[int]:
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
        for name in _written(attributes):
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
