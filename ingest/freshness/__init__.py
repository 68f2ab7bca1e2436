"""Freshness: manifests of pages, the plan that follows from two of them, and when a page is due."""
