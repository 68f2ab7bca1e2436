"""Extraction: any supported body becomes readable text and honest facts; hostile ones cost no more than their size."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract.extract import MAX_BODY_BYTES, extract, extract_text
from sluice.ingest.extract.html import nodes


def html(body: str, head: str = "") -> bytes:
    return f"<!doctype html><html lang='en-GB'><head>{head}</head><body>{body}</body></html>".encode()


SOUP = st.sampled_from(
    [
        *("<div>", "</div>", "<p>", "</p>", "<table>", "<tr>", "<td class=title>", "</table>", "<dl>", "<dt id=a>"),
        *("<dd>", "</dl>", "<h1>", "</h1>", "<br>", "<a href='/x'>", "</a>", "<main>", "</main>", "<pre>", "</pre>"),
        *("<form>", "<nav>", "</nav>", "<svg>", "<math>", "<body>", "</html>", "<head>", "<frameset>", "<?php ?>"),
        *("<!--", "-->", "<p hidden>secret</p>", "word", "# ", "```", "\u200b", "&amp;", "&#0;", "&#xD800;", "<"),
        *("<b class=heading>", "<base href='http://['>", "<html lang=''>", "<link rel=canonical href=''>", "<title>"),
    ]
)


class TestHtml:
    def test_headings_tables_lists_and_code_stay_markdown(self) -> None:
        page = html(
            "<main><h1>Guide</h1><p>An introduction that is long enough to be the content of this page.</p>"
            "<h2>Use</h2><ul><li>one<li>two</ul><pre><code class='language-py'>a = 1\nb = 2</code></pre>"
            "<table><tr><th>k</th><th>v</th></tr><tr><td>a</td><td>1</td></tr><tr><td>b</td><td>2</td></tr></table>"
            "</main>"
        )
        text = extract(page, "text/html").text
        for expected in ("# Guide", "## Use", "- one", "```py\na = 1\nb = 2\n```", "| k | v |", "| b | 2 |"):
            assert expected in text

    def test_scripts_navigation_and_comments_are_left_out(self) -> None:
        page = html(
            "<nav>menu</nav><header>banner</header><script>code()</script><style>x{}</style><!-- remark -->"
            "<div class='cookie-consent'>accept</div><aside>side</aside><p>The content.</p><footer>imprint</footer>"
        )
        assert extract(page, "text/html").text == "The content."

    @pytest.mark.parametrize(
        "hidden",
        [
            "<p hidden>secret</p>",
            "<p aria-hidden='true'>secret</p>",
            "<p style='display : none'>secret</p>",
            "<p style='color:red;visibility:hidden'>secret</p>",
            "<p style='font-size:0px'>secret</p>",
            "<p style='width:0;height:0;overflow:hidden'>secret</p>",
            "<p style='position:absolute;left:-9999px'>secret</p>",
            "<p style='opacity:0'>secret</p>",
            "<template>secret</template>",
            "<noscript>secret</noscript>",
        ],
    )
    def test_hidden_text_is_left_out(self, hidden: str) -> None:
        assert extract(html(f"<p>shown</p>{hidden}<p>too</p>"), "text/html").text == "shown\n\ntoo"

    def test_what_only_looks_like_hiding_stays(self) -> None:
        page = html(
            "<p style='font-size:0.9em'>small</p><p style='opacity:0.8'>faint</p><div style='width:100%'>w</div>"
        )
        assert extract(page, "text/html").text.split() == ["small", "faint", "w"]

    def test_invisible_characters_are_stripped(self) -> None:
        tags = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore")
        page = html(f"<p>a\u200bb\u202ec\u2066d{tags}e\ufeff\u00ad</p>")
        assert extract(page, "text/html").text == "abcde"

    def test_joiners_stay_where_they_are_spelling(self) -> None:
        assert extract(html("<p>می\u200cخواهم</p>"), "text/html").text == "می\u200cخواهم"

    def test_facts_come_from_linked_data_and_meta(self) -> None:
        head = (
            "<title>Short | Site</title><link rel='canonical' href='/guide'>"
            '<script type=\'application/ld+json\'>{"@type":"Article","headline":"The long title",'
            '"datePublished":"2024-05-06T07:08:09+02:00","author":[{"name":"Ada"},{"name":"Bob"}]}</script>'
        )
        found = extract(html("<p>text</p>", head), "text/html", url="https://example.org/a/b")
        assert found.title == "The long title"
        assert found.author == "Ada, Bob"
        assert found.language == "en"
        assert found.published_at == datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)
        assert found.canonical_url == "https://example.org/guide"

    @pytest.mark.parametrize(
        ("meta", "language"),
        [
            ("name=language content=de", "de"),
            ("name=DC.language content=es-MX", "es"),
            ("property=og:locale content=pt_BR", "pt"),
            ("name=language content=English", None),
        ],
    )
    def test_the_language_is_read_from_meta_where_the_page_has_none(self, meta: str, language: str | None) -> None:
        page = f"<head><meta {meta}></head><body><p>text</p></body>"
        assert extract(page.encode(), "text/html").language == language
        assert extract(page.replace("<head>", "<html lang=fr><head>").encode(), "text/html").language == "fr"

    def test_linked_data_is_read_without_what_nobody_sees(self) -> None:
        data = '{"headline":"A\u200b title","datePublished":"2020-01-02\u200b"}'
        found = extract(html("<p>text</p>", f"<script type='application/ld+json'>{data}</script>"), "text/html")
        assert (found.title, found.published_at) == ("A title", datetime(2020, 1, 2, tzinfo=UTC))

    def test_facts_that_do_not_parse_are_left_out(self) -> None:
        head = "<meta name=date content='soon'><script type='application/ld+json'>{broken</script>"
        found = extract(html("<p>text</p>", head), "text/html")
        assert (found.published_at, found.author, found.canonical_url, found.title) == (None, None, None, None)

    def test_linked_words_lead_to_absolute_addresses_of_the_web(self) -> None:
        page = html(
            "<main><p>A text that is long enough to be the main content here.</p><p>Links: <a href='b#x'>one</a> "
            "<a href='mailto:a@b'>m</a> <a href='javascript:x()'>j</a> <a href='//other.example/'>two</a> "
            "<a href='http://[bad'>x</a></p></main>"
        )
        found = extract(page, "text/html", url="https://example.org/a/")
        assert [(found.text[words.start : words.end], words.url) for words in found.linked_words] == [
            ("one", "https://example.org/a/b"),
            ("two", "https://other.example/"),
        ]

    def test_addresses_of_links_are_no_part_of_the_text(self) -> None:
        page = html("<p>See <a href='https://example.org/long'>the guide</a>.</p>")
        assert extract(page, "text/html").text == "See the guide."

    def test_layout_tables_become_sections(self) -> None:
        """Old reference pages: a table per section, its title in a named cell, terms with anchors."""
        page = html(
            "<table class='heading'><tr><td class='title'>&nbsp;<br><strong class='title'>tool</strong> (1.0)</td></tr>"
            "</table><p>What it is.</p><table class='section'><tr><td class='section-title' colspan=3>"
            "<strong class='bigsection'>Functions</strong></td></tr><tr><td>&nbsp;</td><td>&nbsp;</td><td>"
            "<dl><dt><a name='-run'><strong>run</strong></a>(a, *, b=1)</dt><dd>Runs it.</dd></dl></td></tr></table>"
        )
        lines = [line for line in extract(page, "text/html").text.splitlines() if line]
        assert lines == ["# tool (1.0)", "What it is.", "## Functions", "### run(a, *, b=1)", "Runs it."]

    def test_the_title_of_a_note_is_no_heading_of_what_stands_behind_the_note(self) -> None:
        page = html(
            "<h1>tool</h1><div class='admonition note'><p class='admonition-title'>Note</p><p>Mind the gap.</p></div>"
            "<p>It runs.</p><dl><dt id='run'>run(a)</dt><dd>Runs it.</dd></dl>"
        )
        lines = [line for line in extract(page, "text/html").text.splitlines() if line]
        assert lines == ["# tool", "Note", "Mind the gap.", "It runs.", "## run(a)", "Runs it."]

    def test_a_data_table_without_header_stays_a_table(self) -> None:
        page = html("<table><tr><td>a</td><td>1</td></tr><tr><td>b</td><td>2</td></tr></table>")
        assert "| b | 2 |" in extract(page, "text/html").text

    def test_text_that_looks_like_markdown_is_not_taken_for_it(self) -> None:
        text = extract(html("<p># not a heading</p><p>``` no fence</p>"), "text/html").text
        assert text == "\\# not a heading\n\n\\``` no fence"

    def test_a_wrapper_named_after_a_side_column_stays(self) -> None:
        page = html("<div class='page has-sidebar'><p>The whole content of the page.</p></div>")
        assert extract(page, "text/html").text == "The whole content of the page."

    @pytest.mark.parametrize(
        "name",
        [
            "class='node node-promoted' id=node-7",
            "class='post-7 post type-post hentry category-social tag-newsletter'",
            "class='elementor-element elementor-widget elementor-widget-text-editor'",
            "class='widget Blog' id=Blog1",
        ],
    )
    def test_what_systems_call_their_content_is_content(self, name: str) -> None:
        body = f"<div {name}><p>{'Boats rise between the gates of a lock. ' * 3}</p></div>"
        around = "<ul class=archive>" + "<li><a href=/x>An earlier month of posts</a></li>" * 12 + "</ul>"
        assert "Boats rise" in extract(html(body + around), "text/html").text

    def test_most_of_the_words_of_a_page_are_no_surroundings(self) -> None:
        story = "<p>" + "Boats rise between the gates of a lock. " * 30 + "</p>"
        page = f"<div class=story><p>{'They wait below it. ' * 20}</p><div id=read-more>{story}</div></div>"
        menu = "<div>" + "<a href=/x>Somewhere else on this site</a> " * 60 + "</div>"
        assert "Boats rise" in extract(html(page + menu), "text/html").text

    @given(st.lists(SOUP, max_size=40).map("".join))
    def test_no_soup_of_tags_is_an_error(self, soup: str) -> None:
        found = extract(soup.encode(), "text/html", url="https://a.example/")
        assert "secret" not in found.text
        assert 0.0 <= found.confidence <= 1.0

    def test_an_empty_shell_is_known_by_its_confidence(self) -> None:
        shell = extract(html("<div id='root'></div><script src='app.js'></script>"), "text/html")
        article = extract(html("<article><p>" + "Words of an article. " * 40 + "</p></article>"), "text/html")
        assert shell.confidence < 0.1 < 0.8 < article.confidence

    @pytest.mark.parametrize(
        "body",
        [
            b"<div>" * 100_000 + b"deep",
            b"<table><tr><td>" * 20_000,
            b"<dl><dt id=a>x<dd>" * 20_000,
            b"<ul><li>" * 50_000,
            b"<a href=/a>" * 50_000,
            b"<" * 500_000,
            b"<p style='" + b"a:b;" * 500_000,
        ],
    )
    def test_hostile_nesting_neither_crashes_nor_hangs(self, body: bytes) -> None:
        started = time.thread_time()
        extract(body, "text/html", url="http://a.example/")
        assert time.thread_time() - started < 10


class TestEncodings:
    @pytest.mark.parametrize(
        ("body", "charset"),
        [
            ("\ufeffnaïve".encode(), None),
            ("naïve".encode("utf-16"), None),
            ("naïve".encode(), None),
            ("naïve".encode(), "iso-8859-1"),
            ("naïve".encode("latin-1"), "iso-8859-1"),
            ("naïve".encode("cp1252"), None),
            ("naïve".encode("latin-1"), "utf-8"),
            ("naïve".encode(), "no-such-charset"),
        ],
    )
    def test_the_charset_is_found(self, body: bytes, charset: str | None) -> None:
        assert extract(body, "text/plain", charset=charset).text == "naïve"

    def test_a_page_declares_its_own(self) -> None:
        body = "<html><head><meta charset='shift_jis'></head><body>日本語</body></html>".encode("shift_jis")
        assert extract(body, "text/html").text == "日本語"


class TestOtherMedia:
    def test_markdown_keeps_its_text_and_gives_its_title(self) -> None:
        found = extract(b"---\ntitle: Named\nauthor: Ada\n---\n# Other\n\ntext\n", "text/markdown")
        assert (found.title, found.author, found.form) == ("Named", "Ada", "markdown")
        assert extract(b"# Heading #\n\ntext", "text/markdown").title == "Heading"

    def test_a_feed_becomes_one_section_per_item(self) -> None:
        feed = (
            b"<rss><channel><title>News</title><item><title>One</title><link>https://a.example/1</link>"
            b"<pubDate>Mon, 06 May 2024 07:00:00 GMT</pubDate>"
            b"<description>&lt;p&gt;Some &lt;b&gt;text&lt;/b&gt;&lt;/p&gt;</description></item>"
            b"<item><title>Two</title><link>https://a.example/2</link></item></channel></rss>"
        )
        found = extract(feed, "application/rss+xml")
        assert found.text == "# News\n\n## One\n\n2024-05-06\n\nSome **text**\n\n## Two"
        linked = [(found.text[words.start : words.end], words.url) for words in found.linked_words]
        assert linked == [("One", "https://a.example/1"), ("Two", "https://a.example/2")]

    def test_a_feed_says_nothing_that_cannot_be_seen(self) -> None:
        feed = (
            "<rss><channel><title>Ne&#xE0041;ws\u202e</title><item><title>O\U000e0042n&#x200b;e</title>"
            "<link>https://a.example/1</link><description>te&#xE0043;xt</description></item></channel></rss>"
        )
        found = extract(feed.encode(), "application/rss+xml")
        assert found.title == "News"
        assert found.text == "# News\n\n## One\n\ntext"

    def test_a_link_and_a_title_say_nothing_that_cannot_be_seen(self) -> None:
        found = extract(
            html("<p>Go to <a href=/x>ne&#xE0041;xt\u202e</a> please.</p>", "<title>T&#x2066;op</title>"),
            "text/html",
            url="http://a.example/",
        )
        assert (found.title, found.markdown()) == ("Top", "Go to [next](http://a.example/x) please.")
        assert extract("# T\u202eop\U000e0041\n\ntext".encode(), "text/markdown").title == "Top"

    def test_external_entities_are_not_resolved(self) -> None:
        body = b'<!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/hostname">]><l>&a; x</l>'
        assert extract(body, "application/xml").text.split() == ["&a;", "x"]

    def test_json_on_one_line_is_laid_out(self) -> None:
        body = b'{"key": [' + b", ".join(b'"value %d"' % n for n in range(100)) + b"]}"
        found = extract(body, "application/json")
        assert found.text.count("\n") > 100
        assert extract(b"[" * 100_000, "application/json").text.startswith("[[")

    def test_source_code_is_unchanged(self) -> None:
        source = b"x = 1\r\n\r\n\tdef f(): pass\n"
        found = extract(source, "text/plain", url="https://raw.example/a/b.py")
        assert (found.text, found.code_language) == (source.decode(), "python")

    def test_a_snippet_is_text_whatever_its_url_is_called(self) -> None:
        for url in ("https://a.example/x.pdf", "https://a.example/x.html", "https://a.example/x.py"):
            assert extract_text("a <b> c", "text/plain", url=url).form == "text"
        assert extract_text("x = 1", "text/plain", path="x.py").code_language == "python"
        assert extract(b"not a pdf", "text/plain", url="https://a.example/x.pdf").text == "not a pdf"

    @pytest.mark.parametrize("kind", ["image/png", "application/zip", "video/mp4", "application/x-unheard-of"])
    def test_an_unknown_medium_is_refused_with_what_is_supported(self, kind: str) -> None:
        with pytest.raises(InvalidInput, match="supported: HTML") as refused:
            extract(b"\x01\x02", kind)
        assert refused.value.field == "media_type"

    def test_binary_sent_as_text_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="binary"):
            extract(b"\x00\x01\x02\x00\x00" * 20, "text/plain")

    def test_a_body_above_the_cap_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="split the document"):
            extract(b" " * (MAX_BODY_BYTES + 1), "text/plain")

    @pytest.mark.parametrize("kind", ["text/html", "text/plain", "text/markdown", "application/xml"])
    def test_nothing_gives_no_text(self, kind: str) -> None:
        assert extract(b" \n", kind).text.strip() == ""


class TestStructure:
    def test_links_are_written_out_where_they_are_shown_and_nowhere_else(self) -> None:
        page = html("<p>See <a href='/b(1)'>the <b>guide</b></a> and <a href='#x'>below</a>.</p>")
        found = extract(page, "text/html", url="https://a.example/")
        assert found.text == "See the **guide** and below."
        assert found.markdown() == "See [the **guide**](https://a.example/b%281%29) and below."

    def test_links_of_a_table_and_of_several_lines_stand_where_their_words_are(self) -> None:
        page = html(
            "<table><tr><th>k<th>v</tr><tr><td>a|b<td><a href=/x>one</a></tr><tr><td>c<td>d</table>"
            "<a href=/y><p>first</p><p>second</p></a>"
        )
        found = extract(page, "text/html", url="https://a.example/")
        assert [found.text[link.start : link.end] for link in found.linked_words] == ["one", "first", "second"]
        assert "| a\\|b | [one](https://a.example/x) |" in found.markdown()

    @pytest.mark.parametrize(
        ("block", "language"),
        [
            ("<pre><code class='language-rust'>x</code></pre>", "rust"),
            ("<pre class='lang-c++'><code>x</code></pre>", "c++"),
            ("<div class='highlight highlight-source-shell'><pre>x</pre></div>", "shell"),
            ("<div class='highlight-python3 notranslate'><div class='highlight'><pre>x</pre></div></div>", "python3"),
            ("<pre class='brush: js; gutter: false'>x</pre>", "js"),
            ("<pre><code class='hljs go'>x</code></pre>", "go"),
            ("<pre data-lang=toml>x</pre>", "toml"),
            ("<pre class='highlight'>x</pre>", ""),
            ("<pre class='language-none'>x</pre>", ""),
        ],
    )
    def test_code_keeps_its_language(self, block: str, language: str) -> None:
        assert extract(html(block), "text/html").text == f"```{language}\nx\n```"

    def test_code_keeps_every_space_and_no_line_numbers(self) -> None:
        page = html(
            "<table><tr><td class=linenos><pre>1\n2</pre></td><td class=code><pre><span>def</span> f():\n"
            "    <span>return</span> '```'</pre></td></tr></table>"
        )
        assert extract(page, "text/html").text == "````\ndef f():\n    return '```'\n````"

    @pytest.mark.parametrize("name", ["hljs-comment", "token comment", "hljs-meta share", "nv-menu-item menu"])
    def test_what_colours_code_says_nothing_of_the_page(self, name: str) -> None:
        code = f"<pre><code>a = 1\n<span class='{name}'># why</span>\nb = 2</code></pre>"
        text = extract(html(f"<main><h1>Title</h1><p>{'Words of the page. ' * 30}</p>{code}</main>"), "text/html").text
        assert "a = 1\n# why\nb = 2" in text

    @pytest.mark.parametrize("name", ["lineno", "line-number", "gutter"])
    def test_numbers_of_lines_within_code_are_left_out(self, name: str) -> None:
        code = f"<pre class=line-numbers><span class={name}>71</span>a = 1\n</pre>"
        text = extract(html(f"<main><h1>Title</h1>{code}</main>"), "text/html").text
        assert "a = 1" in text
        assert "71" not in text

    def test_lists_quotes_and_tables_nest(self) -> None:
        page = html(
            "<ol start=3><li>one<ul><li>deep<ul><li>deeper</ul></ul><li>two</ol>"
            "<table><tr><th>a<th rowspan=2>b<tr><td>c<tr><td colspan=2>d</table><blockquote><p>x</p><p>y</p></blockquote>"
        )
        assert extract(page, "text/html").text == (
            "3. one\n   - deep\n     - deeper\n4. two\n\n| a | b |\n| --- | --- |\n| c |  |\n| d |  |\n\n> x\n>\n> y"
        )

    def test_an_emphasis_ends_with_its_line_and_keeps_no_space(self) -> None:
        assert extract(html("<p><b> a<br> c </b>d</p>"), "text/html").text == "**a**\n**c** d"

    def test_licence_site_and_linked_data_are_kept(self) -> None:
        data = '{"@type":"Article","license":{"name":"Free"},"publisher":{"name":"The\\u200b Site"},"x":"a\\u202eb"}'
        found = extract(html("<p>text</p>", f"<script type='application/ld+json'>{data}</script>"), "text/html")
        assert (found.licence, found.site_name) == ("Free", "The Site")
        assert found.json_ld is not None
        assert json.loads(found.json_ld)[0]["x"] == "ab"
        anchor = "<p>text <a href='https://creativecommons.org/licenses/by/4.0/'>CC</a></p>"
        assert extract(html(anchor), "text/html").licence == "https://creativecommons.org/licenses/by/4.0/"
        assert extract(html("<a rel=license href=/l>l</a>"), "text/html", url="https://a.example/").licence == (
            "https://a.example/l"
        )

    def test_linked_data_beyond_its_room_is_left_out(self) -> None:
        large = '[{"a":"' + "x" * 70_000 + '"},{"b":1}]'
        page = html("<p>t</p>", f"<script type='application/ld+json'>{large}</script>")
        assert extract(page, "text/html").json_ld == '[{"b":1}]'


class TestContent:
    STORY = "".join(
        f"<p>The story goes on with sentence {number}, and it says quite a lot in it.</p>" for number in range(9)
    )

    def test_content_without_marks_is_found_among_lists_of_links(self) -> None:
        links = "".join(f"<a href=/{number}>Other page {number}</a> " for number in range(30))
        page = f"<div>{links}</div><div><div>{self.STORY}</div><div>{links}</div></div><div>{links}</div>"
        text = extract(html(page), "text/html").text
        assert text.count("The story") == 9
        assert "Other page" not in text

    def test_remarks_of_readers_go(self) -> None:
        remarks = (
            "<div class=comments>" + "<p>A remark that is as long as what it is about, and says so.</p>" * 12 + "</div>"
        )
        story = self.STORY * 3
        assert "A remark" not in extract(html(f"<div>{story}</div>{remarks}"), "text/html").text

    def test_links_at_the_end_of_a_section_of_text_go(self) -> None:
        links = "<ul><li><a href=/1>The first thing</a><li><a href=/2>The second thing</a></ul>"
        text = extract(html(f"<article>{self.STORY}<h2>Part</h2>{self.STORY}{links}</article>"), "text/html").text
        assert "## Part" in text
        assert "The first thing" not in text

    @pytest.mark.parametrize("heading", ["Related articles", "More from this author", "Recent posts"])
    def test_a_section_that_leads_away_from_an_article_goes(self, heading: str) -> None:
        links = "<ul><li><a href=/1>The first thing</a><li><a href=/2>The second thing</a></ul>"
        text = extract(html(f"<article>{self.STORY}<h2>{heading}</h2>{links}</article>"), "text/html").text
        assert heading not in text
        assert "The first thing" not in text

    def test_a_page_about_comments_keeps_its_title(self) -> None:
        page = f"<main><h1>Comments</h1><p>Any program needs them.</p><h2>Kinds</h2>{self.STORY}</main>"
        assert extract(html(page), "text/html").text.startswith("# Comments\n\nAny program needs them.")

    def test_a_page_of_links_keeps_them(self) -> None:
        page = "<ul>" + "".join(f"<li><a href=/{number}>Chapter {number}</a>" for number in range(20)) + "</ul>"
        assert extract(html(page), "text/html").text.count("Chapter") == 20

    def test_the_title_before_the_content_stands_above_its_headings(self) -> None:
        page = f"<div><h1>Title</h1></div><main><h2>Part</h2>{self.STORY}</main>"
        text = extract(html(page, "<title>Site</title>"), "text/html").text
        assert text.startswith("# Title\n\n## Part\n\nThe story")

    def test_the_title_is_not_repeated_in_the_text(self) -> None:
        page = f"<div><h1>Title</h1></div><main><h2>Part</h2>{self.STORY}</main>"
        found = extract(html(page, "<title>Title | Site</title>"), "text/html")
        assert found.title == "Title | Site"
        assert found.text.startswith("## Part")

    def test_a_page_of_more_entries_than_are_read_says_so_by_its_confidence(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = extract(html(self.STORY * 9), "text/html")
        monkeypatch.setattr(nodes, "MOST_NODES", 50)
        part = extract(html(self.STORY * 9), "text/html")
        assert 0 < len(part.text) < len(whole.text)
        assert part.confidence < 0.6 < whole.confidence

    def test_code_shows_nothing_that_cannot_be_seen(self) -> None:
        found = extract("x = 1  # \u202e\U000e0041ok\u200b\n".encode(), "text/x-python")
        assert found.text == "x = 1  # ok\u200b\n"


def test_a_page_without_a_body_element_is_read_all_the_same() -> None:
    page = "<title>Locks</title><main><h1>Locks</h1><p>A lock raises boats between stretches of water.</p></main>"
    found = extract(page.encode(), "text/html")
    assert found.text == "# Locks\n\nA lock raises boats between stretches of water."
    assert found.title == "Locks"


@pytest.mark.parametrize("page", ["<html aria-hidden=true><p>words", "<html hidden><main>words</main>", "<nav>a</nav>"])
def test_a_page_of_which_nothing_is_left_is_empty_and_no_error(page: str) -> None:
    assert (extract(page.encode(), "text/html").text, extract(page.encode(), "text/html").confidence) == ("", 0.0)


@pytest.mark.parametrize(
    ("media_type", "path"), [("text/plain", "docs/a.rst"), ("text/plain", "a.txt"), ("text/x-rst", None)]
)
def test_restructured_text_is_read_as_markdown(media_type: str, path: str | None) -> None:
    found = extract_text("Carts\n=====\n\n.. function:: pay(sum)\n\n   Pays `now <a.rst>`_.\n", media_type, path=path)
    assert (found.form, found.media_type, found.title) == ("markdown", "text/x-rst", "Carts")
    assert found.text.split("\n")[3] == "## `pay(sum)`"
    assert found.markdown().rstrip().endswith("Pays [now](a.rst).")
