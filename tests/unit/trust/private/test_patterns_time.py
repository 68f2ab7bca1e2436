"""No text makes a pattern search for long: time grows with the text, whatever stands in it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.trust.private.kinds import find_kinds
from sluice.trust.private.patterns import PatternFinder, SecretRule, load_rules

CHARACTERS = 4_000
MOST_SECONDS = 5.0
"""Of this thread's CPU time; the slowest takes some 0.02 s, one that goes back over and over takes minutes. A machine
whose processors are another's at times counts what it waits for as well."""
FILLINGS = ("a", "1", "=", "-", "a1", " ", "A1b2C3d4", "'", "\n", "x.")
STARTS = (
    "+",
    "00",
    "call me 1",
    "@",
    "a@",
    "@a.",
    "GB82 ",
    "::",
    "1.1.",
    "4111 ",
    "12-",
    "phone 12 ",
    "ssn 1",
    "+1(2)",
)


def seconds_of(search: Callable[[str], object], text: str) -> float:
    started = time.thread_time()
    search(text[:CHARACTERS])
    return time.thread_time() - started


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.id)
def test_a_rule_is_quick_on_texts_that_nearly_match_over_and_over(rule: SecretRule) -> None:
    def search(text: str) -> object:
        return list(rule.find(text))

    for keyword in rule.keywords[:2]:
        for filling in FILLINGS:
            for text in ((keyword + filling * 6) * CHARACTERS, f"{keyword} = {filling * CHARACTERS}"):
                assert seconds_of(search, text[:CHARACTERS]) < MOST_SECONDS, (keyword, filling)


@pytest.mark.parametrize("filling", [*FILLINGS, *STARTS])
def test_kinds_are_quick_on_texts_that_nearly_match_over_and_over(filling: str) -> None:
    assert seconds_of(lambda text: list(find_kinds(text)), filling * CHARACTERS) < MOST_SECONDS


@given(st.lists(st.sampled_from([*STARTS, *FILLINGS, "curl -u ", "://", "password=", "token: ", "-----BEGIN "])))
def test_any_mixture_of_them_is_quick_and_its_spans_lie_in_it(pieces: list[str]) -> None:
    text = "".join(pieces) * 20
    spans = PatternFinder().find(text[:CHARACTERS])
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert seconds_of(PatternFinder().find, text) < 2 * MOST_SECONDS


def test_no_rule_has_a_possessive_group() -> None:
    """Python before 3.11.5 does not go back where such a group fails half-way (CPython issue 106052)."""
    possessive = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+(?![^\[\]]*\])")
    assert [rule.id for rule in load_rules() if possessive.search(rule.pattern.pattern)] == []
