"""Sections: the headings that a reader of Markdown would see, and no others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.ingest.chunk.prose import sections_of


def outline(text: str) -> list[tuple[str, ...]]:
    return [section.path for section in sections_of(text, "markdown")]


def test_paths_follow_the_levels() -> None:
    text = "# A\na\n## B\nb\n### C\nc\n## D\nd\n# E\ne"
    assert outline(text) == [("A",), ("A", "B"), ("A", "B", "C"), ("A", "D"), ("E",)]


def test_a_heading_inside_a_fence_is_code() -> None:
    assert outline("# A\n```sh\n# comment\n~~~\n```\nx\n~~~~\n# no\n~~~\n# no\n~~~~\n## B\ny") == [("A",), ("A", "B")]


def test_underlined_headings_count_and_rules_do_not() -> None:
    assert outline("Title\n=====\n\ntext\n\nSub\n---\ntext\n\n---\n\n- item\n---\n") == [("Title",), ("Title", "Sub")]


def test_headings_with_nothing_between_them_open_one_section() -> None:
    sections = sections_of("# A\n\n## B\n\nbody\n", "markdown")
    assert [(section.start, section.path) for section in sections] == [(0, ("A", "B"))]


def test_marks_of_emphasis_code_and_links_are_no_part_of_a_title() -> None:
    assert outline("## **Bold** `code` [link](http://x) __init__(a, *, b) ##\nx") == [
        ("Bold code link __init__(a, *, b)",)
    ]


def test_every_page_is_a_section() -> None:
    sections = sections_of("one\n\f\ntwo", "pages")
    assert [section.path for section in sections] == [("Page 1",), ("Page 2",)]


@given(st.lists(st.sampled_from(["# A", "## B", "text", "", "```", "---", "===", "- x", "~~~", "    # c"])))
def test_sections_cover_the_text_without_gap_or_overlap(lines: list[str]) -> None:
    text = "\n".join(lines)
    sections = sections_of(text, "markdown")
    assert "".join(text[section.start : section.end] for section in sections) == text
    assert all(section.start <= section.body <= section.end for section in sections)
