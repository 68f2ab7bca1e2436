"""Addresses without end are told from the deep, dated and filtered addresses of honest sites."""

from __future__ import annotations

import time

import pytest

from sluice.ingest.crawl.frontier import why_trap
from sluice.ingest.url import MAX_URL_CHARACTERS, normalise_url

SITE = "https://www.example.com"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/a" + "".join(f"/{letter}" for letter in "bcdefghijklmnopqrstu"), "depth"),
        ("/docs/docs/docs/page.html", "repetition"),
        ("/en/guide/en/guide/en/guide/start", "repetition"),
        ("/a/b/x/a/b/y/a/c/a/d/a/e", "repetition"),
        ("/img/a/img/b/img/c/img/d/img/e", "repetition"),
        ("/(S(lit3py55t21z5v55vlm25s55))/orders/form.aspx", "session"),
        ("/(X(1)S(lit3py55t21z5v55vlm25s55))/default.aspx", "session"),
        ("/shop;sid=4f2a99/cart", "session"),
        ("/forum/s-0123456789abcdef0123456789abcdef/topic", "session"),
        ("/topic?s=0123456789abcdef0123456789abcdef", "session"),
        ("/list?" + "&".join(f"p{number}=1" for number in range(13)), "parameters"),
        ("/list?" + "&".join(["tag=x"] * 7), "parameters"),
        ("/login?next=%2Flogin%3Fnext%3D%252F", "parameters"),
        ("/pub/?C=M;O=A", "permutation"),
        ("/pub/?C=N&O=D", "permutation"),
        ("/shop?brand=a&color=red&size=m&price=10-20", "permutation"),
        ("/shop?f[0]=a:1&f[1]=b:2&f[2]=c:3&f[3]=d:4", "permutation"),
        ("/calendar/2931/05/", "calendar"),
        ("/events?year=1066&month=10", "calendar"),
    ],
)
def test_a_form_that_has_no_end_is_named(path: str, reason: str) -> None:
    assert why_trap(SITE + path) == reason


@pytest.mark.parametrize(
    ("path", "came_by", "reason"),
    [
        ("/calendar/2031/06/", ("/calendar/2031/05/",), "calendar"),
        ("/calendar/2031/june", ("/", "/calendar/2031/may"), "calendar"),
        ("/calendar/2031-05-07", ("/calendar/2031-05-06", "/calendar/2031/05/"), "calendar"),
        ("/rooms?date=2031-05-07", ("/rooms?date=2031-05-06",), "calendar"),
        ("/view?month=6&year=2031", ("/view?month=5&year=2031",), "calendar"),
        ("/shop?sort=price", ("/", "/shop"), "permutation"),
        ("/shop?order_by=name&page=2", ("/shop?order_by=price&page=2",), "permutation"),
        ("/shop?color=red&size=m", ("/shop?color=red",), "permutation"),
        (f"/play?t={'3f' * 16}", (f"/play?t={'1a' * 16}", "/", f"/play?t={'2b' * 16}"), "chain"),
        (f"/{'c9' * 12}/next", ("/", f"/{'a7' * 12}/next", f"/{'b8' * 12}/next"), "chain"),
    ],
)
def test_what_led_there_shows_a_trap_that_a_form_alone_does_not(
    path: str, came_by: tuple[str, ...], reason: str
) -> None:
    assert why_trap(SITE + path, tuple(SITE + one for one in came_by)) == reason
    assert why_trap(SITE + path) is None


HONEST = [
    "https://docs.python.org/3/library/asyncio-task.html",
    "https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/concurrent/atomic/AtomicInteger.html",
    "https://github.com/apache/spark/blob/master/sql/catalyst/src/main/scala/org/apache/spark/sql/catalyst/expressions/x.scala",
    "https://learn.microsoft.com/en-us/dotnet/api/system.collections.generic.list-1.add?view=net-8.0",
    "https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.30/",
    "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/kernel/sched/core.c?h=v6.9",
    "https://www.postgresql.org/docs/16/sql-select.html",
    "https://en.wikipedia.org/wiki/Session_(computer_science)",
    "https://en.wikipedia.org/wiki/2031",
    "https://de.wikipedia.org/w/index.php?title=Kalender&action=history",
    "https://en.wikipedia.org/wiki/Calendar",
    "https://www.nytimes.com/2031/05/06/world/europe/summit-events.html",
    "https://www.bbc.co.uk/news/world-us-canada-68123456",
    "https://www.spiegel.de/politik/deutschland/kalender-2031-a-1234567.html",
    "https://blog.example.com/2031/05/",
    "https://blog.example.com/2011/11/11/eleven",
    "https://blog.example.com/page/37",
    "https://www.example.com/events/48213",
    "https://www.example.com/events/2031/summer-school",
    "https://stackoverflow.com/questions/11227809/why-is-processing-a-sorted-array-faster",
    "https://stackoverflow.com/questions/tagged/python?tab=newest&page=3&pagesize=50",
    "https://news.ycombinator.com/item?id=38471822",
    "https://www.amazon.com/dp/B08N5WRWNW/ref=sr_1_3?keywords=usb+hub&qid=1700000000&sr=8-3",
    "https://shop.example.com/shoes?color=red&size=42&page=2",
    "https://shop.example.com/c/shoes/women/boots/winter?sort=price",
    "https://shop.example.com/p/usb-c-kabel-2m-weiss-4012345678901.html",
    "https://www.ebay.de/itm/256789012345?hash=item3bca123456:g:AbCdEfGhIjKlMnOp",
    "https://arxiv.org/abs/2301.12345v2",
    "https://datatracker.ietf.org/doc/html/rfc9309",
    "https://www.rfc-editor.org/rfc/rfc9110.html",
    "https://nvd.nist.gov/vuln/detail/CVE-2031-12345",
    "https://crates.io/crates/serde/versions?sort=semver",
    "https://packages.example.org/search/?q=crawler&o=&c=Framework+%3A%3A+AsyncIO",
    "https://doi.org/10.1000/182",
    "https://bugs.debian.org/cgi-bin/bugreport.cgi?bug=1000000",
    "https://lists.debian.org/debian-devel/2031/05/msg00012.html",
    "https://www.youtube.com/watch?v=dQw4w9WgXcQ&list=PLFgquLnL59alCl_2TQvOiD5Vgm1hCaGSI&index=2",
    "https://web.archive.org/web/20310506120000/https://example.com/",
    "https://maps.example.com/route?from=Berlin&to=Potsdam",
    "https://accounts.example.com/login?next=/docs/start",
    "https://www.gov.uk/guidance/the-highway-code/rules-for-cyclists-59-to-82",
    "https://eur-lex.europa.eu/legal-content/EN/TXT/?uri=CELEX%3A32016R0679",
    "https://commits.example.com/repo/commit/0123456789abcdef0123456789abcdef01234567",
    "https://www.example.com/1/1/1/1",
    "https://www.example.com/session/2031/papers",
]


@pytest.mark.parametrize("url", HONEST)
def test_honest_addresses_are_none(url: str) -> None:
    assert why_trap(normalise_url(url)) is None


@pytest.mark.parametrize(
    ("path", "came_by"),
    [
        ("/2031/05/07/second-story", "/2031/05/06/first-story"),
        ("/page/3", "/page/2"),
        ("/events/48214", "/events/48213"),
        ("/shop?page=3", "/shop?page=2"),
        ("/library/os.html", "/library/os.html?highlight=path"),
        ("/docs/3.12/", "/docs/3.11/"),
        ("/list?color=red", "/list"),
        (f"/repo/commit/{'3f' * 20}", f"/repo/commit/{'1a' * 20}"),
    ],
)
def test_following_one_honest_page_upon_another_is_no_trap(path: str, came_by: str) -> None:
    assert why_trap(SITE + path, (SITE + came_by,)) is None


@pytest.mark.parametrize(
    "unit", ["/a", "/a/b", ";sid", "&a=b", "&next=%2F", "(", "[", "/cal/2031", "_", "%5B", "&a[", "0"]
)
def test_the_longest_address_is_judged_at_once(unit: str) -> None:
    path = "/?" + unit * MAX_URL_CHARACTERS if unit.startswith("&") else "/" + unit * MAX_URL_CHARACTERS
    url = (SITE + path)[:MAX_URL_CHARACTERS]
    started = time.thread_time()
    for _ in range(10):
        why_trap(url, (url, url))
    assert time.thread_time() - started < 2
