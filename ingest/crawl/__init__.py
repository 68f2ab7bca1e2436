"""The crawl of one page: fetching or rendering it, and ranking its links."""
