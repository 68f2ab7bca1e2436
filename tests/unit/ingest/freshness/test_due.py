"""A page is due once it is more likely than not that it changed, by what is expected and what was seen of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sluice.contracts.ingest import WatchedPage
from sluice.ingest.freshness import MOST_PRIORS, choose_due, half_life_days, shortest_expected
from sluice.ingest.settings import FreshnessSettings

NOW = datetime(2031, 5, 6, 12, tzinfo=UTC)
SETTINGS = FreshnessSettings(half_life_days=30)


def page(days: float = 0, url: str = "https://docs.example/a", **facts: object) -> WatchedPage:
    """A page that was seen so many days ago, and never before."""
    seen = NOW - timedelta(days=days)
    found = WatchedPage(url, "doc_1", fetched_at=seen, asked_at=seen, watched_since=seen)
    return replace(found, **facts)  # type: ignore[arg-type]


def test_of_an_unknown_page_the_setting_decides() -> None:
    assert half_life_days(page(), SETTINGS) == 30


def test_a_page_that_stands_is_watched_less_and_one_that_changes_more() -> None:
    since = NOW - timedelta(days=60)
    quiet = half_life_days(page(watched_since=since), SETTINGS)
    lively = half_life_days(page(watched_since=since, changes=9), SETTINGS)
    assert quiet == pytest.approx(30 + 60 * 0.693, rel=0.001)
    assert lively == pytest.approx(quiet / 10)
    ages = half_life_days(page(watched_since=NOW - timedelta(days=3_000)), SETTINGS)
    assert ages == MOST_PRIORS * 30, "every page is asked for now and then"


def test_what_answers_cite_is_due_by_the_age_that_their_profile_aims_at() -> None:
    assert half_life_days(page(cited_by=("code", "marketing", "own")), SETTINGS) == 7
    assert half_life_days(page(cited_by=("own",)), SETTINGS) == 30


def test_the_longest_overdue_come_first_and_no_more_than_asked_for() -> None:
    pages = [
        page(31, "https://docs.example/month"),
        page(29, "https://docs.example/fresh"),
        page(90, "https://docs.example/quarter"),
        page(35, "https://www.news.example/five", cited_by=("marketing",)),
    ]
    due = choose_due(pages, SETTINGS, NOW, 2)
    assert [(one.page.url.rsplit("/", 1)[1], round(one.half_lives, 1)) for one in due] == [
        ("five", 5.0),
        ("quarter", 3.0),
    ]
    assert len(choose_due(pages, SETTINGS, NOW, 9)) == 3


def test_a_sitemap_is_believed_for_a_few_half_lives_and_no_longer() -> None:
    seen = page(31, asked_at=NOW - timedelta(days=119))
    ignored = page(31, asked_at=NOW - timedelta(days=121))
    assert [one.by_sitemap for one in choose_due([seen], SETTINGS, NOW, 1)] == [True]
    assert [one.by_sitemap for one in choose_due([ignored], SETTINGS, NOW, 1)] == [False]


def test_no_page_can_be_due_before_a_part_of_the_shortest_expected_half_life() -> None:
    """So the ledger leaves out what cannot be."""
    assert shortest_expected(FreshnessSettings(half_life_days=1)) == timedelta(days=1)
    assert shortest_expected(FreshnessSettings()) == timedelta(days=7)


def test_no_owner_takes_the_turns_of_another_in_a_corpus_that_both_read_into() -> None:
    flood = [page(3_000 + number, f"https://fast.example/{number}", owner="key_hostile") for number in range(500)]
    few = [page(31 + number, f"https://docs.example/{number}", owner="key_other") for number in range(3)]
    due = choose_due([*flood, *few], SETTINGS, NOW, 10)
    owners = [one.page.owner for one in due]
    assert (owners.count("key_other"), owners.count("key_hostile")) == (3, 7)
    assert owners[:2] == ["key_hostile", "key_other"], "each in turn, the longest overdue first"
