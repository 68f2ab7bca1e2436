"""Ingestion: search, guarded crawl, extraction, chunking, embedding.

search       query web search engines
egress       the only way out: our proxy on loopback, which applies the owner's rules
http         one HTTP exchange, through that proxy
browser      one page in Chromium, through that proxy
politeness   whether a page may be fetched, and when
crawl        crawl one page politely
extract      from bytes to readable text
chunk        from text to passages
embed        from texts to vectors
freshness    which pages are due, and what changed between two manifests
repository   a git repository as documents
"""
