"""The egress proxy: all traffic of crawl and search leaves through it, to addresses it checked."""
