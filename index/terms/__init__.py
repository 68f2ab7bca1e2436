"""The lexical side: text analysis, Tantivy, BM25 over chunks that are not yet published."""
