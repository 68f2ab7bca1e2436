"""A retriever for LangChain: `SluiceRetriever`. Needs the extra `sluice-client[langchain]`."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from sluice_client.client import AsyncSluiceClient, SluiceClient
from sluice_client.models import RetrievedChunk
from sluice_client.passages import found_by, metadata_of, passages_of


class SluiceRetriever(BaseRetriever):
    """Retrieves passages of one corpus, the best first.

    With `ask` the gate answers: it also searches and crawls where that is allowed and needed. Else the corpus is
    searched as it is. `options` are further fields of `SluiceClient.query` or `gate`. The number of passages is `k`,
    here or in `invoke(question, k=3)`. A document's id is its passage's; `metadata` holds document_id, url, title,
    lines, score and trust, and with `ask` the run_id. Give clients of your own, or the address and key of the server.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    corpus: str = "default"
    k: int = Field(default=8, ge=1, le=100)
    ask: bool = False
    options: dict[str, Any] = Field(default_factory=dict)
    base_url: str | None = None
    api_key: str | None = Field(default=None, repr=False, exclude=True)
    client: SluiceClient | None = Field(default=None, exclude=True)
    async_client: AsyncSluiceClient | None = Field(default=None, exclude=True)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int = 0
    ) -> list[Document]:
        """Return the passages of a question."""
        operation, fields = found_by(self.ask, query, self.corpus, k or self.k, self.options)
        if self.client is not None:
            found = getattr(self.client, operation)(**fields)
        else:
            with SluiceClient(self.base_url, self.api_key) as client:
                found = getattr(client, operation)(**fields)
        return [_document(*one) for one in passages_of(found)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int = 0
    ) -> list[Document]:
        """Return the passages of a question, without a thread."""
        operation, fields = found_by(self.ask, query, self.corpus, k or self.k, self.options)
        if self.async_client is not None:
            found = await getattr(self.async_client, operation)(**fields)
        else:
            async with AsyncSluiceClient(self.base_url, self.api_key) as client:
                found = await getattr(client, operation)(**fields)
        return [_document(*one) for one in passages_of(found)]


def _document(chunk: RetrievedChunk, run_id: str | None) -> Document:
    return Document(id=chunk.chunk_id, page_content=chunk.text, metadata=metadata_of(chunk, run_id))
