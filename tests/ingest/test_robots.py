"""What a site asks of robots, and what its silence means."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from contracts.errors import Overloaded, PolicyRefused
from ingest.deadline import Deadline
from ingest.fetch import Fetched, Fetcher, FetchLimits
from ingest.robots import CACHE_SECONDS, UNREACHABLE_CACHE_SECONDS, RobotsCache, product_token

USER_AGENT = "SluiceBot/0.1 (+https://sluice.invalid/bot)"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def robots(fetcher: Fetcher, clock: Clock) -> RobotsCache:
    def fetch(url: str, limits: FetchLimits, deadline: Deadline) -> Fetched:
        answer = fetcher.fetch(url, limits=limits, deadline=deadline)
        assert isinstance(answer, Fetched)
        return answer

    return RobotsCache(fetch, user_agent=USER_AGENT, clock=clock, timeout_seconds=1.0)


def allowed(robots: RobotsCache, url: str) -> bool:
    try:
        robots.check(url)
    except PolicyRefused as error:
        return error.rule not in ("robots", "robots_unreachable")
    return True


def test_rules_for_us_beat_rules_for_all_and_the_longest_match_decides(site: Any, robots: RobotsCache) -> None:
    site.put(
        "/robots.txt",
        "User-agent: *\nDisallow: /\n\nUser-agent: sluicebot\nDisallow: /private\nAllow: /private/but-this$\n"
        "Disallow: /*.cgi\n\nUser-agent: OtherBot\nAllow: /\n",
    )
    assert allowed(robots, site.url("/"))
    assert not allowed(robots, site.url("/private/x"))
    assert allowed(robots, site.url("/private/but-this"))
    assert not allowed(robots, site.url("/private/but-this-not"))
    assert not allowed(robots, site.url("/bin/x.cgi?y"))
    assert site.paths() == ["/robots.txt"]


FORBIDDEN, FREE = "Disallow: /", "Allow: /"


@pytest.mark.parametrize(
    ("groups", "open_to_us"),
    [
        (["User-agent: S", FREE, "User-agent: *", FORBIDDEN], False),
        (["User-agent: Sluice", FREE, "User-agent: *", FORBIDDEN], False),
        (["User-agent: SluiceBotNews", FREE, "User-agent: *", FORBIDDEN], False),
        (["User-agent: Sluice-Bot", FREE, "User-agent: *", FORBIDDEN], False),
        (["User-agent: SluiceBot/2.1", FREE, "User-agent: *", FORBIDDEN], True),
        (["User-agent: sluicebot (+https://sluice.invalid)", FREE, "User-agent: *", FORBIDDEN], True),
        (["USER-AGENT : SLUICEBOT # us", FREE, "User-agent: *", FORBIDDEN], True),
        (["User-agent: Mozilla/5.0 (compatible; SluiceBot/0.1)", FREE, "User-agent: *", FORBIDDEN], False),
        (["User-agent: SluiceBot", "User-agent: Other", "", FORBIDDEN, "User-agent: *", FREE], False),
        (["User-agent: SluiceBot", "Disallow:", "User-agent: *", FORBIDDEN], True),
        (
            ["User-agent: SluiceBot", "Disallow: /x", "User-agent: Other", FREE, "User-agent: SluiceBot", FORBIDDEN],
            False,
        ),
        (["User-agent: Other", FREE, "User-agent: Another", FORBIDDEN], True),
        (["User-agent: * and more", FORBIDDEN], False),
        (["User-agent: *Bot", FORBIDDEN], True),
        (["User-agent:", FORBIDDEN, "User-agent: *", FREE], True),
        ([FORBIDDEN, "User-agent: *", FREE], True),
        (["User-agent: SluiceBot", "Sitemap: https://a.example/s", FORBIDDEN], False),
        (["User-agent: SluiceBot", "Crawl-delay: 2", "User-agent: *", FORBIDDEN], False),
    ],
)
def test_a_group_is_ours_by_the_whole_product_token(
    site: Any, robots: RobotsCache, groups: list[str], open_to_us: bool
) -> None:
    """RFC 9309, 2.2.1: the token decides, in any case; groups of one token are one; `*` is for who has none."""
    site.put("/robots.txt", "\r\n".join(groups))
    assert allowed(robots, site.url("/page")) is open_to_us


@pytest.mark.parametrize(
    ("status", "open_to_us"),
    [(404, True), (401, True), (403, True), (410, True), (429, False), (500, False), (503, False)],
)
def test_a_missing_file_allows_everything_and_a_failing_site_nothing(
    site: Any, robots: RobotsCache, status: int, open_to_us: bool
) -> None:
    site.put("/robots.txt", b"User-agent: *\nDisallow:", status)
    assert allowed(robots, site.url("/page")) is open_to_us


def test_silence_and_a_broken_connection_allow_nothing(site: Any, robots: RobotsCache) -> None:
    released = threading.Event()
    site.call("/robots.txt", lambda handler: released.wait(10))
    assert not allowed(robots, site.url("/"))
    released.set()


def test_redirects_are_followed_and_too_many_count_as_a_missing_file(site: Any, robots: RobotsCache) -> None:
    for step in range(5):
        site.put(f"/r{step}", status=302, Location=f"/r{step + 1}")
    site.put("/r5", "User-agent: *\nDisallow: /")
    site.put("/robots.txt", status=301, Location="/r1")
    assert not allowed(robots, site.url("/"))
    site.put("/r5", status=302, Location="/r0")
    assert not allowed(robots, site.url("/"))  # still cached


def test_a_redirect_to_no_web_address_allows_nothing(site: Any, robots: RobotsCache) -> None:
    site.put("/robots.txt", b"", 302, Location="ftp://example.com/robots.txt")
    with pytest.raises(PolicyRefused) as caught:
        robots.check(site.url("/page"))
    assert caught.value.rule == "robots_unreachable"


def test_an_endless_redirect_allows_everything(site: Any, robots: RobotsCache) -> None:
    site.put("/robots.txt", status=301, Location="/robots.txt")
    assert allowed(robots, site.url("/"))
    assert len(site.asked) == 6


def test_only_the_first_500_kib_count(site: Any, robots: RobotsCache) -> None:
    padding = "# padding\n" * 60_000
    site.put("/robots.txt", f"User-agent: *\nDisallow: /first\n{padding}Disallow: /last\n")
    assert not allowed(robots, site.url("/first"))
    assert allowed(robots, site.url("/last"))


def test_bytes_that_are_no_text_and_a_byte_order_mark_are_survived(site: Any, robots: RobotsCache) -> None:
    site.put("/robots.txt", b"\xef\xbb\xbfUser-agent: *\nDisallow: /x\n\xff\xfe\x00\nDisallow: /caf\xe9")
    assert not allowed(robots, site.url("/x"))
    assert allowed(robots, site.url("/y"))


def test_an_answer_is_kept_for_a_day_and_a_failure_for_minutes(site: Any, robots: RobotsCache, clock: Clock) -> None:
    site.put("/robots.txt", status=500)
    assert not allowed(robots, site.url("/"))
    clock.now += UNREACHABLE_CACHE_SECONDS + 1
    site.put("/robots.txt", status=404)
    assert allowed(robots, site.url("/"))
    clock.now += CACHE_SECONDS - 1
    assert allowed(robots, site.url("/"))
    assert len(site.asked) == 2
    clock.now += 2
    assert allowed(robots, site.url("/"))
    assert len(site.asked) == 3


def test_many_threads_ask_once(site: Any, robots: RobotsCache) -> None:
    site.put("/robots.txt", status=404)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda number: allowed(robots, site.url(f"/{number}")), range(24)))
    assert len(site.asked) == 1


def test_a_crawl_delay_is_honoured_up_to_a_cap(site: Any, robots: RobotsCache) -> None:
    site.put("/robots.txt", "User-agent: *\nCrawl-delay: 1.5\n\nUser-agent: SluiceBot\nCrawl-delay: 900\n")
    assert robots.crawl_delay_seconds(site.url("/")) == 10.0


def test_where_no_delay_is_asked_for_there_is_none(site: Any, robots: RobotsCache) -> None:
    assert robots.crawl_delay_seconds(site.url("/")) == 0.0


@pytest.mark.parametrize("error", [Overloaded("busy"), PolicyRefused("egress", "address")])
def test_what_says_nothing_about_the_site_is_passed_on_and_not_remembered(error: Exception, clock: Clock) -> None:
    asked: list[str] = []

    def fetch(url: str, limits: FetchLimits, deadline: Deadline) -> Fetched:
        asked.append(url)
        raise error

    robots = RobotsCache(fetch, user_agent=USER_AGENT, clock=clock)
    attempt: Callable[[], None] = lambda: robots.check("https://example.com/")  # noqa: E731
    for _ in range(2):
        with pytest.raises(type(error)):
            attempt()
    assert asked == ["https://example.com/robots.txt"] * 2


def test_the_product_token_is_what_robots_files_call_us() -> None:
    assert product_token(USER_AGENT) == "SluiceBot"
    assert product_token("0") == "*"
