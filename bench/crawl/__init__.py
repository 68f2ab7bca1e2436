"""Crawling beside Crawl4AI: pages per CPU-second over HTTP and in a browser, with the same kind of result."""
