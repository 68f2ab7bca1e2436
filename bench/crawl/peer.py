"""Crawl4AI as a contestant; run by the interpreter of its own environment.

    python peer.py http|browser CHROMIUM FOLDER URL…

HTTP is its `AsyncHTTPCrawlerStrategy`, the browser its default, with the Chromium that is named. Its cache is passed
by, and everything else is as it comes: Markdown, metadata and links of each page.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from protocol import serve


def main() -> None:
    """Start the crawler, warm up on the first page, serve rounds."""
    way, chromium, folder, *urls = sys.argv[1:]
    os.environ["CRAWL4_AI_BASE_DIRECTORY"] = folder
    from crawl4ai import AsyncWebCrawler, BrowserConfig, CacheMode, CrawlerRunConfig

    if way == "http":
        from crawl4ai import HTTPCrawlerConfig
        from crawl4ai.async_crawler_strategy import AsyncHTTPCrawlerStrategy

        crawler = AsyncWebCrawler(crawler_strategy=AsyncHTTPCrawlerStrategy(browser_config=HTTPCrawlerConfig()))
    else:
        _start_everywhere(Path(chromium))
        crawler = AsyncWebCrawler(config=BrowserConfig(headless=True, verbose=False))
    config = CrawlerRunConfig(cache_mode=CacheMode.BYPASS, verbose=False)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(crawler.start())

    def read(url: str) -> tuple[str, str | None]:
        result = loop.run_until_complete(crawler.arun(url, config=config))
        if not result.success:
            raise RuntimeError(result.error_message)
        return str(result.markdown), (result.metadata or {}).get("title")

    read(urls[0])
    serve(read, urls)
    loop.run_until_complete(crawler.close())


def _start_everywhere(chromium: Path) -> None:
    """Have Playwright start `chromium` where it is not told which: no browser of its own is downloaded."""
    from playwright.async_api import BrowserType

    launch = BrowserType.launch

    async def start(self: BrowserType, **options: object) -> object:
        options["executable_path"] = str(chromium)
        options.pop("channel", None)
        return await launch(self, **options)  # type: ignore[arg-type]

    BrowserType.launch = start  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    main()
