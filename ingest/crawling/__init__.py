"""One page on its way through a crawl, and what is remembered of it."""
