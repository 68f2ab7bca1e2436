"""What of a page is content: the library chooses among what a reader sees, and what it chooses keeps its structure."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sluice.ingest.extract.extract import extract
from sluice.ingest.extract.html import main_content

STORY = "".join(f"<p>Sentence {number} of the story says, at some length, what came next.</p>" for number in range(9))
MENU = "<nav>" + "".join(f"<a href=/{number}>Other page {number}</a> " for number in range(30)) + "</nav>"


def text_of(body: str) -> str:
    return extract(f"<html><head><title>T</title></head><body>{body}</body></html>".encode(), "text/html").text


def test_headings_lists_tables_and_code_between_paragraphs_of_a_story_stay() -> None:
    between = (
        "<h2>Part</h2><ul><li>one<li>two</ul><pre>a = 1\n  b</pre>"
        "<table><tr><th>k<th>v<tr><td>x<td>y<tr><td>z<td></table>"
    )
    text = text_of(f"{MENU}<div>{STORY}{between}{STORY}</div>")
    for part in ("## Part", "- one\n- two", "```\na = 1\n  b\n```", "| k | v |", "| x | y |", "| z |  |"):
        assert part in text
    assert "Other page" not in text


def test_text_that_stands_loose_between_blocks_is_content() -> None:
    assert "Loose words, *a whole line* of them" in text_of(
        f"<article>{STORY}Loose words, <i>a whole line</i> of them.{STORY}</article>"
    )


def test_code_in_a_figure_is_content() -> None:
    assert "```\ncode()\n```" in text_of(f"<article>{STORY}<figure><pre>code()</pre></figure>{STORY}</article>")


def test_words_in_elements_of_their_own_keep_the_spaces_between_them() -> None:
    line = "<p><em>class</em><span class=w> </span><code>Name</code><b> </b>of the story, at some length.</p>"
    assert "*class* `Name` of the story" in text_of(f"<article>{STORY}{line}{STORY}</article>")


def test_a_page_that_is_too_large_for_the_library_is_read_without_what_it_declares_to_be_surroundings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main_content, "MOST_ELEMENTS", 5)
    text = text_of(f"{MENU}<main><h1>Title</h1>{STORY}</main><footer>imprint</footer>")
    assert text.startswith("# Title\n\nSentence 0 of the story")
    assert "Other page" not in text
    assert "imprint" not in text


LONG = " More words on what it does and why it is there for those who read them." * 4
MIXED = [("", ""), ("<p>", "</p>"), ("", ""), ("<p>", "</p>"), ("", "")]


def test_no_term_and_no_definition_is_lost_where_some_definitions_have_paragraphs() -> None:
    users = "".join(
        f"<dt>user{number}</dt><dd>{begin}Runs the service of number {number}.{LONG if begin else ''}{end}</dd>"
        for number, (begin, end) in enumerate(MIXED)
    )
    text = text_of(f"<h1>Users</h1><dl>{users}</dl>")
    for number in range(5):
        assert f"**user{number}**" in text
        assert f"service of number {number}." in text


def test_no_item_is_lost_where_some_items_have_paragraphs() -> None:
    items = "".join(
        f"<li>{begin}Rule {number} of the house.{LONG if begin else ''}{end}</li>"
        for number, (begin, end) in enumerate(MIXED)
    )
    text = text_of(f"<h1>Rules</h1><ul>{items}</ul>")
    assert [f"- Rule {number} of the house." in text for number in range(5)] == [True] * 5


def test_a_page_on_which_the_library_fails_is_read_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def bare_extraction(self, *_: object, **__: object) -> None:
            raise RecursionError

    monkeypatch.setattr(main_content, "_library", Failing)
    assert text_of(f"{MENU}<div>{STORY}</div>").startswith("Sentence 0 of the story")


def test_a_page_cannot_name_entries_by_writing_marks_itself() -> None:
    marks = "".join(chr(0x12000 + number) * 2 for number in range(40))
    text = text_of(f"<div hidden>SECRET</div><article>{STORY}<p>{marks} and words.</p></article>")
    assert "SECRET" not in text
    assert f"{marks} and words." in text


def test_the_library_is_imported_by_the_first_page_and_not_before() -> None:
    script = (
        "import sys; from sluice.ingest.extract.extract import extract\n"
        "before = 'trafilatura' in sys.modules\n"
        "extract(b'# text', 'text/markdown'); extract(b'<rss><item><title>x</title></item></rss>', 'text/xml')\n"
        "still = 'trafilatura' in sys.modules\n"
        "extract(b'<p>text</p>', 'text/html'); print(before, still, 'trafilatura' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False", "True"]


LEDE = "An opening that says in one long sentence what the story is about and why it matters to those who read it."


@pytest.mark.parametrize(
    "box",
    [
        "<header><h1>Title</h1><div class=teaser-text><p>@</p></div></header>",
        "<h1>Title</h1><div class='article-intro teaser'>@</div>",
    ],
)
def test_the_opening_between_title_and_text_is_content_but_no_caption(box: str) -> None:
    text = text_of(
        f"{MENU}<main>{box.replace('@', LEDE)}<figure><figcaption>{LEDE} Photo</figcaption></figure>"
        f"<div class=article-body><p>{LONG}</p>{STORY}</div></main>"
    )
    assert LEDE in text
    assert "Photo" not in text


def test_an_element_left_open_for_browsers_without_scripts_ends_with_its_noscript() -> None:
    text = text_of(f"<noscript><div class=nojs>Switch it on</noscript><main>{STORY}</main>")
    assert "Sentence 8 of the story" in text
    assert "Switch it on" not in text


def test_a_page_of_which_nothing_shows_without_scripts_is_read_as_a_browser_without_them_shows_it() -> None:
    style = "<style>.loading{visibility:hidden}</style><noscript><style>.loading{visibility:visible}</style></noscript>"
    body = f"<div class=loading><h2>Menu</h2><script type=text/template>{STORY}</script><noscript>{STORY}</noscript>"
    read = [
        extract(f"<html><head>{style}</head><body>{page}".encode(), "text/html")
        for page in (body, body.replace("noscript", "div").replace("loading", ""))
    ]
    assert "Sentence 8 of the story" in read[0].text
    assert read[0].confidence < read[1].confidence


def test_what_stands_in_noscript_is_not_read_where_anything_else_shows() -> None:
    assert text_of(f"<p>seen</p><noscript></noembed>{STORY}</noscript>") == "seen"


def test_a_box_that_is_moved_a_little_sideways_covers_nothing() -> None:
    footer = "<div style='position:relative;left:-1.2em;background:#f5f5f5'>Posted by Ned</div>"
    assert "Sentence 8 of the story" in text_of(f"<div><div>{STORY}</div>{footer}</div>")
