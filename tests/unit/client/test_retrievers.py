"""The retrievers for LangChain and LlamaIndex: LangChain's own standard tests, and what LlamaIndex has none for.

Neither library is among Sluice's own. Where they are installed, beside the client alone:

    pip install pytest pytest-asyncio langchain-tests llama-index-core ./clients/python
    python -m pytest -c /dev/null --noconftest tests/unit/client/test_retrievers.py
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sluice_client.testing import FakeServer

SERVER = FakeServer({f"doc-{number}": f"the heap number {number} is a list" for number in range(12)})

try:
    from langchain_tests.integration_tests import RetrieversIntegrationTests
except ImportError:
    RetrieversIntegrationTests = None


@pytest.mark.skipif(RetrieversIntegrationTests is None, reason="langchain-tests is not installed")
def test_langchain_is_at_hand() -> None:
    """Says by being skipped that the standard tests below did not run."""


if RetrieversIntegrationTests is not None:
    from sluice_client.langchain import SluiceRetriever

    class TestLangChain(RetrieversIntegrationTests):  # type: ignore[misc, unused-ignore]
        """LangChain's standard tests; they ask for exactly so many documents as `k` says."""

        pytestmark = pytest.mark.asyncio

        @property
        def retriever_constructor(self) -> Any:
            return SluiceRetriever

        @property
        def retriever_constructor_params(self) -> dict[str, Any]:
            return {"client": SERVER.client(), "async_client": SERVER.async_client()}

        @property
        def retriever_query_example(self) -> str:
            return "what is a heap"


def test_llamaindex_gets_nodes_with_the_ids_of_passage_and_document() -> None:
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    from sluice_client.llamaindex import SluiceRetriever as ForLlamaIndex

    nodes = ForLlamaIndex(similarity_top_k=3, client=SERVER.client(), ask=True).retrieve("what is heap 3")
    assert len(nodes) == 3
    assert (nodes[0].node.ref_doc_id, nodes[0].node.node_id) == ("doc-3", "doc-3#1")
    assert nodes[0].metadata["run_id"]

    async def asked() -> list[Any]:
        async with SERVER.async_client() as client:
            found: list[Any] = await ForLlamaIndex(similarity_top_k=2, async_client=client).aretrieve("what is heap 4")
            return found

    nodes = asyncio.run(asked())
    assert (len(nodes), nodes[0].node.node_id) == (2, "doc-4#1")
    assert nodes[0].score > 0
