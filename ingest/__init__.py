"""Ingestion: search, guarded crawl, extraction, chunking, embedding.

search       ask the web's search engines
egress       the one door out: a proxy of ours on loopback, with the owner's rules
http         one exchange over HTTP, through that door
browser      one page in Chromium, through that door
politeness   may a page be fetched, and when
crawl        one page politely
extract      from bytes to readable text
chunk        from text to passages
embed        from texts to vectors
freshness    which pages are due, and what changed between two manifests
repository   a git repository as documents
"""
