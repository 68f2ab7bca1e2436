"""Near-duplicates are recognised, and texts that only resemble each other are not taken for one."""

from __future__ import annotations

import random

import pytest

from sluice.index.search.candidates import MOST_SIGNATURES, DistinctTexts, compute_signature, split_shingles

WORDS = [f"{first}{last}" for first in "bcdfghjklmnprstvwz" for last in ("ale", "orin", "ust", "emma", "ipod", "antle")]


def _text(seed: int, words: int = 100) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def _twin(first: str, second: str, threshold: float = 0.9) -> bool:
    distinct = DistinctTexts(threshold)
    distinct.keep(first)
    return distinct.find_duplicate(second) == 0


def test_equal_texts_are_one_however_short() -> None:
    assert _twin("yes", "yes")
    assert _twin(_text(1), _text(1))


def test_a_copy_with_another_case_or_other_line_ends_is_one() -> None:
    text = _text(1)
    assert _twin(text, text.upper()[:1] + text[1:])
    lines = "\n".join(" ".join(text.split()[i : i + 9]) for i in range(0, 100, 9))
    assert _twin(text, lines)


def test_a_reprint_with_one_word_changed_or_a_footer_is_one() -> None:
    words = _text(2).split()
    assert _twin(" ".join(words), " ".join([*words[:50], "other", *words[51:]]))
    assert _twin(" ".join(words), " ".join([*words, "printed", "in", "may"]))


def test_a_text_that_shares_its_half_is_another() -> None:
    words = _text(3).split()
    assert not _twin(" ".join(words), " ".join([*words[:50], *_text(4, 50).split()]))


def test_short_texts_that_differ_in_a_number_are_two() -> None:
    assert not _twin("version 1 of the protocol", "version 2 of the protocol")


def test_a_threshold_of_nothing_takes_even_equal_texts_for_two_and_one_of_one_wants_equal_words() -> None:
    words = _text(5).split()
    assert not _twin("same", "same", threshold=0.0)
    assert _twin(" ".join(words), "\n".join(words), threshold=1.0)
    assert _twin(" ".join(words), " ".join(words) + "  ", threshold=1.0)
    assert not _twin(" ".join(words), " ".join([*words, "more"]), threshold=1.0)


def test_the_twin_is_the_position_of_the_kept_text() -> None:
    distinct = DistinctTexts(0.9)
    for seed in range(8):
        assert distinct.find_duplicate(_text(seed)) is None
        distinct.keep(_text(seed))
    assert distinct.find_duplicate(_text(5) + " again") == 5


def _rewritten(words: list[str], changes: int, random_: random.Random) -> list[str]:
    changed = list(words)
    for position in random_.sample(range(len(words)), changes):
        changed[position] = f"new{position}"
    return changed


def test_of_true_near_duplicates_nearly_all_are_found_and_of_others_nearly_none() -> None:
    """One changed word in 100 is a Jaccard index of 0.94, four are 0.78 (apart, as they share no shingle)."""
    found = dict.fromkeys((1, 4), 0)
    for seed in range(200):
        words = _text(seed, 100).split()
        for changes in found:
            found[changes] += _twin(" ".join(words), " ".join(_rewritten(words, changes, random.Random(seed))))
    assert found[1] >= 180
    assert found[4] <= 4


def test_a_signature_is_made_once_and_the_memory_of_them_is_bounded() -> None:
    assert compute_signature("one two three four") is compute_signature("one two three four")
    assert compute_signature.cache_info().maxsize == MOST_SIGNATURES


@pytest.mark.parametrize(("text", "expected"), [("", [""]), ("One", ["one"]), ("a b C d", ["a b c", "b c d"])])
def test_shingles_are_three_words_each(text: str, expected: list[str]) -> None:
    assert split_shingles(text) == expected
