from __future__ import annotations

import subprocess
import sys

import pytest

from sluice.text.grammar import grammar_of, has_grammar

LANGUAGES = ("python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp")


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_a_grammar_of_its_own_that_is_loaded_once(language: str) -> None:
    assert has_grammar(language)
    assert grammar_of(language) is grammar_of(language)
    assert all(grammar_of(language) != grammar_of(other) for other in LANGUAGES if other != language)


@pytest.mark.parametrize("language", [None, "", "cobol"])
def test_a_language_without_a_grammar_is_known_as_such(language: str | None) -> None:
    assert not has_grammar(language)


def test_importing_loads_no_grammar() -> None:
    code = "import sys, sluice.text.grammar; print([n for n in sys.modules if n.startswith('tree_sitter_')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
