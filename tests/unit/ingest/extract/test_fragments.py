"""Headings keep the fragment by which the page addresses them."""

from __future__ import annotations

import pytest

from sluice.ingest.extract.extract import extract_text

WORDS = "Enough words of a paragraph for the page to be read as content by all who look at it."


def anchors_of(body: str) -> dict[str, str]:
    """The line of each anchored heading, and its fragment."""
    page = f"<html><body><main><article><p>{WORDS}</p>{body}</article></main></body></html>"
    found = extract_text(page, "text/html", url="https://example.org/guide")
    return {found.text[one.start :].partition("\n")[0]: one.fragment for one in found.anchors}


@pytest.mark.parametrize(
    "heading",
    [
        '<h2 id="install">Install</h2>',
        '<h2><a name="install"></a>Install</h2>',
        '<h2><span class="mw-headline" id="install">Install</span></h2>',
        '<section id="install"><h2>Install<a class="headerlink" href="#install">¶</a></h2></section>',
        '<a name="install"></a><h2>Install</h2>',
        '<section><span id="install"></span><h2>Install</h2></section>',
        '<div id="install"><div class="titlepage"><h2>Install</h2></div></div>',
        '<div><h2>Install</h2><a id="install" class="anchor" href="#install"></a></div>',
        '<h2 id="not usable"><a id="install">Install</a></h2>',
        '<h2 id="install">Install</h2><p>x</p><h2 id="install">Again</h2>',
    ],
    ids=[
        "own",
        "name within",
        "span within",
        "section",
        "name before",
        "target before",
        "box",
        "behind",
        "space",
        "twice",
    ],
)
def test_a_heading_is_addressed_in_any_of_the_ways_that_pages_have(heading: str) -> None:
    assert anchors_of(f"{heading}<p>{WORDS}</p>") == {"## Install": "install"}


@pytest.mark.parametrize(
    "heading",
    [
        "<h2>Install</h2>",
        f'<h2 id="{"x" * 101}">Install</h2>',
        '<h2 id="a&#x200b;b">Install</h2>',
        '<div id="box"><p>Words before it.</p><h2>Install</h2></div>',
        '<h2 id="empty"></h2><p>Install</p>',
    ],
    ids=["none", "long", "invisible", "not at its beginning", "empty"],
)
def test_what_no_usable_fragment_leads_to_has_none(heading: str) -> None:
    assert anchors_of(f"{heading}<p>{WORDS}</p>") == {}


def test_a_term_with_an_id_is_addressed_as_a_heading_is() -> None:
    listed = f'<dl><dt id="heappush">heappush(heap, item)</dt><dd>{WORDS}</dd><dt>plain</dt><dd>{WORDS}</dd></dl>'
    assert list(anchors_of(listed).values()) == ["heappush"]


def test_a_markdown_file_gets_no_invented_fragments() -> None:
    assert extract_text("# Install\n\nwords", "text/markdown", path="guide.md").anchors == ()
