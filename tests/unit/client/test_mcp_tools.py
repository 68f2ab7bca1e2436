"""The tools over a client of a server for tests, without a network."""

from __future__ import annotations

import asyncio

from mcp import Client

from sluice_client.mcp.tools import make_server
from sluice_client.testing import FakeServer


def test_query_ask_and_prompt_cite_what_the_corpus_holds() -> None:
    server = FakeServer({"heap.md": "A heap is a list.", "lease.md": "A lease is renewed by its holder. " * 500})

    async def story() -> None:
        async with server.async_client() as sluice, Client(make_server(sluice, version="1")) as client:
            found = await client.call_tool("sluice_query", {"query": "what is a heap", "max_tokens": 500})
            [first] = found.structured_content["passages"]
            assert first["source"] == "heap.md"
            assert "A heap is a list." in first["text"]
            assert "1 more passages did not fit" in found.structured_content["notice"][0]
            assert "heap.md" in found.content[0].text

            asked = await client.call_tool("sluice_ask", {"query": "what is a heap"})
            assert asked.structured_content["status"] == "finished"
            assert asked.structured_content["citations"][0]["source"] == "heap.md"

            server.fails("POST /v1/query", 422, retryable=False)
            refused = await client.call_tool("sluice_query", {"query": "heap"})
            assert refused.is_error
            assert refused.content[0].text == "request: by FakeServer"

            template = {"name": "rag", "version": 1, "full_name": "rag.v1", "summary": "Passages, then the question"}
            server.answers("GET /v1/prompts", {"data": [template]})
            listed = await client.call_tool("sluice_list", {"what": "prompts"})
            assert [one["full_name"] for one in listed.structured_content["data"]] == ["rag.v1"]

    asyncio.run(story())
