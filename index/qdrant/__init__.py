"""The engine that keeps vectors and terms in a Qdrant server."""

LACKS = {
    "graph": "`hybrid_graph` finds what `hybrid` does",
    "unpublished records": "found when published",
    "rollback": "to the collection before a rebuild, for a day",
    "fallback's index": "words alone answer",
    "pushed generations": "the journal fills anew",
    "healing": "`sluice rebuild` compares all ids",
    "reindexing": "another model needs another corpus",
    "exact neighbours": "HNSW, recall unmeasured",
    "exact rarity": "counted by shard, deleted points too",
    "unbounded conditions": "`trust`, `contains`, metadata's order: 10,000 hits",
    "search in an outage": "none",
}
"""What the local engine has and this one lacks, with what happens instead."""
