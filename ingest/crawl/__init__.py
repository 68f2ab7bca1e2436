"""One page on its way through a crawl, where its links lead, and what is remembered of it."""
