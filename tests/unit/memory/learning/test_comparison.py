"""Two learnings side by side: what is the same in other words, and what keeps them apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.memory.learning.polarity.compare import compare
from sluice.memory.learning.polarity.prose import features, same_probability


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Don't mock the clock in tests", "The clock must not be mocked in tests"),
        ("Avoid mocking the clock in tests", "Never mock the clock in tests"),
        ("Avoid sleep in tests", "Do not use sleep in tests"),
        ("Use httpx instead of requests", "Prefer httpx over requests"),
        ("Use httpx instead of requests", "Do not use requests, use httpx instead"),
        ("Use httpx instead of requests", "Replace requests with httpx"),
        ("Run the migrations before starting the server", "Start the server after running the migrations"),
        ("Run the migrations before starting the server", "Before starting the server, run the migrations"),
        ("The worker reads the config", "The config is read by the worker"),
        ("The timeout of the worker is 30 s", "The worker's timeout is 30 seconds"),
        ("Use pathlib for paths", "You should always use `pathlib` for paths"),
        ("Use pathlib for paths", "Use pathlib for paths so that Windows works"),
        ("Delete the cache directory when tests fail", "If tests fail, remove the cache folder"),
        ("Handlers must be idempotent because events come twice", "Events come twice, so handlers must be idempotent"),
        ("Reload is not supported by config.py", "Reload is unsupported by config.py"),
        ("The field is not required", "The field is optional"),
    ],
)
def test_the_same_in_other_words_is_the_same(one: str, other: str):
    assert compare(one, other).same
    assert compare(other, one).same


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ("Set the limit to 30", "Set the limit to 300", "number"),
        ("Wait 30 ms before a retry", "Wait 30 s before a retry", "number"),
        ("Keep the dump under 5 MB", "Keep the dump under 5 Mb", "number"),
        ("Read user_id from the token", "Read account_id from the token", "identifier"),
        ("Call `remove` on close", "Call `delete` on close", "identifier"),
        ("Pin pydantic to v2.1", "Pin pydantic to v2.2", "identifier"),
        ("Keep it in src/app/main.py", "Keep it in src/web/main.py", "identifier"),
        ("Enable the cache in tests", "Disable the cache in tests", "antonym"),
        ("The port is taken", "The port is released", "antonym"),
        ("Run it before the tests", "Run it after the tests", "order"),
        ("Retry at least three times", "Retry at most three times", "antonym"),
        ("All tests use the fixture", "Some tests use the fixture", "antonym"),
        ("You must pin versions", "You may pin versions", "modality"),
        ("Tokens must be rotated", "Tokens need not be rotated", "modality"),
        ("The cache can be cleared", "The cache cannot be cleared", "negation"),
        ("Use httpx instead of requests", "Use requests instead of httpx", "order"),
        ("Copy assets from public to dist", "Copy assets from dist to public", "order"),
        ("The worker calls the server", "The server calls the worker", "order"),
        ("Allocate it on the stack", "Allocate it on the heap", "words"),
        ("Retry on a timeout", "Retry only on a timeout", "words"),
        ("Skip tests", "Skip tests which need the network", "words"),
        ("Reload fails", "Reload fails since v2.1", "identifier"),
        ("Skip tests", "Skip tests unless CI is set", "words"),
        ("Pass x + y", "Pass x * y", "words"),
    ],
)
def test_what_differs_is_named_and_never_the_same(one: str, other: str, difference: str):
    for comparison in (compare(one, other), compare(other, one)):
        assert not comparison.same
        assert difference in comparison.differences


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Use the cache in tests", "Never use the cache in tests"),
        ("Prefer threads in the worker", "Avoid threads in the worker"),
        ("Enable the cache in tests", "Disable the cache in tests"),
        ("Run the linter before the tests", "Run the linter after the tests"),
        ("Use tabs instead of blanks", "Use blanks instead of tabs"),
        ("The parser accepts trailing commas", "The parser rejects trailing commas"),
    ],
)
def test_the_contrary_of_the_same_subject_is_opposite(one: str, other: str):
    assert compare(one, other).opposite
    assert compare(other, one).opposite


def test_another_fact_of_the_same_subject_is_not_opposite():
    for other in ("Use Memcached for sessions", "Use Redis for queues", "Redis holds 30 sessions"):
        assert not compare("Use Redis for sessions", other).opposite


texts = st.text(max_size=120)
_WORDS_TEXT = """
use run the tests worker config.py cache before after when if and or 30 3.11 user_id not server is in to with of never
must may, so because . ; `x` reads read by instead
"""
sentences = st.lists(st.sampled_from(_WORDS_TEXT.split()), min_size=1, max_size=12).map(" ".join)


@given(texts | sentences)
def test_any_text_says_the_same_as_itself(text: str):
    comparison = compare(text, text)
    assert comparison.same
    assert not comparison.opposite
    assert comparison.similarity == 1


@given(texts | sentences, texts | sentences)
def test_it_makes_no_difference_which_text_comes_first(one: str, other: str):
    assert compare(one, other).same == compare(other, one).same
    assert compare(one, other).opposite == compare(other, one).opposite
    assert compare(one, other).similarity == pytest.approx(compare(other, one).similarity)
    assert features(one, other) == pytest.approx(features(other, one))
    assert 0 < same_probability(one, other) < 1


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
def test_a_negation_more_is_never_the_same(words: list[str], data: st.DataObject, negation: str):
    at = data.draw(st.integers(0, len(words)))
    assert not compare(" ".join(words), " ".join([*words[:at], negation, *words[at:]])).same


@given(st.lists(plain_words, min_size=1, max_size=8), st.integers(0, 10_000), st.integers(0, 10_000))
def test_another_number_is_never_the_same(words: list[str], one: int, other: int):
    text = " ".join(words)
    assert compare(f"{text} {one} times", f"{text} {other} times").same == (one == other)
