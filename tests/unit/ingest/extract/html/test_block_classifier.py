"""Where a page does not mark its content, its blocks are judged by their length, their links and their neighbours."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingest.extract.html.block_classifier import second_opinion
from ingest.extract.html.extract_html import extract_html
from ingest.extract.html.nodes import read_nodes
from ingest.extract.html.visual_outline import outline_of

STORY = "The harbour was built in three years by people of whom nobody had seen the sea before they came. "
PARAGRAPH = f"<p>{STORY * 2}</p>"
TEASER = "<div><h3><a href=/1>A headline that leads to another page</a></h3><div>So it begins.</div></div>"


def text_of(body: str) -> str:
    return extract_html(f"<html><body>{body}</body></html>", "https://a.example/").text


def left_of(body: str) -> str:
    """The words that the second opinion leaves of everything in a page."""
    nodes = read_nodes(f"<html><body>{body}</body></html>")
    kept = second_opinion(nodes, range(len(nodes)), range(len(nodes)), ())
    return " ".join("".join(nodes.texts[node] for node in kept).split())


class TestWhatItLeavesOut:
    def test_teasers_beside_a_story_that_is_not_marked(self) -> None:
        text = text_of(f"<div><div>{PARAGRAPH * 3}</div><div>{TEASER * 4}</div></div>")
        assert text.count("The harbour was built") == 6
        assert "So it begins" not in text

    def test_a_line_of_text_between_two_that_lead_elsewhere(self) -> None:
        card = "<p><a href=/1>A card</a></p><p>It says in one line and a half what there is to be read on the other page.</p>"
        left = left_of(f"<div><div>{PARAGRAPH * 3}</div><div>{card * 4}<p><a href=/9>All cards</a></p></div></div>")
        assert "The harbour was built" in left
        assert "one line and a half" not in left

    def test_what_stands_between_the_posts_of_a_forum(self) -> None:
        post = f"<div><div><a href=/u/1>Ada</a> <a href=/m>Message</a></div><div>Member: 1999</div></div>{PARAGRAPH}"
        text = text_of(f"<div>{post * 5}</div>")
        assert text.count("The harbour was built") == 10
        assert "Member" not in text

    def test_a_heading_goes_with_what_stood_under_it(self) -> None:
        menu = "<h2>Elsewhere</h2><div><a href=/1>One place</a> <a href=/2>Another place</a></div>"
        left = left_of(f"<div><h2>Story</h2><div>{PARAGRAPH}</div>{menu}</div>")
        assert "Story" in left
        assert "Elsewhere" not in left


class TestWhatItKeeps:
    MENU = "<div><a href=/1>One</a> <a href=/2>Two</a></div>"

    def test_what_a_page_marks_is_not_judged_again(self) -> None:
        marked = extract_html(f"<body><article>{PARAGRAPH * 3}<div>{TEASER * 4}</div></article></body>", None)
        unmarked = extract_html(f"<body><div>{PARAGRAPH * 3}<div>{TEASER * 4}</div></div></body>", None)
        assert "So it begins" in marked.text
        assert "So it begins" not in unmarked.text
        assert unmarked.confidence < 0.75 < marked.confidence

    def test_a_short_paragraph_among_long_ones(self) -> None:
        assert "It rained." in left_of(f"{self.MENU}<div>{PARAGRAPH}<p>It rained.</p>{PARAGRAPH}</div>{self.MENU}")

    def test_a_short_paragraph_at_the_end_of_a_text(self) -> None:
        assert "The end." in left_of(f"{self.MENU}<div>{PARAGRAPH * 2}<p>The end.</p></div>{self.MENU}")

    def test_a_table_and_a_list_in_one_piece(self) -> None:
        table = "<table><tr><td>Width</td><td>2 m</td></tr><tr><td>See</td><td><a href=/x>more</a></td></tr></table>"
        items = "<ul><li>a plain item of this list<li><a href=/y>linked</a><li>a third item, which is plain</ul>"
        left = left_of(f"<div>{self.MENU}{PARAGRAPH}{table}{PARAGRAPH}{items}{PARAGRAPH}</div>")
        for cell in ("Width", "2 m", "more", "linked", "a third item"):
            assert cell in left

    def test_all_of_a_page_with_code(self) -> None:
        entry = "<p><a href=/f>open</a>, <a href=/g>close</a></p><p>Two calls.</p>"
        assert "Two calls." not in left_of(f"{self.MENU}<div>{PARAGRAPH}</div>{entry}{self.MENU}<div>{PARAGRAPH}</div>")
        assert "Two calls." in left_of(f"{self.MENU}<div>{PARAGRAPH}</div>{entry}{self.MENU}<pre>open(1)</pre>")

    def test_the_title_above_a_part_that_has_no_text_of_its_own(self) -> None:
        left = left_of(f"{self.MENU}<div><h1>Title</h1><div><h2>Part</h2>{PARAGRAPH}</div></div>")
        assert left.endswith(f"TitlePart{STORY * 2}".strip())

    def test_all_of_a_page_on_which_nothing_leads_elsewhere(self) -> None:
        assert "Short." in left_of(f"{PARAGRAPH}<p>Short.</p>")

    def test_all_of_a_page_that_it_does_not_understand(self) -> None:
        index = "".join(f"<div><a href=/{number}>Page {number}</a></div>" for number in range(20))
        assert left_of(f"{index}<p>A list of pages.</p>").startswith("Page 0Page 1")


PIECES = st.sampled_from(
    [
        *("<div>", "</div>", "<p>", "<ul>", "<li>", "</ul>", "<table>", "<tr><td>", "</table>", "<pre>", "</pre>"),
        *("<h1>", "</h1>", "<h3>", "</h3>", "<a href=/x>", "</a>", "<b>", "</b>", "<br>", "<dl><dt>", "<dd>", "</dl>"),
        *("word ", STORY, STORY * 2),
    ]
)


@given(st.lists(PIECES, max_size=50).map("".join))
def test_what_is_left_is_in_order_and_stands_in_what_it_stood_in(soup: str) -> None:
    nodes = read_nodes(f"<body>{soup}")
    everything = list(range(len(nodes)))
    outline = outline_of(nodes, everything, [1] * len(nodes))
    left = second_opinion(nodes, everything, everything, outline.layout)
    assert left == sorted(set(left))
    assert {nodes.parents[node] for node in left} <= {-1, *left}
