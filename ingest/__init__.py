"""Ingestion: search, guarded crawl, extraction, chunking, embedding.

The modules here are what workers call; what each is made of lies in the package beside it:

    search     ask the web's search engines        providers
    egress     the one door out                    proxy
    fetch      one exchange over HTTP              http
    browser    one page in Chromium                rendering
    robots     may it be fetched, and when         manners
    crawl      one page politely                   crawling, discovery, hosts
    extract    from bytes to readable text         extraction
    chunk      from text to passages               chunking
    embed      from texts to vectors               embedding
"""
