"""The ledger's tables of the graph: its documents, the edges that each of them owns, and the sums over a corpus.

The conventions are those of `ledger.schema.tables`.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, Table, Text

from sluice.ledger.schema.columns import ROW_ID, FreeText, counter
from sluice.ledger.schema.tables import metadata

graph_corpora = Table(
    "graph_corpora",
    metadata,
    Column("corpus", Text, primary_key=True),
    counter("version"),  # changes of documents, counted
    Column("sha256", Text, nullable=False),  # the sum, modulo 2^256, of the hashes of its documents
    counter("documents"),
    counter("edges"),
    counter("as_of"),  # the highest journal offset that documents were read at
    implicit_returning=False,
)

graph_documents = Table(
    "graph_documents",
    metadata,
    Column("number", ROW_ID, primary_key=True),
    Column("corpus", Text, nullable=False),
    Column("document_id", FreeText, nullable=False),
    counter("as_of"),  # the journal offset of the index that it was read from: nothing read earlier replaces it
    Column("is_tombstone", Integer, nullable=False, server_default="0"),  # it left the index, by `as_of`
    Column("path", FreeText),
    Column("url", FreeText),
    Column("title", FreeText),
    Column("content_sha256", Text, nullable=False, server_default=""),
    Column("facts_sha256", Text, nullable=False, server_default=""),  # of what else its edges were made from
    Column("parser_version", Text, nullable=False, server_default=""),
    Column("embedding_version", Text),
    Column("updated_at", Float, nullable=False),
    counter("edges"),
    Column("sha256", Text, nullable=False, server_default=""),  # of what identifies it and of its edges
    Index("graph_documents_by_id", "corpus", "document_id", unique=True),
    implicit_returning=False,
)

graph_edges = Table(
    "graph_edges",
    metadata,
    Column("document", BigInteger, primary_key=True, autoincrement=False),  # the number of the one that owns it
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("type", Text, nullable=False),
    Column("source_label", Text, nullable=False),
    Column("source_key", FreeText),  # NULL: the document that owns it
    Column("target_label", Text, nullable=False),
    Column("target_key", FreeText),  # NULL: the document that owns it
    Column("origin", Text, nullable=False),
    Column("lines", Text, nullable=False, server_default=""),  # numbers, between commas
    Column("detail", FreeText, nullable=False, server_default=""),
    implicit_returning=False,
    sqlite_with_rowid=False,  # its edges stand together, and are read and removed by their document
)
