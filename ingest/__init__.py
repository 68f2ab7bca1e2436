"""Ingestion: search, guarded crawl, extraction, chunking, embedding."""
