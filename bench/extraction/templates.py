"""Pages as common software makes them, filled with seeded text: what is content in them is known to the word.

Each template is the frame of one kind of site: its navigation, banners, side columns, related links and remarks, with
the class names that such software gives them, or none at all. The text is of made-up sentences.
"""

# ruff: noqa: E501 - the frames of pages, and patterns, read better unbroken

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape

from bench.extraction.score import Structure

PAGES_OF_EACH = 4
_FUNCTION = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "as",
    "with",
    "on",
    "by",
    "this",
    "be",
    "are",
    "from",
    "at",
    "or",
    "an",
    "was",
    "which",
    "not",
    "but",
    "has",
    "have",
    "its",
]
_CONTENT = [
    "market",
    "river",
    "council",
    "engine",
    "season",
    "report",
    "village",
    "signal",
    "harbour",
    "painter",
    "winter",
    "budget",
    "garden",
    "method",
    "teacher",
    "railway",
    "island",
    "kitchen",
    "museum",
    "planet",
    "library",
    "forest",
    "contract",
    "climate",
    "bridge",
    "student",
    "machine",
    "letter",
    "window",
    "history",
    "company",
    "factory",
    "measure",
    "pattern",
    "surface",
    "doctor",
    "evening",
    "weather",
    "morning",
    "journey",
    "culture",
    "project",
    "problem",
    "village",
    "process",
    "result",
    "figure",
    "value",
    "number",
    "server",
    "memory",
    "queue",
    "index",
    "record",
    "packet",
    "filter",
    "vector",
    "thread",
    "module",
    "buffer",
    "opened",
    "carried",
    "measured",
    "followed",
    "reported",
    "written",
    "discovered",
    "rebuilt",
    "described",
    "changed",
    "reached",
    "counted",
    "reviewed",
    "quiet",
    "narrow",
    "public",
    "early",
    "common",
    "recent",
    "central",
    "modest",
    "heavy",
    "careful",
    "steady",
    "northern",
    "remote",
    "ordinary",
    "useful",
]
_NAMES = ("Ada Moreno", "Jonas Weber", "Mira Okafor", "Li Chen", "Paula Novak", "Tom Baker")


@dataclass
class Text:
    """The content of one page: HTML for its body, the words of it, and what structure it has."""

    random: random.Random
    gold: list[str] = field(default_factory=list)
    structure: Structure = field(default_factory=Structure)

    def sentence(self) -> str:
        words = [
            self.random.choice(_FUNCTION if number % 2 else _CONTENT) for number in range(self.random.randint(7, 19))
        ]
        return " ".join(words).capitalize() + "."

    def words(self, count: int) -> str:
        return " ".join(self.random.choice(_CONTENT) for _ in range(count)).capitalize()

    def paragraph(self) -> str:
        """A paragraph that is content, now and then with a link or emphasis."""
        sentences = [self.sentence() for _ in range(self.random.randint(2, 6))]
        self.gold.append(" ".join(sentences))
        if self.random.random() < 0.4:
            first, _, rest = sentences[0].partition(" ")
            sentences[0] = f"<a href='/ref/{self.random.randint(1, 999)}'>{first}</a> {rest}"
        if self.random.random() < 0.3:
            sentences[-1] = f"<strong>{sentences[-1]}</strong>"
        return " ".join(sentences)

    def heading(self, level: int = 2) -> str:
        words = self.words(self.random.randint(2, 6))
        self.gold.append(words)
        self.structure += Structure(headings=1)
        return f"<h{level}>{words}</h{level}>"

    def items(self) -> str:
        lines = [self.sentence() for _ in range(self.random.randint(3, 6))]
        self.gold += lines
        self.structure += Structure(list_items=len(lines))
        return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"

    def table(self) -> str:
        rows = [[self.words(1), self.words(2), str(self.random.randint(10, 9_999))] for _ in range(5)]
        self.gold += [" ".join(row) for row in rows]
        self.structure += Structure(tables=1)
        cells = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
        head = "".join(f"<th>{cell}</th>" for cell in rows[0])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{row}</tr>' for row in cells[1:])}</tbody></table>"

    def code(self, opening: str = "<pre><code class='language-python'>", closing: str = "</code></pre>") -> str:
        lines = [f"{self.random.choice(_CONTENT)}_{number} = read({self.random.randint(1, 99)})" for number in range(5)]
        self.gold += lines
        self.structure += Structure(code_blocks=1)
        return opening + escape("\n".join(lines)) + closing

    def body(self, *, paragraphs: int = 8, tag: str = "p", technical: bool = False) -> str:
        parts: list[str] = []
        for number in range(paragraphs):
            if number and number % 3 == 0:
                parts.append(self.heading())
            parts.append(f"<{tag}>{self.paragraph()}</{tag}>")
        if technical or self.random.random() < 0.4:
            parts.append(self.items())
        if technical:
            parts += [self.code(), self.table(), f"<{tag}>{self.paragraph()}</{tag}>"]
        return "\n".join(parts)

    def quote(self) -> str:
        return f"<blockquote><p>{self.paragraph()}</p></blockquote>"


Template = Callable[[Text], str]


def template_pages() -> Iterator[tuple[str, str, str, str, Structure]]:
    """(name, kind, HTML, gold text, structure) of every page, the same at each call."""
    for template in _TEMPLATES:
        for number in range(PAGES_OF_EACH):
            text = Text(random.Random(f"{template.__name__}-{number}"))
            page = template(text)
            kind = template.__name__.strip("_")
            yield f"{kind}-{number}", f"template {kind.split('_')[0]}", page, "\n".join(text.gold), text.structure


def _document(text: Text, body: str, head: str = "", attributes: str = "") -> str:
    title = text.words(5)
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title} | Site</title>"
        f"<link rel='stylesheet' href='/s.css'>{head}</head><body {attributes}>{body}</body></html>"
    )


def _links(text: Text, count: int, words: int = 2) -> str:
    return "".join(f"<li><a href='/l/{number}'>{text.words(words)}</a></li>" for number in range(count))


def _cookies(text: Text) -> str:
    return (
        f"<div class='cookie-banner' id='cc-main'><p>We use cookies. {text.sentence()}</p><button>Accept</button></div>"
    )


def _cards(text: Text, count: int, name: str) -> str:
    """Teasers of other pages: a linked title and a line of text each."""
    return "".join(
        f"<div class='{name}'><a href='/s/{number}'><h3>{text.words(6)}</h3></a><p>{text.sentence()}</p></div>"
        for number in range(count)
    )


def _comments(text: Text, count: int) -> str:
    return "".join(
        f"<li class='comment'><div class='comment-author'>{text.random.choice(_NAMES)} says:</div>"
        f"<div class='comment-meta'>May {number + 1}, 2024</div><p>{text.sentence()} {text.sentence()}</p></li>"
        for number in range(count)
    )


def _blog_wordpress(text: Text) -> str:
    return _document(
        text,
        f"<div id='page' class='hfeed site'><header id='masthead' class='site-header'><p class='site-title'><a href='/'>Blog"
        f"</a></p><nav id='site-navigation'><ul>{_links(text, 7)}</ul></nav></header><div id='content' class='site-content'>"
        f"<div id='primary' class='content-area'><main id='main' class='site-main'><article class='post type-post hentry'>"
        f"<header class='entry-header'><h1 class='entry-title'>{text.words(5)}</h1><div class='entry-meta'>Posted on May 3, "
        f"2024 by {text.random.choice(_NAMES)}</div></header><div class='entry-content'>{text.body()}"
        f"<div class='sharedaddy sd-sharing-enabled'><h3 class='sd-title'>Share this:</h3><ul>{_links(text, 4)}</ul></div>"
        f"<div id='jp-relatedposts'><h3>Related</h3><ul>{_links(text, 3, 7)}</ul></div></div><footer class='entry-footer'>"
        f"<span class='cat-links'>Posted in <a href='/c'>News</a></span></footer></article><nav class='post-navigation'>"
        f"<a href='/p'>Previous: {text.words(5)}</a></nav><div id='comments' class='comments-area'><h2>4 thoughts</h2>"
        f"<ol class='comment-list'>{_comments(text, 4)}</ol><div id='respond'><h3>Leave a Reply</h3><form><p>Your email "
        f"address will not be published.</p></form></div></div></main></div><aside id='secondary' class='widget-area'>"
        f"<section class='widget'><h2>Recent Posts</h2><ul>{_links(text, 6, 5)}</ul></section></aside></div>"
        f"<footer id='colophon'><p>Proudly powered by WordPress. {text.sentence()}</p></footer></div>{_cookies(text)}",
    )


def _blog_classic(text: Text) -> str:
    return _document(
        text,
        f"<div id='wrap'><div id='header'><h1><a href='/'>My Weblog</a></h1><ul>{_links(text, 6)}</ul></div><div id='content'>"
        f"<div class='post'><h2>{text.words(5)}</h2><small>June 2nd, 2009</small><div class='entry'>{text.body()}</div>"
        f"<p class='postmetadata'>Posted in <a href='/c'>General</a> | <a href='/x'>Edit</a> | <a href='/c'>12 Comments</a></p>"
        f"</div><h3 id='comments'>3 Responses</h3><ol class='commentlist'>{_comments(text, 3)}</ol></div><div id='sidebar'><ul>"
        f"<li><h2>Archives</h2><ul>{_links(text, 9)}</ul></li><li><h2>Blogroll</h2><ul>{_links(text, 6)}</ul></li></ul></div>"
        f"<div id='footer'><p>My Weblog. {text.sentence()}</p></div></div>",
    )


def _blog_blogger(text: Text) -> str:
    lines = "<br><br>".join(text.paragraph() for _ in range(7))
    return _document(
        text,
        f"<div class='content'><div class='content-outer'><header><div class='region-inner'><div class='widget Header'><h1>"
        f"Pages of a traveller</h1></div></div></header><div class='tabs-outer'><ul>{_links(text, 5)}</ul></div><div class="
        f"'main-outer'><div class='main section' id='main'><div class='widget Blog'><div class='blog-posts hfeed'><h2 class="
        f"'date-header'><span>Monday, 3 May 2021</span></h2><div class='post hentry'><h3 class='post-title entry-title'>"
        f"{text.words(5)}</h3><div class='post-body entry-content'>{lines}</div><div class='post-footer'>Posted by "
        f"{text.random.choice(_NAMES)} at <a href='/t'>10:30</a> Labels: <a href='/l'>one</a></div></div></div><div class="
        f"'comments'><h4>2 comments:</h4>{_comments(text, 2)}</div></div></div></div><div class='column-right-outer'><div class="
        f"'sidebar section'><div class='widget BlogArchive'><h2>Archive</h2><ul>{_links(text, 12)}</ul></div></div></div></div></div>",
    )


def _blog_hashed_names(text: Text) -> str:
    return _document(
        text,
        f"<div id='root'><div class='a b c'><div class='d e'><a href='/'>Home</a><a href='/in'>Sign in</a><a href='/up'>Get "
        f"started</a></div></div><div class='a f'><section class='g h'><div><h1 class='i j'>{text.words(6)}</h1><div class='k'>"
        f"<a href='/@u'>{text.random.choice(_NAMES)}</a><span>6 min read</span><span>May 3</span></div></div>"
        f"<div class='m n'>{text.body(tag='p')}{text.quote()}</div></section></div><div class='a o'><div class='p'><h2>More from "
        f"Site</h2>{_cards(text, 4, 'q r')}</div></div><div class='a s'><p>About</p><p>Help</p><p>Terms</p></div></div>",
    )


def _blog_static(text: Text) -> str:
    gutter = "\n".join(str(number) for number in range(1, 6))
    code = text.code(
        f"<div class='highlight'><table class='highlighttable'><tr><td class='linenos'><pre>{gutter}</pre></td><td class='code'>"
        "<pre><span class='n'>",
        "</span></pre></td></tr></table></div>",
    )
    return _document(
        text,
        f"<nav class='navbar'><ul>{_links(text, 5)}</ul></nav><article><header><h1>{text.words(4)}</h1><p class='byline'>by "
        f"{text.random.choice(_NAMES)} on <time>2023-02-01</time></p></header>{text.body(technical=True)}{code}</article><ul class="
        f"'tags'>{_links(text, 4, 1)}</ul><div class='pagination'><a href='/n'>Next: {text.words(6)}</a></div><footer>"
        f"<p>{text.sentence()}</p></footer>",
    )


def _news_bem(text: Text) -> str:
    return _document(
        text,
        f"<div class='o-page'><div class='c-masthead'><ul class='c-nav__list'>{_links(text, 14)}</ul></div><div class='c-ad "
        f"c-ad--leaderboard'>Advertisement</div><div class='l-layout'><div class='l-layout__main'><div class='c-article'>"
        f"<div class='c-article__header'><h1 class='c-article__headline'>{text.words(7)}</h1><p class='c-article__byline'>By "
        f"{text.random.choice(_NAMES)}, Correspondent</p><div class='c-share-bar'><ul>{_links(text, 4, 1)}</ul></div></div><div class="
        f"'c-article__body'>{text.body(paragraphs=4)}<div class='c-ad'>Advertisement</div><div class='c-newsletter-promo'><h3>"
        f"Sign up to our daily briefing</h3><p>{text.sentence()}</p></div>{text.body(paragraphs=5)}<p class='c-read-more'><a href='/m'>"
        f"READ MORE: {text.words(8)}</a></p></div><ul class='c-tags'>{_links(text, 5, 1)}</ul></div><div class='c-related'><h2>Related "
        f"stories</h2>{_cards(text, 4, 'c-card')}</div></div><div class='l-layout__aside'><h2>Most read</h2><ol>"
        f"{_links(text, 8, 8)}</ol></div></div><div class='c-footer'><ul>{_links(text, 18)}</ul><p>{text.sentence()}</p></div></div>"
        + _cookies(text),
    )


def _news_div_soup(text: Text) -> str:
    body = "".join(f"<div>{text.paragraph()}</div>" for _ in range(9))
    return _document(
        text,
        f"<div><div><div><a href='/'>Daily</a></div><div>{''.join(f'<a href=/s{n}>{text.words(1)}</a> ' for n in range(12))}</div></div>"
        f"<div><div><div><span>{text.words(8)}</span></div><div><span>12 March</span> <span>{text.random.choice(_NAMES)}</span></div>"
        f"<div>{body}</div></div><div><div>Latest</div>{''.join(f'<div><a href=/n{n}>{text.words(9)}</a></div>' for n in range(9))}"
        f"</div></div><div>{''.join(f'<a href=/f{n}>{text.words(2)}</a> ' for n in range(14))}<div>{text.sentence()}</div></div></div>",
    )


def _news_teasers(text: Text) -> str:
    """An article with as many teasers below it as it has paragraphs, each an article element too."""
    teasers = "".join(
        f"<article class='card'><a href='/t{number}'><h3>{text.words(7)}</h3></a><p>{text.sentence()} {text.sentence()}</p></article>"
        for number in range(8)
    )
    return _document(
        text,
        f"<header class='top'><nav><ul>{_links(text, 9)}</ul></nav></header><main><article class='story'><h1>{text.words(8)}</h1>"
        f"<div class='lede'>{text.sentence() and ''}</div><figure><img src='a.jpg'></figure>{text.body(paragraphs=9)}</article>"
        f"<section class='recommendations'><h2>You may also like</h2>{teasers}</section></main><footer><ul>{_links(text, 12)}</ul></footer>",
        head='<script type=\'application/ld+json\'>{"@type":"NewsArticle","headline":"A headline"}</script>',
    )


def _news_many_comments(text: Text) -> str:
    return _document(
        text,
        f"<div id='top-nav'><ul>{_links(text, 8)}</ul></div><div id='story'><h1>{text.words(7)}</h1><div id='story-body'>"
        f"{text.body(paragraphs=7)}</div></div><div id='comments-section'><h2>Comments (30)</h2><ul>{_comments(text, 30)}</ul></div>"
        f"<div id='bottom'><ul>{_links(text, 15)}</ul></div>",
    )


def _news_press_form(text: Text) -> str:
    """The whole page in one form, laid out by tables."""
    return _document(
        text,
        f"<form method='post' id='aspnetForm'><input type='hidden' name='__VIEWSTATE' value='x'><table width='100%'><tr><td colspan='2'>"
        f"{''.join(f'<a href=/m{n}>{text.words(2)}</a> | ' for n in range(8))}</td></tr><tr><td width='180'>"
        f"{''.join(f'<a href=/l{n}>{text.words(3)}</a><br>' for n in range(10))}</td><td><span class='PageTitle'>{text.words(6)}</span>"
        f"{text.body()}</td></tr><tr><td colspan='2'>{text.sentence()}</td></tr></table></form>",
    )


def _forum_phpbb(text: Text) -> str:
    posts = "".join(
        f"<div id='p{number}' class='post has-profile bg{number % 2}'><div class='inner'><dl class='postprofile'><dt><a href='/u'>"
        f"{text.random.choice(_NAMES).split()[0]}</a></dt><dd class='profile-posts'>Posts: {number}31</dd></dl><div class='postbody'>"
        f"<p class='author'>by <a href='/u'>user</a> » Mon May 03, 2021</p><div class='content'>{text.paragraph()}<br>"
        f"{text.paragraph()}</div><div class='signature'>{text.words(5)}</div></div></div></div>"
        for number in range(6)
    )
    return _document(
        text,
        f"<div id='wrap' class='wrap'><div id='page-header'><div class='headerbar'><p>Community</p></div><div class='navbar'><ul "
        f"id='nav-main'>{_links(text, 5)}</ul></div></div><div id='page-body' class='page-body'><h2 class='topic-title'><a href='/t'>"
        f"{text.words(5)}</a></h2><div class='action-bar'><a href='/r'>Post Reply</a><div class='pagination'>6 posts • Page 1 of 1"
        f"</div></div>{posts}</div><div id='page-footer'><div class='navbar'><ul>{_links(text, 4)}</ul></div><div class='copyright'>"
        f"<p>Powered by phpBB</p></div></div></div>",
        attributes="id='phpbb' class='section-viewtopic ltr'",
    )


def _forum_tables(text: Text) -> str:
    posts = "".join(
        f"<table class='tborder' id='post{number}'><tr><td class='thead'>05-03-2008, 10:0{number}</td></tr><tr><td class='alt2'>"
        f"<a class='bigusername' href='/m'>{text.random.choice(_NAMES).split()[0]}</a><div class='smallfont'>Join Date: May 2005</div>"
        f"</td></tr><tr><td class='alt1'><div id='post_message_{number}'>{text.paragraph()}<br><br>{text.paragraph()}</div></td></tr></table>"
        for number in range(6)
    )
    return _document(
        text,
        f"<div align='center'><table class='tborder'><tr><td class='navbar'><a href='/'>Forum</a> &gt; <a href='/f'>{text.words(2)}</a>"
        f"</td></tr></table><table><tr>{''.join(f'<td class=vbmenu><a href=/v{n}>{text.words(1)}</a></td>' for n in range(7))}</tr></table>"
        f"<div id='posts'>{posts}</div><div class='smallfont'>All times are GMT.</div></div>",
        head="<meta name='generator' content='vBulletin 3.8.4'>",
    )


def _forum_discourse(text: Text) -> str:
    posts = "".join(
        f"<div itemprop='comment' itemscope id='post_{number}' class='topic-body crawler-post'><div class='crawler-post-meta'><span "
        f"class='creator'>{text.random.choice(_NAMES).split()[0]}</span> <time>May 3, 2021</time></div><div class='post'><p>"
        f"{text.paragraph()}</p><p>{text.paragraph()}</p></div><div itemprop='interactionStatistic'><span class='post-likes'>"
        f"{number} Likes</span></div></div>"
        for number in range(7)
    )
    return _document(
        text,
        f"<header><a href='/'>Community</a></header><div id='main-outlet' class='wrap'><div id='topic-title'><h1><a href='/t/1'>"
        f"{text.words(6)}</a></h1><div class='topic-category'><a href='/c'>Support</a></div></div>{posts}<div id='related-topics'>"
        f"<table class='topic-list'><tbody>{''.join(f'<tr><td><a href=/t/{n}>{text.words(7)}</a></td><td>{n}</td></tr>' for n in range(5))}"
        f"</tbody></table></div></div><footer><ul>{_links(text, 4)}</ul></footer>",
        head="<meta name='generator' content='Discourse 3.2.0'>",
        attributes="class='crawler'",
    )


def _forum_questions(text: Text) -> str:
    answers = "".join(
        f"<div id='answer-{number}' class='answer'><div class='votecell'><div class='vote'>{number}</div></div><div class='answercell'>"
        f"<div class='s-prose js-post-body'><p>{text.paragraph()}</p>{text.code('<pre><code>', '</code></pre>')}<p>{text.paragraph()}</p>"
        f"</div><div class='post-menu'><a href='/s'>Share</a> <a href='/e'>Improve this answer</a></div><div class='user-info'>answered "
        f"May 3 <a href='/u'>{text.random.choice(_NAMES).split()[0]}</a></div></div></div>"
        for number in range(3)
    )
    return _document(
        text,
        f"<header class='s-topbar'><ol>{_links(text, 5)}</ol></header><div class='container'><div id='left-sidebar'><nav>{_links(text, 6)}"
        f"</nav></div><div id='content'><div id='question-header'><h1><a href='/q'>{text.words(8)}</a></h1></div><div id='mainbar'><div "
        f"class='question' id='question'><div class='postcell'><div class='s-prose js-post-body'><p>{text.paragraph()}</p><p>"
        f"{text.paragraph()}</p></div><div class='post-taglist'><ul>{_links(text, 4, 1)}</ul></div></div></div><div id='answers'>"
        f"<div id='answers-header'>3 Answers</div>{answers}</div></div><div id='sidebar'><h4>Related</h4>{_links(text, 9, 8)}</div></div></div>"
        f"<footer class='site-footer'><ul>{_links(text, 14)}</ul></footer>",
        attributes="class='question-page unified-theme'",
    )


def _docs_sphinx(text: Text) -> str:
    code = text.code(
        "<div class='highlight-python3 notranslate'><div class='highlight'><pre><span></span>", "</pre></div></div>"
    )
    return _document(
        text,
        f"<div class='related' role='navigation'><ul>{_links(text, 4)}</ul></div><div class='document'><div class='documentwrapper'><div "
        f"class='bodywrapper'><div class='body' role='main'><section id='x'><h1>{text.words(3)}<a class='headerlink' href='#x'>¶</a></h1>"
        f"{text.body(technical=True)}{code}</section></div></div></div><div class='sphinxsidebar' role='navigation'><h3>Table of Contents"
        f"</h3><ul>{_links(text, 8)}</ul></div></div><div class='footer' role='contentinfo'>© Copyright 2024.</div>",
    )


def _docs_material(text: Text) -> str:
    return _document(
        text,
        f"<header class='md-header'><nav class='md-header__inner'><ul>{_links(text, 3)}</ul></nav></header><div class='md-container'><main "
        f"class='md-main'><div class='md-main__inner md-grid'><div class='md-sidebar md-sidebar--primary'><nav>{_links(text, 20)}</nav></div>"
        f"<div class='md-content'><article class='md-content__inner md-typeset'><a href='/edit' class='md-content__button'></a><h1>"
        f"{text.words(3)}</h1>{text.body(technical=True)}</article></div></div></main><footer class='md-footer'><p>{text.sentence()}</p>"
        f"</footer></div>",
    )


def _docs_wiki(text: Text) -> str:
    return _document(
        text,
        f"<div id='mw-page-base'></div><div id='content' class='mw-body' role='main'><h1 id='firstHeading'>{text.words(3)}</h1><div id="
        f"'bodyContent'><div id='siteSub' class='noprint'>From the free encyclopedia</div><div id='mw-content-text'><div class="
        f"'mw-parser-output'><div role='note' class='hatnote'>For other uses, see <a href='/o'>{text.words(2)}</a>.</div>"
        f"{text.body(paragraphs=10)}{text.table()}<div role='navigation' class='navbox'><ul>{_links(text, 30)}</ul></div></div></div><div id="
        f"'catlinks' class='catlinks'>Categories: <ul>{_links(text, 5)}</ul></div></div></div><div id='mw-navigation'><h2>Navigation menu"
        f"</h2><ul>{_links(text, 25)}</ul></div><footer id='footer'><ul><li>This page was last edited on 3 May.</li></ul></footer>",
    )


def _docs_repository(text: Text) -> str:
    rows = "".join(
        f"<tr><td><a href='/b/{number}'>{text.words(1)}.py</a></td><td><a href='/c/{number}'>{text.words(5)}</a></td><td>2 days ago</td></tr>"
        for number in range(9)
    )
    return _document(
        text,
        f"<header class='AppHeader'><ul>{_links(text, 8)}</ul></header><div class='application-main'><main><div id='repo-content'><table "
        f"aria-labelledby='folders-and-files'>{rows}</table><div id='readme'><article class='markdown-body entry-content' itemprop='text'>"
        f"<h1>{text.words(2)}</h1>{text.body(technical=True)}</article></div><div class='Layout-sidebar'><h2>About</h2><p>{text.sentence()}</p>"
        f"</div></div></main></div><footer><ul>{_links(text, 12)}</ul></footer>",
    )


def _shop_product(text: Text) -> str:
    return _document(
        text,
        f"<div class='header-top'><ul>{_links(text, 6)}</ul></div><div class='breadcrumb'><a href='/'>Home</a> / <a href='/c'>{text.words(1)}"
        f"</a></div><div class='product'><h1>{text.words(4)}</h1><div class='price'>€ 49.00</div><div class='product-description'>"
        f"{text.body(paragraphs=4)}{text.table()}</div></div><div class='related-products'><h2>Customers also bought</h2>"
        f"{_cards(text, 4, 'product-card')}</div><div class='footer'><ul>{_links(text, 12)}</ul></div>{_cookies(text)}",
    )


def _news_paragraphs_in_body(text: Text) -> str:
    """No box at all around the text: paragraphs stand in the body between lists of links."""
    return _document(
        text,
        f"<ul>{_links(text, 6)}</ul><h1>{text.words(5)}</h1>{text.body()}<hr><ul>{_links(text, 8, 6)}</ul><p><small><a href='/i'>Imprint</a> "
        f"<a href='/p'>Privacy</a></small></p>",
    )


def _blog_drupal(text: Text) -> str:
    return _document(
        text,
        f"<div class='layout-container'><header role='banner'><nav role='navigation'><ul class='menu'>{_links(text, 6)}</ul></nav></header>"
        f"<main role='main'><div class='layout-content'><div class='region region-content'><div class='block block-system'><div class="
        f"'node node--type-article'><div class='node__content'><div class='field field--name-body field__item'>{text.body()}</div><div class="
        f"'field field--name-field-tags'><ul class='links'>{_links(text, 3, 1)}</ul></div></div></div></div></div></div><aside role="
        f"'complementary'><div class='region-sidebar-second'><h2>Latest</h2>{_links(text, 6, 5)}</div></aside></main><footer role="
        f"'contentinfo'><ul class='menu'>{_links(text, 5)}</ul></footer></div>",
    )


_TEMPLATES: tuple[Template, ...] = (
    _blog_wordpress,
    _blog_classic,
    _blog_blogger,
    _blog_hashed_names,
    _blog_static,
    _blog_drupal,
    _news_bem,
    _news_div_soup,
    _news_teasers,
    _news_many_comments,
    _news_press_form,
    _news_paragraphs_in_body,
    _forum_phpbb,
    _forum_tables,
    _forum_discourse,
    _forum_questions,
    _docs_sphinx,
    _docs_material,
    _docs_wiki,
    _docs_repository,
    _shop_product,
)
