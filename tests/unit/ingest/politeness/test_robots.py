"""What a site asks of robots, and what its silence means."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sluice.contracts.errors import Overloaded, PolicyRefused
from sluice.ingest.deadline import Deadline
from sluice.ingest.http.fetch import Fetched, Fetcher, FetchLimits
from sluice.ingest.politeness.robots import (
    CACHE_SECONDS,
    UNREACHABLE_CACHE_SECONDS,
    RobotsAnswer,
    RobotsCache,
    RobotsFetch,
    RobotsVerdict,
    product_token,
)

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
        pytest.param(
            *(["User-agent: SluiceBot", "Crawl-delay: 2", "User-agent: *", FORBIDDEN], False),
            marks=pytest.mark.xfail(
                strict=True, reason="protego: a Crawl-delay ends a list of robots; see decision 10"
            ),
        ),
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


def test_a_verdict_names_the_line_that_decided_or_how_the_file_answered(
    site: Any, robots: RobotsCache, clock: Clock
) -> None:
    site.put("/robots.txt", "User-agent: *\nDisallow: /private\nAllow: /private/this")
    assert robots.verdict(site.url("/x")) == RobotsVerdict(True, "robots", None, "answers 200")
    assert robots.verdict(site.url("/private/this")) == RobotsVerdict(
        True, "robots", "Allow: /private/this", "answers 200"
    )
    assert robots.verdict(site.url("/private")) == RobotsVerdict(False, "robots", "Disallow: /private", "answers 200")
    with pytest.raises(PolicyRefused, match="SluiceBot by 'Disallow: /private'"):
        robots.check(site.url("/private"))
    clock.now += CACHE_SECONDS
    site.put("/robots.txt", status=404)
    assert robots.verdict(site.url("/private")) == RobotsVerdict(True, "robots", None, "answers 404")
    clock.now += CACHE_SECONDS
    site.put("/robots.txt", status=503)
    assert robots.verdict(site.url("/")) == RobotsVerdict(False, "robots_unreachable", None, "answers 503")


def test_a_file_that_is_too_old_does_not_stand_in_for_one_that_fails(
    site: Any, robots: RobotsCache, clock: Clock
) -> None:
    """2.3.1.4 must be obeyed; 2.4 is a permission."""
    site.put("/robots.txt", "User-agent: *\nAllow: /")
    assert allowed(robots, site.url("/"))
    site.put("/robots.txt", status=500)
    clock.now += CACHE_SECONDS - 1
    assert allowed(robots, site.url("/"))
    clock.now += 2
    assert not allowed(robots, site.url("/"))


def test_sitemaps_are_told_normalised_and_of_no_other_kind(site: Any, robots: RobotsCache) -> None:
    site.put(
        "/robots.txt",
        "Sitemap: HTTPS://Example.com:443/a.xml#top\nSitemap: /b.xml\nSitemap: https://u:p@example.com/c.xml\n"
        "Sitemap: http://[::1/\nUser-agent: *\nDisallow: /",
    )
    assert robots.sitemaps(site.url("/page")) == ("https://example.com/a.xml",)


def served(body: bytes = b"", status: int = 200) -> tuple[RobotsFetch, list[str]]:
    """A fetch that answers so, and the addresses that it was asked for."""
    asked: list[str] = []

    def fetch(url: str, limits: FetchLimits, deadline: Deadline) -> Fetched:
        asked.append(url)
        return Fetched(url, url, status, {}, body, "text/plain", None, 1.0)

    return fetch, asked


def test_files_of_many_rules_are_not_all_remembered(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A farm of hosts with half a megabyte of rules each takes no worker's memory."""
    monkeypatch.setattr("sluice.ingest.politeness.robots.MAX_RULES", 250)
    fetch, asked = served(b"User-agent: *\n" + b"".join(b"Disallow: /%d\n" % line for line in range(100)))
    robots = RobotsCache(fetch, user_agent=USER_AGENT, clock=clock)
    for name in ("a", "b", "a", "c", "a", "b"):
        assert not allowed(robots, f"https://{name}.example/7")
    assert [url.partition(".")[0][-1] for url in asked] == ["a", "b", "c", "b"]


def test_one_file_of_more_rules_than_are_remembered_is_used(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.ingest.politeness.robots.MAX_RULES", 2)
    fetch, asked = served(b"User-agent: *\nDisallow: /1\nDisallow: /2\nDisallow: /3")
    robots = RobotsCache(fetch, user_agent=USER_AGENT, clock=clock)
    assert not allowed(robots, "https://a.example/3")
    assert not allowed(robots, "https://a.example/3")
    assert len(asked) == 1


# -- shared by workers ------------------------------------------------------------------------------


class Shared:
    """A store in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[RobotsAnswer, float]] = {}

    def recall(self, origin: str) -> tuple[RobotsAnswer, float] | None:
        return self.kept.get(origin)

    def keep(self, origin: str, answer: RobotsAnswer, seconds: float) -> None:
        self.kept[origin] = answer, seconds


def test_what_one_worker_has_learned_the_next_one_asks_no_site_for(clock: Clock) -> None:
    store = Shared()
    fetch, asked = served(b"User-agent: *\nDisallow: /x\nCrawl-delay: 3\nSitemap: https://a.example/s.xml")
    for _ in range(3):
        robots = RobotsCache(fetch, user_agent=USER_AGENT, clock=clock, store=store)
        assert not allowed(robots, "https://a.example/x")
        assert robots.crawl_delay_seconds("https://a.example/") == 3
        assert robots.sitemaps("https://a.example/") == ("https://a.example/s.xml",)
    assert asked == ["https://a.example/robots.txt"]
    assert not allowed(robots, "http://a.example/x")
    assert len(asked) == 2
    assert {origin: seconds for origin, (_, seconds) in store.kept.items()} == {
        "https://a.example": CACHE_SECONDS,
        "http://a.example": CACHE_SECONDS,
    }


def test_what_is_recalled_holds_for_no_longer_than_it_would_have(clock: Clock) -> None:
    store = Shared()
    store.keep("https://a.example", RobotsAnswer("rules", "answers 200", b"User-agent: *\nDisallow: /x"), 10.0)
    fetch, asked = served(status=404)
    robots = RobotsCache(fetch, user_agent=USER_AGENT, clock=clock, store=store)
    assert not allowed(robots, "https://a.example/x")
    store.kept.clear()
    clock.now += 11
    assert allowed(robots, "https://a.example/x")
    assert len(asked) == 1


def test_a_site_that_fails_is_asked_by_one_worker_every_few_minutes(clock: Clock) -> None:
    store = Shared()
    fetch, asked = served(status=503)
    for _ in range(3):
        assert not allowed(RobotsCache(fetch, user_agent=USER_AGENT, clock=clock, store=store), "https://a.example/")
    assert len(asked) == 1
    assert store.kept["https://a.example"][1] == UNREACHABLE_CACHE_SECONDS


def test_the_product_token_is_what_robots_files_call_us() -> None:
    assert product_token(USER_AGENT) == "SluiceBot"
    assert product_token("0") == "*"


def test_a_robots_txt_that_is_no_http_forbids_as_a_failing_one_does(site: Any, robots: RobotsCache) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nyes"
    site.call("/robots.txt", lambda handler: handler.wfile.write(answer))
    for _ in range(2):
        with pytest.raises(PolicyRefused) as refused:
            robots.check(site.url("/page"))
        assert refused.value.rule == "robots_unreachable"
    assert site.paths() == ["/robots.txt"], "remembered, as any failure is"
