"""What kind of question it is, and whether its answer changes."""

from __future__ import annotations

import pytest

from sluice.gate.intent import classify, extract_years, find_time_words
from sluice.gate.profile import PROFILES_DIR, Profile, load_profile, load_profiles

DEFAULT = load_profiles()["default"]
EVEN = dict.fromkeys(DEFAULT.intents, 0.3)


def with_time(profile: Profile, **fields: float) -> Profile:
    """`profile` with other numbers of its time model."""
    return profile.model_copy(update={"time": profile.time.model_copy(update=fields)})


@pytest.mark.parametrize(
    "query",
    [
        "who is the current prime minister of Norway",
        "what is the latest release of the compiler",
        "who has the most titles of all time",
        "what is the population of Oslo",
        "what happened today in parliament",
    ],
)
def test_time_words_make_a_question_time_sensitive(query: str) -> None:
    assert classify(query, EVEN, 2026, DEFAULT).time_sensitive


@pytest.mark.parametrize(
    ("changes", "stays"),
    [
        ("Wie hoch ist derzeit der Wasserstand?", "Wer komponierte das Requiem?"),
        ("Quelle est l'heure actuelle à Tokyo ?", "Qui a peint ce tableau ?"),
        ("Кто сейчас тренер сборной?", "Кто построил этот собор?"),
        ("现任市长是谁?", "这首诗是谁写的?"),
        ("वर्तमान प्रधानमंत्री कौन है?", "यह पुस्तक किसने लिखी?"),
    ],
)
def test_words_of_other_languages_tell_of_time_too(changes: str, stays: str) -> None:
    assert classify(changes, EVEN, 2026, DEFAULT).time_sensitive
    assert not classify(stays, EVEN, 2026, DEFAULT).time_sensitive


def test_a_word_of_another_language_is_not_found_within_a_longer_word() -> None:
    assert find_time_words("the hoyden and the heutex", DEFAULT.time) == {}


@pytest.mark.parametrize(
    "query",
    [
        "who wrote the first opera",
        "when was the bridge built",
        "who won the cup in 1987",
        "when does season 4 episode 12 come out",
        "what is the meaning of entropy",
    ],
)
def test_questions_about_the_past_are_not(query: str) -> None:
    assert not classify(query, EVEN, 2026, DEFAULT).time_sensitive


def test_a_time_bound_intent_alone_makes_a_question_time_sensitive() -> None:
    assert classify("the governor of the state", {**EVEN, "office_holder": 0.8}, 2026, DEFAULT).time_sensitive


def test_the_intent_is_of_the_sort_that_the_sensitivity_says() -> None:
    near = {**EVEN, "factual": 0.6, "office_holder": 0.55}
    assert classify("current governor", near, 2026, DEFAULT).intent == "office_holder"
    assert classify("first governor", near, 2026, DEFAULT).intent == "factual"


def test_an_urgent_word_shortens_the_half_life() -> None:
    near = {**EVEN, "statistic": 0.7}
    assert classify("price of gold", near, 2026, DEFAULT).half_life_days == 365
    assert classify("price of gold today", near, 2026, DEFAULT).half_life_days == 1


@pytest.mark.parametrize("bound", [name for name, intent in DEFAULT.intents.items() if intent.time_bound])
def test_more_likeness_to_a_time_bound_intent_never_lowers_the_sensitivity(bound: str) -> None:
    found = [classify("the mayor", {**EVEN, bound: s / 10}, 2026, DEFAULT).time_sensitivity for s in range(11)]
    assert found == sorted(found)


def test_likeness_to_every_intent_alike_says_nothing_about_time() -> None:
    near, far = (dict.fromkeys(DEFAULT.intents, cosine) for cosine in (0.8, 0.1))
    question = "the mayor of Oslo"
    assert classify(question, near, 2026, DEFAULT).time_sensitivity == pytest.approx(
        classify(question, far, 2026, DEFAULT).time_sensitivity, abs=1e-5
    )


def test_the_profile_says_from_which_probability_a_question_counts_as_time_sensitive() -> None:
    question = "when is the concert"
    found = classify(question, EVEN, 2026, DEFAULT).time_sensitivity
    for threshold, counts in ((found - 0.01, True), (found, True), (found + 0.01, False)):
        kind = classify(question, EVEN, 2026, with_time(DEFAULT, threshold=threshold))
        assert (kind.time_sensitivity, kind.time_sensitive) == (found, counts)
        assert DEFAULT.intents[kind.intent].time_bound is counts


def test_a_profile_without_a_threshold_counts_from_even_odds() -> None:
    files = {path.stem: path for path in PROFILES_DIR.glob("*.toml")}
    first = load_profile(files["default.v1"], files)
    for bias, counts in ((0.0, True), (-0.001, False)):
        assert classify("tides", EVEN, 2026, with_time(first, bias=bias)).time_sensitive is counts


@pytest.mark.parametrize(
    ("profile", "plain", "telling"),
    [
        ("code", "the decorator of the framework", "the changelog of the framework"),
        ("marketing", "the shoes of the brand", "the campaign of the brand"),
    ],
)
def test_the_words_of_a_special_profile_add_to_those_of_the_default(profile: str, plain: str, telling: str) -> None:
    special = load_profiles()[profile]
    near = dict.fromkeys(special.intents, 0.3)
    without, found = (classify(query, near, 2026, special) for query in (plain, telling))
    assert without.time_sensitive is False
    assert found.time_sensitive
    assert classify(f"{telling} today", near, 2026, special).time_sensitivity > found.time_sensitivity


def test_unknown_intents_are_ignored_and_absent_ones_count_as_unlike() -> None:
    assert classify("a question", {"from_another_profile": 0.9}, 2026, DEFAULT).intent in DEFAULT.intents


@pytest.mark.parametrize(
    ("query", "years"),
    [
        ("results of the 2024 games", (2024,)),
        ("from 1914 to 1918", (1914, 1918)),
        ("budget for 2099", ()),
        ("version 3.2024.1", ()),
        ("http://host/2023/page", ()),
        ("20231", ()),
    ],
)
def test_years_are_read_where_they_are_years(query: str, years: tuple[int, ...]) -> None:
    assert extract_years(query, 2026) == years
