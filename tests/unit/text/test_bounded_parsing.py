"""Sources are parsed within bounds."""

from __future__ import annotations

import pytest

from sluice.text.grammar import MOST_SOURCE_BYTES, parse

LANGUAGES = ("python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_source_has_a_tree_and_so_has_what_is_none(language: str) -> None:
    for source in (b"", b"x", b"\xff\xfe\x00", b"}{" * 1_000):
        assert parse(language, source) is not None


def test_a_text_with_ever_more_readings_is_given_up_and_the_parser_goes_on_with_the_next() -> None:
    assert parse("java", b"a<" * 20_000) is None
    tree = parse("java", b"class Cart {}")
    assert tree is not None
    assert not tree.root_node.has_error


def test_a_text_that_is_looked_through_to_its_end_again_and_again_is_given_up() -> None:
    assert parse("rust", b'r#"' * 20_000) is None


def test_of_a_long_source_the_beginning_is_read() -> None:
    tree = parse("python", b"x = 1\n" * MOST_SOURCE_BYTES)
    assert tree is not None
    assert tree.root_node.end_byte <= MOST_SOURCE_BYTES
