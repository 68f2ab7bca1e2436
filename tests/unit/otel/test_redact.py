"""What never reaches a log line or a span."""

from __future__ import annotations

import time

import pytest

from sluice.otel.logs import redact, redact_text


@pytest.mark.parametrize(
    "key", ["api_key", "openai_api_key", "X-Api-Key", "apikey", "token", "access_token", "client_secret", "password",
            "db_password", "Authorization", "set-cookie", "credentials"]
)  # fmt: skip
def test_a_value_whose_key_looks_like_a_secret_is_masked(key: str) -> None:
    assert redact({"outer": [{key: "hunter2"}]}) == {"outer": [{key: "***"}]}


@pytest.mark.parametrize(
    ("key", "value"),
    [("max_tokens", 4_000), ("token_estimate", 12), ("monkey", "x"), ("keyboard", "x"), ("url", "http://a.test/b@c")],
)
def test_what_is_no_secret_stays(key: str, value: object) -> None:
    assert redact({key: value}) == {key: value}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://:hunter2@broker:6379/0", "redis://***@broker:6379/0"),
        ("postgresql+psycopg://me:p@ss@db/x", "postgresql+psycopg://***@db/x"),
        ("GET https://serp.test/s?q=a&api_key=hunter2&n=1", "GET https://serp.test/s?q=a&api_key=***&n=1"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: Bearer ***"),
        ("clone with ghp_" + "a1B2" * 9, "clone with ghp_***"),
        ("risk-averse scikit-learn and eyJust", "risk-averse scikit-learn and eyJust"),
        ("a plain sentence, key to nothing = 1", "a plain sentence, key to nothing = 1"),
    ],
)
def test_secrets_inside_a_text_are_masked(text: str, shown: str) -> None:
    assert redact_text(text) == shown


def test_other_objects_are_shown_as_masked_text() -> None:
    assert redact({"error": ValueError("http://me:hunter2@a.test")}) == {"error": "http://***@a.test"}


def test_a_long_text_of_half_addresses_takes_no_longer_than_its_length() -> None:
    hostile = "a." * 40_000 + "://"
    started = time.perf_counter()
    assert redact_text(hostile) == hostile
    assert time.perf_counter() - started < 5  # it was quadratic, and took minutes
