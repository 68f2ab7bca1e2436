"""A retriever for LlamaIndex: `SluiceRetriever`. Needs the extra `sluice-client[llamaindex]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from sluice_client.client import AsyncSluiceClient, SluiceClient
from sluice_client.models import RetrievedChunk
from sluice_client.passages import found_by, metadata_of, passages_of


class SluiceRetriever(BaseRetriever):
    """Retrieves passages of one corpus, the best first: `similarity_top_k` of them.

    With `ask` the gate answers: it also searches and crawls where that is allowed and needed. Else the corpus is
    searched as it is. `options` are further fields of `SluiceClient.query` or `gate`. A node's id is its passage's, its
    source node the document; `metadata` holds document_id, url, title, lines, score and trust, and with `ask` the
    run_id. Give clients of your own, or the address and key of the server.
    """

    def __init__(
        self,
        corpus: str = "default",
        similarity_top_k: int = 8,
        *,
        ask: bool = False,
        options: Mapping[str, Any] | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        client: SluiceClient | None = None,
        async_client: AsyncSluiceClient | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        self._corpus, self._top_k, self._ask, self._options = corpus, similarity_top_k, ask, dict(options or {})
        self._server = (base_url, api_key)
        self._client, self._async_client = client, async_client
        super().__init__(callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return the passages of a question."""
        operation, fields = found_by(self._ask, query_bundle.query_str, self._corpus, self._top_k, self._options)
        if self._client is not None:
            found = getattr(self._client, operation)(**fields)
        else:
            with SluiceClient(*self._server) as client:
                found = getattr(client, operation)(**fields)
        return [_node(*one) for one in passages_of(found)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return the passages of a question without blocking the loop, as the base class would."""
        operation, fields = found_by(self._ask, query_bundle.query_str, self._corpus, self._top_k, self._options)
        if self._async_client is not None:
            found = await getattr(self._async_client, operation)(**fields)
        else:
            async with AsyncSluiceClient(*self._server) as client:
                found = await getattr(client, operation)(**fields)
        return [_node(*one) for one in passages_of(found)]


def _node(chunk: RetrievedChunk, run_id: str | None) -> NodeWithScore:
    node = TextNode(id_=chunk.chunk_id, text=chunk.text, metadata=metadata_of(chunk, run_id))
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=chunk.document_id)
    node.excluded_embed_metadata_keys = node.excluded_llm_metadata_keys = [
        name for name in node.metadata if name not in ("title", "url")
    ]
    return NodeWithScore(node=node, score=chunk.fused_score)
