"""A chunk's terms are those of the whole text's analysis, although each word is analysed once."""

from __future__ import annotations

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.index.terms import terms as module
from sluice.index.terms.analysis import ENGLISH, LANGUAGES, analyse, split_identifiers
from sluice.index.terms.terms import extract_chunk_terms, extract_terms

_SURROGATES = range(0xD800, 0xE000)
"""What is no character: no JSON can hold it."""
_PIECES = st.one_of(
    st.sampled_from(["parseHttp", "parse_http", "HTTP2", "__init__", "naïve", "Straße", "東京の", "Ⅷ", "½", "a" * 70]),
    st.sampled_from([" ", "\n", "_", "-", ".", "'", "’", "“", "\u00a0", "\u3000", "\u200b", "\x1c", "\x85", "\u0301"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)


@given(st.lists(_PIECES, max_size=30).map("".join), st.sampled_from([ENGLISH, *LANGUAGES]))
@example("“fooBar”—bazQux_2 The_end", ENGLISH)
def test_the_terms_of_a_text_are_those_of_its_analysis_as_a_whole(text: str, language: str) -> None:
    prose, code = extract_terms(text, language)
    assert (prose.split(), code.split()) == (analyse(text, language), list(split_identifiers(text)))


@pytest.mark.parametrize("language", [ENGLISH, *LANGUAGES])
def test_a_number_is_its_own_term_in_every_language(language: str) -> None:
    text = f"{' '.join(map(str, range(1_200)))} 00000012 1945 {'6' * 63} {'7' * 64} {'8' * 65}"
    assert extract_terms(text, language)[0].split() == analyse(text, language)


@pytest.mark.slow
def test_every_character_is_cut_or_kept_as_the_analyses_do() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1) if code not in _SURROGATES]
    for text in ("\n".join(characters), " ".join(f"a{one}bC" for one in characters)):
        terms = analyse(text)
        assert all(term == "".join(term.split()) for term in terms)
        prose, code = extract_terms(text)
        assert (prose.split(), code.split()) == (terms, list(split_identifiers(text)))


def test_words_are_kept_and_those_that_are_data_are_not() -> None:
    kept = module.analyse_word.cache_info
    assert extract_terms("parseHttp once parseHttp")[0].split() == analyse("parseHttp once parseHttp")
    before = kept().currsize
    assert extract_terms("once " + "x" * 65)[0].split() == analyse("once " + "x" * 65)
    assert (kept().currsize, kept().maxsize) == (before, module.MOST_WORDS)


def test_a_chunk_has_the_terms_of_its_title_headings_and_text_each_as_often_as_they_stand_there(make) -> None:
    chunk = make.document("d", "He walks fooBar").chunks[0]
    below = chunk.model_copy(update={"section_path": ("Walks", "Paths"), "symbol_path": "runFast"})
    assert {field: terms.split() for field, terms in extract_chunk_terms("Walking", None, below).items()} == {
        "text": ["walk", "walk", "path", "runfast", "he", "walk", "foobar"],
        "code": ["run", "fast", "runfast", "foo", "bar", "foobar"],
        "language": [],
    }
    assert extract_chunk_terms("He walks", None, chunk)["text"] == "he walk foobar"  # its title is its first line


def test_a_chunk_of_another_language_has_its_terms_and_names_it(make) -> None:
    terms = extract_chunk_terms("Häuser", "de-AT", make.document("d", "Die Häuser").chunks[0])
    assert terms == {"text": "de:haus de:die de:haus", "code": "", "language": "de"}
