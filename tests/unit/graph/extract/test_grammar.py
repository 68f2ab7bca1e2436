"""Sources are parsed within bounds."""

from __future__ import annotations

import pytest

from graph.extract.grammar import has_grammar, parse

LANGUAGES = ("python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_source_has_a_tree_and_so_has_what_is_none(language: str) -> None:
    assert has_grammar(language)
    for source in (b"", b"x", b"\xff\xfe\x00", b"}{" * 1_000):
        assert parse(language, source) is not None


def test_a_text_with_ever_more_readings_is_given_up_and_the_parser_goes_on_with_the_next() -> None:
    assert parse("java", b"a<" * 20_000) is None
    tree = parse("java", b"class Cart {}")
    assert tree is not None
    assert not tree.root_node.has_error
