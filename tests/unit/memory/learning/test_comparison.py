"""Two learnings side by side: what is the same in words, and in what kind of word near ones differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.memory.learning.comparison import compare, is_same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Use `pathlib` for paths.", "use pathlib  for paths"),
        ("Don't mock the clock in tests", "Do not mock clocks in tests!"),
        ("Auth middleware expects User object not userId", "Auth middleware expects a User object instead of userId"),
        ("Run the migrations before starting the server", "Before starting the server, run migrations."),
        ("The worker's timeout is 30s", "The workers timeout is 30 s"),
        ("It's a read-only file - no lock is needed", "it is a read only file, no lock is needed"),
        ("Keep 1,000 rows", "keep 1000 rows"),
        ("The parser is unable to read tabs", "The parser is unable to read a tab"),
        ("Retry three times (on a timeout)", "Retry 3 times on timeout"),
    ],
)
def test_the_same_words_are_the_same(one: str, other: str) -> None:
    assert is_same(one, other)
    assert compare(one, other).differences == ()


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ("Set the limit to 30", "Set the limit to 300", "number"),
        ("Wait 30 ms before a retry", "Wait 30 s before a retry", "number"),
        ("Keep the dump under 5 MB", "Keep the dump under 5 Mb", "number"),
        ("Retry three times", "Retry four times", "number"),
        ("Read user_id from the token", "Read account_id from the token", "name"),
        ("Pin pydantic to v2.1", "Pin pydantic to v2.2", "name"),
        ("Keep it in src/app/main.py", "Keep it in src/web/main.py", "name"),
        ("`tsc` is run by the hook", "`eslint` is run by the hook", "name"),
        ("Keep sessions in Redis", "Keep sessions in Memcached", "name"),
        ("Enable the cache in tests", "Disable the cache in tests", "antonym"),
        ("Run it before the tests", "Run it after the tests", "antonym"),
        ("You must pin versions", "You may pin versions", "modality"),
        ("The cache can be cleared", "The cache cannot be cleared", "negation"),
        ("Use mocks in tests", "Never use mocks in tests", "negation"),
        ("Reload is supported here", "Reload is unsupported here", "negation"),
        ("Use httpx instead of requests", "Use requests instead of httpx", "order"),
        ("The worker calls the server", "The server calls the worker", "order"),
        ("Prefer : over ::", "Prefer :: over :", "order"),
        ("Allocate it on the stack", "Allocate it on the heap", "word"),
    ],
)
def test_what_differs_is_named_and_never_the_same(one: str, other: str, difference: str) -> None:
    for first, second in ((one, other), (other, one)):
        assert not is_same(first, second)
        assert difference in compare(first, second).differences


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Skip tests", "Skip tests which need the network"),
        ("Reload is not supported here", "Reload is unsupported here"),
        ("A few tests fail", "Few tests fail"),
        ("Use plan A", "Use plan"),
        ("The worker is blocking", "The worker is blocked"),
    ],
)
def test_what_may_say_the_same_or_more_is_neither_the_same_nor_a_difference(one: str, other: str) -> None:
    assert not is_same(one, other)
    assert compare(one, other).differences == ()


def test_a_negation_that_a_contrary_word_takes_back_is_no_difference() -> None:
    assert compare("Do not disable the cache in tests", "Enable the cache in tests").differences == ()


texts = st.text(max_size=120)
_WORDS_TEXT = """
use run the tests worker config.py cache before after when if and or 30 3.11 user_id not server is in to with of never
must may, so because . ; `x` reads read by instead
"""
sentences = st.lists(st.sampled_from(_WORDS_TEXT.split()), min_size=1, max_size=12).map(" ".join)


@given(texts | sentences)
def test_any_text_is_the_same_as_itself(text: str) -> None:
    assert is_same(text, text)
    assert compare(text, text).differences == ()
    assert compare(text, text).similarity == 1


@given(texts | sentences, texts | sentences)
def test_it_makes_no_difference_which_text_comes_first(one: str, other: str) -> None:
    assert is_same(one, other) == is_same(other, one)
    assert compare(one, other).similarity == pytest.approx(compare(other, one).similarity)
    assert set(compare(one, other).differences) == set(compare(other, one).differences)


plain_words = st.sampled_from(
    [
        "use",
        "run",
        "tests",
        "worker",
        "cache",
        "server",
        "config.py",
        "user_id",
        "30",
        "fast",
        "in",
        "with",
        "the",
        "reads",
    ]
)


@given(st.lists(plain_words, min_size=2, max_size=10), st.data(), st.sampled_from(["not", "never", "do not", "no"]))
def test_a_negation_more_is_never_the_same(words: list[str], data: st.DataObject, negation: str) -> None:
    at = data.draw(st.integers(0, len(words)))
    assert not is_same(" ".join(words), " ".join([*words[:at], negation, *words[at:]]))


@given(st.lists(plain_words, min_size=1, max_size=8), st.integers(0, 10_000), st.integers(0, 10_000))
def test_another_number_is_never_the_same(words: list[str], one: int, other: int) -> None:
    text = " ".join(words)
    assert is_same(f"{text} {one} times", f"{text} {other} times") == (one == other)
