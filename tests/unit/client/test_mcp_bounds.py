"""Whatever the server answers, a result of a tool has at most 20,000 tokens, in its structure and in its text."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mcp import Client

from sluice_client.mcp import results
from sluice_client.mcp.tools import make_server
from sluice_client.testing import FakeServer

LINE = 'A lease is "renewed" by its holder, and so on.\n'
LARGE = {f"{name:03}.md": LINE * 20_000 for name in range(50)}
NOTE_TOKENS = 100
ROUTES: dict[str, Any] = {
    "GET /v1/prompts": {
        "data": [{"name": f"p{n}", "version": 1, "full_name": f"p{n}.v1", "summary": "s" * 5_000} for n in range(100)]
    },
    "POST /v1/graph/query": {
        "columns": ["text"],
        "rows": [["x" * 4_000]] * 1_000,
        "generation": "g",
        "duration_ms": 1.0,
    },
    "POST /v1/forget": {"corpus": "default", "documents": 10_000, "examples": ["e" * 500] * 10},
}
CALLS = {
    "sluice_ask": {"query": "lease", "max_tokens": 15_000, "response": "detailed"},
    "sluice_query": {"query": "lease", "top_k": 50, "max_tokens": 15_000, "response": "detailed"},
    "sluice_read_document": {"document_id": "000.md", "max_lines": 2_000},
    "sluice_list": {"what": "prompts"},
    "sluice_forget": {"where": "trust > 0"},
    "sluice_graph": {"cypher": "MATCH (n) RETURN n.text AS text", "limit": 200},
}


@pytest.mark.parametrize("name", CALLS)
def test_a_result_is_bounded(name: str) -> None:
    server = FakeServer(LARGE)
    for line, body in ROUTES.items():
        server.answers(line, body)

    async def story() -> None:
        async with server.async_client() as sluice, Client(make_server(sluice, version="1")) as client:
            told = await client.call_tool(name, CALLS[name])
            assert not told.is_error, told.content[0].text
            for text in (told.content[0].text, json.dumps(told.structured_content, ensure_ascii=False)):
                assert 100 < results.tokens(text) <= results.MOST_TOKENS + NOTE_TOKENS

    asyncio.run(story())
