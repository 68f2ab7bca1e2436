"""Sluice as a contestant: its crawler behind its egress proxy, robots.txt and rates included, then its extraction.

Each round is a run of its own, so that no page of it finds anything of another round in the browser.

python -m bench.crawl.ours http|browser BROKER_URL FOLDER URL…
"""

from __future__ import annotations

import logging
import sys
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from bench.crawl.protocol import serve
from sluice.contracts.ingest import CrawlDirected
from sluice.ingest.crawl.crawled_page import CrawledPage
from sluice.ingest.extract.extract import extract
from sluice.workers.context import Context
from sluice.workers.settings import load_settings

RATE = 100_000.0
"""Requests per second: the rate is asked for at each page, and never waited for."""


def main() -> None:
    """Build the parts, warm up on the first page, serve rounds."""
    way, broker_url, folder, *urls = sys.argv[1:]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    settings = load_settings(
        data_dir=Path(folder),
        broker_url=broker_url,
        crawl={"enabled": True, "requests_per_second_per_host": RATE, "revisit": False, "sitemaps": False},
        egress={"allow": [f"crawl={urlsplit(urls[0]).netloc}"]},
    )
    context, reads = Context(settings), count(-1)  # the warm-up is before the first round

    def read(url: str) -> tuple[str, str | None]:
        directed = CrawlDirected(url=url, render="never" if way == "http" else "always")
        page = context.crawler.crawl(directed, run_id=f"round {next(reads) // len(urls)}")
        assert isinstance(page, CrawledPage)
        found = extract(page.body, page.media_type, charset=page.charset, url=page.final_url)
        return found.markdown(), found.title

    try:
        read(urls[0])
        serve(read, urls)
    finally:
        context.close()


if __name__ == "__main__":
    main()
