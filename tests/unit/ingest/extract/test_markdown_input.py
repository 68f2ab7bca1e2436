"""Markdown as it is handed in: what front matter is, and what is not."""

from __future__ import annotations

from sluice.ingest.extract.markdown_input import without_hidden_html


def test_text_between_two_rules_is_no_front_matter() -> None:
    assert without_hidden_html("---\nalpha\n---") == "---\nalpha\n---"


def test_facts_that_no_reader_sees_are_left_out() -> None:
    assert "secret" not in without_hidden_html("---\nprompt: secret\n---\nText.")
