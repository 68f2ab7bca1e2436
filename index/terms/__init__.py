"""The lexical side: text analysis, Tantivy, BM25 over what is not yet published."""
