"""Tone, disclosures, claims, channels and voices: edges that the evaluation set does not reach."""

from __future__ import annotations

import pytest

from sluice.trust.marketing.channels import classify_channel, names_in
from sluice.trust.marketing.claims import check_disclosure, find_claims, read_sentiment
from sluice.workers.steps.trusted import find_site


def test_a_long_text_is_no_more_positive_than_its_sentences() -> None:
    one = read_sentiment("The coat is good.")
    many = read_sentiment("The coat is good. " * 30)
    assert one
    assert many
    assert one.score == many.score < 0.6
    assert read_sentiment("1234 - 56") is None


@pytest.mark.parametrize(
    "text",
    [
        "Add the parcel at address #adam.",
        "The ad budget grew.",
        "Use the code below to sort.",
        "He is in partnership law.",
    ],
)
def test_words_that_only_look_like_advertising_are_none(text: str) -> None:
    assert check_disclosure(text) is None


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("It is not clinically proven.", []),
        ("You will not regret it: clinically proven to work.", ["proven"]),
        ("Is it clinically proven?", []),
        ("The ASA banned the line 'clinically proven'.", []),
        ("Version 2.5 is clinically proven. And FDA approved!", ["proven", "approved_by_authority"]),
    ],
)
def test_a_claim_that_is_denied_asked_for_or_reported_is_not_made(text: str, rules: list[str]) -> None:
    assert [claim.rule for claim in find_claims(text)] == rules


@pytest.mark.parametrize(
    ("url", "channel"),
    [
        ("https://old.reddit.com/r/a", "forum"),
        ("https://notreddit.com/", "other"),
        ("https://newsroom.acme-cola.com/x", "owned"),
        ("https://acme.example.com/press-releases/1", "press_release"),
        ("not a url", "other"),
        (None, "other"),
    ],
)
def test_a_channel_is_told_by_registered_domain_then_by_address(url: str | None, channel: str) -> None:
    assert classify_channel(url, ["Acme Cola"], find_site) == channel


def test_a_brand_is_a_whole_word_with_its_capital() -> None:
    assert names_in("An apple a day; pineapple; Applesauce", ["Apple"]) == frozenset()
    assert names_in("Apple's", ["Apple"]) == names_in("APPLE", ["Apple"]) == names_in("#Apple", ["Apple"]) == {"Apple"}
