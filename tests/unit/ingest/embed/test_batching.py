"""Texts are packed into few requests that keep to every limit, and none is lost."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sluice.ingest.embed.batching import Limits, body_bytes, fitted, packed
from sluice.ingest.embed.tokens import estimated_tokens

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=120), max_size=40)


@given(texts=TEXTS, limits=st.builds(Limits, st.integers(1, 9), st.integers(1, 90), st.integers(600, 1_200)))
def test_every_text_is_in_one_request_and_every_request_is_within_the_limits(texts: list[str], limits: Limits) -> None:
    requests = packed(texts, limits)
    assert sorted(position for request in requests for position in request) == list(range(len(texts)))
    for request in requests:
        some = [texts[position] for position in request]
        assert len(some) == 1 or sum(map(estimated_tokens, some)) <= limits.tokens
        assert len(some) == 1 or len(json.dumps(some)) <= limits.bytes
        assert len(some) <= limits.texts


def test_small_texts_fill_what_large_ones_leave() -> None:
    texts = ["x" * 27, "x" * 27, "y" * 57, "y" * 57]  # 10, 10, 20 and 20 tokens: in their order, three requests
    assert packed(texts, Limits(texts=9, tokens=30, bytes=10_000)) == [[0, 2], [1, 3]]


def test_a_text_beyond_a_limit_goes_alone() -> None:
    assert packed(["x" * 300, "y", "z"], Limits(texts=9, tokens=20, bytes=10_000)) == [[0], [1, 2]]


def test_bytes_are_those_of_json_with_everything_escaped() -> None:
    assert body_bytes('é"') == len('"\\u00e9\\"",')


@given(text=st.text(max_size=200), most_tokens=st.integers(2, 30))
def test_a_cut_text_is_a_beginning_of_it_and_fits(text: str, most_tokens: int) -> None:
    [cut] = fitted([text], most_tokens)
    assert text.startswith(cut)
    assert estimated_tokens(cut) <= most_tokens
    assert (cut == text) == (estimated_tokens(text) <= most_tokens)
