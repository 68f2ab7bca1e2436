from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from graph.extract.grammar import grammar_of, has_grammar, parser_for

LANGUAGES = ("python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp")


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_a_parser_that_takes_any_text(language: str) -> None:
    assert has_grammar(language)
    for text in (b"", b"x", b"\xff\xfe{{{((("):
        assert parser_for(language).parse(text).root_node.end_byte <= len(text)


def test_a_thread_keeps_its_parser_and_shares_it_with_no_other() -> None:
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(parser_for, "python").result()

    assert parser_for("python") is parser_for("python")
    assert parser_for("python") is not other
    assert grammar_of("python") is grammar_of("python")


@pytest.mark.parametrize("language", [None, "", "cobol"])
def test_a_language_without_a_grammar_is_known_as_such(language: str | None) -> None:
    assert not has_grammar(language)


def test_importing_loads_no_grammar() -> None:
    code = "import sys, graph.extract.grammar; print([n for n in sys.modules if n.startswith('tree_sitter_')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
