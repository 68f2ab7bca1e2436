"""Sitemaps tell pages of their own site, in every form that sites use; hostile ones cost little and tell nothing."""

from __future__ import annotations

import gzip
import resource
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.ingest.crawl import sitemap
from sluice.ingest.crawl.sitemap import MAX_FILES, Sitemap, SitemapUrl, gather, read_sitemap

URL = "https://www.example.com/sitemap.xml"
HEAD = "<?xml version='1.0' encoding='UTF-8'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>"


def urls(body: str | bytes) -> list[str]:
    return [page.url for page in read_sitemap(body.encode() if isinstance(body, str) else body, URL).urls]


def index(*children: str) -> bytes:
    entries = "".join(f"<sitemap><loc>{child}</loc></sitemap>" for child in children)
    return f"<sitemapindex>{entries}</sitemapindex>".encode()


def pages(*addresses: str) -> bytes:
    return (HEAD + "".join(f"<url><loc>{address}</loc></url>" for address in addresses) + "</urlset>").encode()


def test_a_sitemap_tells_addresses_when_they_changed_and_how_important_they_are() -> None:
    body = HEAD + (
        "<url><loc> https://www.example.com/a?x=1&amp;y=2 </loc><lastmod>2031-05-06</lastmod>"
        "<changefreq>daily</changefreq><priority>0.8</priority></url>"
        "<url><priority>7</priority><lastmod>yesterday</lastmod><loc>https://docs.example.com/b</loc></url>"
        "<url><loc><![CDATA[https://www.example.com/c]]></loc><lastmod>2031-05-06T12:00:00+02:00</lastmod></url>"
        "</urlset>"
    )
    assert read_sitemap(body.encode(), URL) == Sitemap(
        (
            SitemapUrl("https://www.example.com/a?x=1&y=2", datetime(2031, 5, 6, tzinfo=UTC), 0.8),
            SitemapUrl("https://docs.example.com/b"),
            SitemapUrl("https://www.example.com/c", datetime(2031, 5, 6, 10, tzinfo=UTC)),
        )
    )


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2031", datetime(2031, 1, 1, tzinfo=UTC)),
        ("2031-05", datetime(2031, 5, 1, tzinfo=UTC)),
        ("2031-05-06T07:08Z", datetime(2031, 5, 6, 7, 8, tzinfo=UTC)),
        ("2031-05-06T07:08:09.5-01:00", datetime(2031, 5, 6, 8, 8, 9, 500_000, tzinfo=UTC)),
        ("Tue, 06 May 2031 07:08:09 GMT", datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)),
        ("0001-01-01T00:00:00+23:00", None),
        ("9" * 5_000, None),
        ("", None),
    ],
)
def test_dates_are_read_however_much_of_them_is_there(written: str, moment: datetime | None) -> None:
    [page] = read_sitemap(
        f"{HEAD}<url><loc>https://www.example.com/</loc><lastmod>{written}</lastmod></url></urlset>".encode(), URL
    ).urls
    assert page.last_modified == moment


def test_an_index_names_further_sitemaps_the_latest_first() -> None:
    body = (
        "<sitemapindex><sitemap><loc>https://www.example.com/old.xml</loc><lastmod>2030-01-01</lastmod></sitemap>"
        "<sitemap><loc>/undated.xml.gz</loc></sitemap>"
        "<sitemap><loc>https://www.example.com/new.xml</loc><lastmod>2031-01-01</lastmod></sitemap></sitemapindex>"
    )
    children = read_sitemap(body.encode(), URL).children
    assert [child.rpartition("/")[2] for child in children] == ["new.xml", "old.xml", "undated.xml.gz"]


@pytest.mark.parametrize(
    "body",
    [
        "https://www.example.com/a\r\n\r\n  https://www.example.com/b\nnot an address of the web: x\n",
        "\ufeffhttps://www.example.com/a\nhttps://www.example.com/b",
        "<rss><channel><link>https://www.example.com/</link><item><link>https://www.example.com/a</link></item>"
        "<item><title>t</title><link>https://www.example.com/b</link></item></channel></rss>",
        "<feed xmlns='http://www.w3.org/2005/Atom'><link href='https://www.example.com/feed' rel='self'/>"
        "<entry><link rel='edit' href='/e'/><link href='https://www.example.com/a'/></entry>"
        "<entry><link rel='alternate' href='/b'/><id>urn:x</id></entry></feed>",
        "\n  <urlset><url><loc>https://www.example.com/a</loc></url><url><loc>https://www.example.com/b</loc></url>",
    ],
    ids=["text", "text with a mark", "RSS", "Atom", "cut off"],
)
def test_text_and_feeds_are_sitemaps_too_plain_and_compressed(body: str) -> None:
    wanted = ["https://www.example.com/a", "https://www.example.com/b"]
    assert urls(body) == urls(gzip.compress(body.encode())) == wanted


def test_utf_16_is_read() -> None:
    body = "<?xml version='1.0' encoding='UTF-16'?><urlset><url><loc>https://www.example.com/é</loc></url></urlset>"
    assert urls(body.encode("utf-16")) == ["https://www.example.com/%C3%A9"]


def test_a_feed_s_date_is_when_the_page_changed() -> None:
    item = "<item><link>https://www.example.com/a</link><pubDate>Tue, 06 May 2031 07:08:09 GMT</pubDate></item>"
    assert read_sitemap(f"<rss>{item}</rss>".encode(), URL).urls[0].last_modified == datetime(
        2031, 5, 6, 7, 8, 9, tzinfo=UTC
    )


def test_only_addresses_of_its_own_site_count_and_each_once() -> None:
    body = pages(
        "https://www.example.com/a",
        "https://www.example.com/a?utm_source=map#x",
        "https://evil.example.org/b",
        "https://example.com.evil.org/c",
        "javascript:alert(1)",
        "http://127.0.0.1/d",
        "https://user:secret@www.example.com/e",
        "//docs.example.com/f",
    )
    assert urls(body) == ["https://www.example.com/a", "https://docs.example.com/f"]
    assert read_sitemap(index("https://evil.example.org/s.xml"), URL) == Sitemap()


@pytest.mark.parametrize("body", [b"", b"\x1f\x8b broken", b"\x00" * 100, b"<", b"{}", b"%PDF-1.7", b"\xff\xfe<"])
def test_what_is_no_sitemap_is_an_empty_one(body: bytes) -> None:
    assert read_sitemap(body, URL) == Sitemap()


def test_a_page_that_is_answered_in_place_of_a_sitemap_tells_nothing() -> None:
    assert urls("<!DOCTYPE html><html><url><loc>https://www.example.com/a</loc></url></html>") == []


def test_entities_are_not_replaced_and_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("https://www.example.com/secret")
    for declared in (f'<!ENTITY x SYSTEM "file://{tmp_path}/secret">', '<!ENTITY x "https://www.example.com/secret">'):
        body = f"<?xml version='1.0'?>{' ' * 2_000}<!DOCTYPE u [{declared}]><urlset><url><loc>&x;</loc></url></urlset>"
        assert urls(body) == []


def test_a_billion_laughs_cost_nothing() -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    body = f"<?xml version='1.0'?>{' ' * 2_000}<!DOCTYPE u [<!ENTITY l0 'ha'>{laughs}]><urlset><url><loc>&l11;</loc>"
    assert within(5, lambda: urls(body)) == []


@pytest.mark.parametrize(
    "body",
    [
        b"<a>" * 800_000,
        b"<urlset>" + b"<url/>" * 800_000,
        b"<urlset><url><loc>" + b"x" * 20_000_000,
        b"<urlset><url " + b"a='b' " * 300_000 + b">",
        b"<urlset><!--" + b"-" * 20_000_000,
        b"\n" * 20_000_000,
        gzip.compress(b"<urlset>" + b" " * 200_000_000),
    ],
    ids=["depth", "elements", "text", "attributes", "comment", "lines", "bomb"],
)
def test_a_hostile_sitemap_costs_little_time_and_memory(body: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert within(30, lambda: urls(body)) == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KiB


def test_no_more_addresses_and_elements_of_one_file_are_read_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [f"https://www.example.com/{number}" for number in range(50)]
    monkeypatch.setattr(sitemap, "MAX_URLS", 40)
    assert urls(pages(*addresses)) == urls("\n".join(addresses)) == addresses[:40]
    assert len(read_sitemap(index(*addresses), URL).children) == 40
    monkeypatch.setattr(sitemap, "MAX_ELEMENTS", 21)  # the outermost, and two for each address
    assert urls(pages(*addresses)) == addresses[:10]


def test_the_sitemaps_of_a_site_are_gathered_over_two_levels_and_each_is_asked_for_once() -> None:
    files = {
        "/robots-named.xml": index("/a.xml", "/b.xml", "/a.xml", "/gone.xml"),
        "/a.xml": pages("https://www.example.com/1", "https://www.example.com/2"),
        "/b.xml": pages("https://www.example.com/2", "https://www.example.com/3"),
        "/sitemap.xml": index("/robots-named.xml", "/deep-index.xml"),
        "/deep-index.xml": index("/too-deep.xml"),
        "/too-deep.xml": pages("https://www.example.com/4"),
    }
    asked: list[str] = []

    def fetch(url: str) -> bytes | None:
        asked.append(url.removeprefix("https://www.example.com"))
        return files.get(asked[-1])

    start = ("https://www.example.com/robots-named.xml", "https://www.example.com/sitemap.xml")
    found = gather(start, fetch, 100)
    assert [page.url[-1] for page in found] == ["1", "2", "3"]
    assert sorted(asked) == sorted(
        ["/robots-named.xml", "/sitemap.xml", "/a.xml", "/b.xml", "/gone.xml", "/deep-index.xml"]
    )
    assert [page.url[-1] for page in gather(start, files_of(files), 2)] == ["1", "2"]
    assert gather(start, files_of(files), 0) == ()


def test_an_index_without_end_is_followed_so_far() -> None:
    asked: list[str] = []

    def fetch(url: str) -> bytes:
        asked.append(url)
        return index(*(f"/{len(asked)}-{number}.xml" for number in range(100)))

    assert gather((URL,), fetch, 1_000) == ()
    assert len(asked) == MAX_FILES


def files_of(files: dict[str, bytes]) -> Callable[[str], bytes | None]:
    return lambda url: files.get(url.removeprefix("https://www.example.com"))


def within(seconds: float, work: Callable[[], list[str]]) -> list[str]:
    started = time.thread_time()
    done = work()
    assert time.thread_time() - started < seconds
    return done
