"""The passages of an answer in the formats of other frameworks: plain JSON dictionaries, without those packages.

Document(**one)                                                         langchain_core.documents, read by 1.7
NodeWithScore(node=TextNode.from_dict(one["node"]), score=one["score"])     llama_index.core.schema, read by 0.14
"""

from __future__ import annotations

from typing import Any

from sluice.contracts.index import Answer, Citation
from sluice.contracts.retrieval import RetrievedChunk
from sluice.text.passage import on_one_line, show_text


def langchain_documents(answer: Answer) -> list[dict[str, Any]]:
    """Return one LangChain `Document` for each passage, in the order of the citations."""
    return [
        {
            "id": chunk.chunk_id,
            "page_content": _text(citation, chunk),
            "metadata": _metadata(citation, chunk),
            "type": "Document",
        }
        for citation, chunk in zip(answer.citations, answer.chunks, strict=True)
    ]


def llamaindex_nodes(answer: Answer) -> list[dict[str, Any]]:
    """Return one LlamaIndex `NodeWithScore` of a `TextNode` per passage; its score is the match, from 0 to 1."""
    return [
        {
            "class_name": "NodeWithScore",
            "score": citation.match,
            "node": {
                "class_name": "TextNode",
                "id_": chunk.chunk_id,
                "text": _text(citation, chunk),
                "metadata": (metadata := _metadata(citation, chunk)),
                "excluded_embed_metadata_keys": list(metadata),
                "excluded_llm_metadata_keys": [name for name in metadata if name not in _FOR_THE_MODEL],
                "relationships": {
                    _SOURCE_RELATION: {"class_name": "RelatedNodeInfo", "node_id": chunk.document_id, "node_type": "4"}
                },
            },
        }
        for citation, chunk in zip(answer.citations, answer.chunks, strict=True)
    ]


_FOR_THE_MODEL = ("number", "source", "title", "section_path", "warnings")
"""Metadata that LlamaIndex shows the model above a node's text; by default it would show all."""
_SOURCE_RELATION = "1"
"""`NodeRelationship.SOURCE` of LlamaIndex: the document that a node belongs to."""


def _text(citation: Citation, chunk: RetrievedChunk) -> str:
    """Return the text of a passage; one that the guard warns of is marked as in an answer's context."""
    return show_text(chunk.text, citation.warnings) if citation.warnings else chunk.text


def _metadata(citation: Citation, chunk: RetrievedChunk) -> dict[str, Any]:
    """Return the source and extent of a passage, as the text and numbers that vector stores keep."""
    facts = {
        "number": citation.number,
        "source": citation.source,
        "link": citation.link,
        "url": chunk.url,
        "file_path": chunk.file_path,
        "title": chunk.title and on_one_line(chunk.title),
        "section_path": " > ".join(map(on_one_line, chunk.section_path)),
        "symbol_path": chunk.symbol_path and on_one_line(chunk.symbol_path),
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "page": chunk.page,
        "language": chunk.language,
        "document_id": chunk.document_id,
        "checksum": chunk.checksum,
        "token_estimate": chunk.token_estimate,
        "match": citation.match,
        "confidence": citation.confidence,
        "trust": citation.trust if citation.trust is not None else chunk.trust,
        "origin": citation.origin,
        "warnings": ", ".join(citation.warnings),
        "code_policy": citation.code.policy if citation.code else None,
        "fetched_at": chunk.provenance.fetched_at.isoformat(),
    }
    return {name: fact for name, fact in facts.items() if fact not in (None, "")}
