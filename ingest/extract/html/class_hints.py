"""What the classes and ids of an element say of it: that it stands around content, holds remarks, or numbers lines.

A name is cut into words, where they are divided and where they are written in humps. It is judged by single words and
by pairs of them, in English, as most pages name their parts; nothing is concluded from any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

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


class Names:
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


def is_gutter(attributes: Mapping[str, str]) -> bool:
    """Whether a cell, or a block beside code, is named as one that numbers its lines."""
    return any(not _GUTTERS.isdisjoint(_words_of(name)) for name in names_of(attributes))


def names_of(attributes: Mapping[str, str]) -> Iterator[str]:
    """The classes as they are written, and the id, where there are any."""
    for key in ("class", "id"):
        if name := attributes.get(key):
            yield name


def _is_either(attributes: Mapping[str, str], known: dict[str | None, bool], judge: Callable[[str], bool]) -> bool:
    for name in (attributes.get("class"), attributes.get("id")):
        if name not in known:
            known[name] = judge(name or "")
        if known[name]:
            return True
    return False


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
