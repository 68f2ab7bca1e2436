"""What a page hides from its readers' eyes is not read either; what only looks hidden is."""

from __future__ import annotations

import time

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract.css import selectors
from sluice.ingest.extract.extract import extract

WORDS = "Words of the page that a reader can see. " * 8


def text_of(style: str, body: str, head: str = "") -> str:
    page = f"<html><head><title>T</title>{head}<style>{style}</style></head><body><p>{WORDS}</p>{body}</body></html>"
    return extract(page.encode(), "text/html", url="https://a.example/").text


@pytest.mark.parametrize(
    ("style", "body"),
    [
        (".h{display:none}", "<div class=h>SECRET</div>"),
        (".h{display:none}", "<div class='a h b'><p><b>SECRET</b></p></div>"),
        ("#h{visibility:hidden}", "<p id=h>SECRET</p>"),
        (
            "aside.x>p.y{display:none}",
            "<section><aside class=x></aside></section><div><p class=y hidden>SECRET</p></div>",
        ),
        ("div.x > p{opacity:.01}", "<div class=x><p>SECRET</p></div>"),
        ("h2 + p{display:none}", "<h2>Head</h2><p>SECRET</p>"),
        ("h2 ~ p{display:none}", "<h2>Head</h2><div>and</div><p>SECRET</p>"),
        ("[data-x]{display:none}", "<p data-x>SECRET</p>"),
        ("p[data-x^='ab']{display:none}", "<p data-x=abc>SECRET</p>"),
        ("*.h{font-size:0}", "<p class=h>SECRET</p>"),
        (".h{font-size:1px}", "<div class=h><p>SECRET</p></div>"),
        (".h{position:absolute;left:-9999px}", "<p class=h>SECRET</p>"),
        (".h{text-indent:-9999px}", "<p class=h>SECRET</p>"),
        (".h{clip-path:circle(0)}", "<p class=h>SECRET</p>"),
        (".h{-webkit-text-fill-color:transparent}", "<p class=h>SECRET</p>"),
        (".h{color:#fff}", "<p class=h>SECRET</p>"),
        (".h{color:white;background:#fefefe}", "<p class=h>SECRET</p>"),
        ("body{background:#222;color:#eee}.h{color:rgb(34 34 34)}", "<p class=h>SECRET</p>"),
        ("body{background:navy}.h{color:navy}", "<div><p class=h>SECRET</p></div>"),
        (".a{background:#eee}.h{color:hsl(0 0% 93%)}", "<div class=a><div><p class=h>SECRET</p></div></div>"),
        (".\\68{display:none}.h{d\\69splay:none}", "<p class=h>SECRET</p>"),
        ("/* } */ .h/**/{display:/**/none}", "<p class=h>SECRET</p>"),
        (".a:before{content:'/*'} .h{display:none} .b:after{content:'*/'}", "<p class=h>SECRET</p>"),
        (".a{content:'}'} .h{display:none}", "<p class=h>SECRET</p>"),
        ("@charset 'utf-8'; .h{display:none}", "<p class=h>SECRET</p>"),
        ("@media screen{.h{display:none}}", "<p class=h>SECRET</p>"),
        ("@media (min-width:600px){.h{display:none}}", "<p class=h>SECRET</p>"),
        ("@media screen and (max-width:1400px){.h{display:none}}", "<p class=h>SECRET</p>"),
        ("@supports (display:grid){.h{display:none}}", "<p class=h>SECRET</p>"),
        (".o{.h{display:none}}", "<div class=o><p class=h>SECRET</p></div>"),
        (".x,.h,.y{display:none}", "<p class=h>SECRET</p>"),
        (".x:hover,.h{display:none}", "<p class=h>SECRET</p>"),
        (".h{display:block}.h{display:none}", "<p class=h>SECRET</p>"),
        ("#i{display:none}p{display:block}", "<p id=i>SECRET</p>"),
        (".h{display:none!important}", "<p class=h style='display:block'>SECRET</p>"),
        (".h{display:none", "<p class=h>SECRET</p>"),
        ("", "<p style='color:white'>SECRET</p>"),
        ("", "<div style='background:#000'><p style='color:#010101'>SECRET</p></div>"),
        ("", "<div style='color:transparent'><p>SECRET</p></div>"),
        (".h{clip-path:polygon(0 0, 0px 0)}", "<p class=h>SECRET</p>"),
        (".h{transform:rotateY(90deg)}", "<p class=h>SECRET</p>"),
        (".h{transform:scale(.001)}", "<p class=h>SECRET</p>"),
        (".h{letter-spacing:-99px}", "<p class=h>SECRET</p>"),
        (".h{font-size:calc(0px)}", "<p class=h>SECRET</p>"),
        (".h{text-indent:100%;white-space:nowrap}", "<p class=h>SECRET</p>"),
        ("", "<font color=white>SECRET</font>"),
        ("", "<table bgcolor=black><tr><td><font color=#000>SECRET</font></td><td>a</td></tr></table>"),
        ("", "<span class='a sr-only'>SECRET</span>"),
        ("", "<p style='display:block;display:none'>SECRET</p>"),
        ("", "<math><mi>x</mi><annotation>SECRET</annotation></math>"),
        ("", "<p>x<!-- SECRET --></p>"),
        ("", "<img src=a alt=SECRET title=SECRET><abbr title=SECRET>a</abbr>"),
    ],
)
def test_what_the_styles_of_a_page_hide_is_not_read(style: str, body: str) -> None:
    found = text_of(style, body)
    assert "SECRET" not in found
    assert found.startswith("Words of the page")


@pytest.mark.parametrize(
    ("style", "body"),
    [
        (".h{display:block}", "<p class=h>SHOWN</p>"),
        (".h{display:none}", "<p class=hh>SHOWN</p>"),
        (".h.i{display:none}", "<p class=h>SHOWN</p>"),
        (".a .h{display:none}", "<div class=b><p class=h>SHOWN</p></div>"),
        (".a>.h{display:none}", "<div class=a><div><p class=h>SHOWN</p></div></div>"),
        ("h2+p{display:none}", "<h3>x</h3><p>SHOWN</p>"),
        (".h{display:none}.h{display:block}", "<p class=h>SHOWN</p>"),
        (".m{display:none}.m.open{display:block}", "<div class='m open'><p>SHOWN</p></div>"),
        ("p{display:none}.h{display:block}", "<p class=h>SHOWN</p>"),
        (".h{display:none}", "<p class=h style='display:block'>SHOWN</p>"),
        ("@media print{.h{display:none}}", "<p class=h>SHOWN</p>"),
        ("@media (max-width:600px){.h{display:none}}", "<p class=h>SHOWN</p>"),
        ("@keyframes k{from{opacity:0}to{opacity:1}}", "<p class=h>SHOWN</p>"),
        (".h:hover{display:none}", "<p class=h>SHOWN</p>"),
        (".h::before{display:none}", "<p class=h>SHOWN</p>"),
        ("html{visibility:hidden;opacity:0}", "<p>SHOWN</p>"),
        (".z{font-size:0}.z p{font-size:16px}", "<div class=z><p>SHOWN</p></div>"),
        (".z{visibility:hidden}.z p{visibility:visible}", "<div class=z><p>SHOWN</p></div>"),
        (".h{color:#fff;background:#06c}", "<p class=h>SHOWN</p>"),
        (".h{background:#06c}.h p{color:#fff}", "<div class=h><p>SHOWN</p></div>"),
        (".h{background:#333 url(a.png);color:#fff}", "<p class=h>SHOWN</p>"),
        (".h{background:linear-gradient(red,blue);color:#fff}", "<p class=h>SHOWN</p>"),
        (".h{color:var(--ink);background:#fff}", "<p class=h>SHOWN</p>"),
        ("body{background:#111;color:#eee}", "<p>SHOWN</p>"),
        (".h{color:#777}", "<p class=h>SHOWN</p>"),
        ("", "<details><summary>More</summary>SHOWN</details>"),
        ("", "<table bgcolor=black><tr><td><font color=white>SHOWN</font></td><td>a</td></tr></table>"),
        (".h{transform:scale(1);letter-spacing:-1px;zoom:1.2}", "<p class=h>SHOWN</p>"),
        ("", "<p style='font-size:0'><span style='font-size:14px'>SHOWN</span></p>"),
        ("", "<p style='color:#333;background:#fff'>SHOWN</p>"),
    ],
)
def test_what_only_looks_hidden_is_read(style: str, body: str) -> None:
    assert "SHOWN" in text_of(style, body)


def test_white_text_is_read_only_where_the_page_says_on_what_it_stands() -> None:
    sheet = "<link rel=stylesheet href=/s.css>"
    assert "SHOWN" in text_of(".h{color:#fff;background:#06c}", "<p class=h>SHOWN</p>", head=sheet)
    assert "SHOWN" not in text_of(".h{color:#fff}", "<p class=h>SHOWN</p>", head=sheet)


def test_hidden_words_are_in_no_link_and_no_title() -> None:
    page = (
        "<style>.h{display:none}</style><h1>Seen<span class=h> SECRET</span></h1>"
        f"<p>{WORDS}<a href=/x>go<span hidden>SECRET</span></a></p>"
    )
    found = extract(page.encode(), "text/html", url="https://a.example/")
    assert (found.title, "[go](https://a.example/x)" in found.markdown()) == ("Seen", True)


def test_hidden_blocks_of_markdown_are_not_read() -> None:
    source = "# Guide\n\ntext <!-- SECRET --> more\n\n<div hidden>\nSECRET\n</div>\n\n```html\n<!-- kept -->\n```\n"
    found = extract(source.encode(), "text/markdown").text
    assert "SECRET" not in found
    assert "<!-- kept -->" in found
    assert found.startswith("# Guide\n\ntext ")


def test_what_links_and_images_of_markdown_carry_unseen_is_not_read() -> None:
    source = (
        '---\ntitle: Guide\nnote: SECRET\n---\n\n[//]: # (SECRET)\n\n[open](https://a.example/ "SECRET") and ![SECRET](v.png)\n\n'
        "[v]: https://a.example/v 'SECRET'\n\n```md\n[kept](x \"title\") ![kept too](y)\n```\n"
    )
    found = extract(source.encode(), "text/markdown")
    assert "SECRET" not in found.text
    assert found.title == "Guide"
    assert "\nopen and \n" in found.text
    assert "[open](https://a.example/) and" in found.markdown()
    assert '[kept](x "title") ![kept too](y)' in found.text
    assert found.text.count("\n") == source.count("\n")


def test_what_a_budget_of_comparisons_leaves_unsettled_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "<style>b b b b b .c{display:none}</style>" + "<b>" * 4 + "<div class=c>" * 500 + "text"
    assert "text" in extract(page.encode(), "text/html").text
    monkeypatch.setattr(selectors, "MOST_STEPS", 1_000)
    assert "text" not in extract(page.encode(), "text/html").text
    harmless = page.replace("display:none", "cursor:default")
    assert "text" in extract(harmless.encode(), "text/html").text


def test_sheets_made_to_hang_us_do_not() -> None:
    tree = "<div class=a><p><i>x</i></p></div>" * 2_000
    for sheet in (
        "".join(f".a:has(.b{n}) i{{display:none}}" for n in range(300)),
        "".join(f"div:nth-child({n}n+1) p:nth-last-of-type(2n) i{{opacity:0}}" for n in range(1, 500)),
        ":is(" * 5_000,
        "a{" * 50_000,
        "x:not(" * 50_000,
        ".c{width:calc(" + "(" * 20_000,
        ".c{width:" + "1" * 100_000,
        "i{position:absolute;background:red}",
        "".join(f".a:has(.b{n}) i{{display:none}}" for n in range(3_000)),
    ):
        started = time.thread_time()
        extract(f"<style>{sheet}</style>{tree}".encode(), "text/html")
        assert time.thread_time() - started < 10


def test_a_page_of_endless_rules_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="style sheets"):
        extract(f"<style>{'a{color:red}' * 200_000}</style><p>text".encode(), "text/html")
    page = "<style>" + ".c{display:none}" * 20_000 + "</style><p class=c>SECRET</p><p>text</p>"
    assert extract(page.encode(), "text/html").text == "text"


@pytest.mark.parametrize(
    "selector", ["p#", "##", "#", ".", "p##a", "p.", "> #", "a#b#", "*", "p >", "#.x", "p:nth-child(+)"]
)
def test_a_selector_that_is_none_hides_nothing_and_harms_nothing(selector: str) -> None:
    page = f"<style>{selector}{{color:#fff;font-size:0}} .gone{{display:none}}</style><div class=gone>SECRET</div>"
    found = extract(f"{page}<i id=a>{WORDS}</i>".encode(), "text/html").text
    assert (WORDS.strip() in found, "SECRET" in found) == (selector[0] != "*", False)
