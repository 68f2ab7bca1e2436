"""Tools of MCP servers, as servers list them and as clients configure them."""

from __future__ import annotations

import json

import pytest

from sluice.contracts.graph.model import EdgeType, GraphDocument, NodeLabel
from sluice.graph.extract.extract import extract_edges

TOOLS = {"tools": [{"name": name, "description": "x", "inputSchema": {"type": "object"}} for name in ("add", "drop")]}


def tools(content: object, path: str = "main/tools.json") -> dict[str, tuple[int, ...]]:
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    edges = extract_edges(GraphDocument("d1", path, None, None, None, text, {}))
    return {
        edge.source.key: edge.lines
        for edge in edges
        if edge.type is EdgeType.DEFINED_IN and edge.source.label is NodeLabel.TOOL
    }


def test_a_list_of_tools_defines_them_each_on_its_line() -> None:
    assert tools(TOOLS) == {"add": (4,), "drop": (11,)}


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ({**TOOLS, "server": "shop"}, "x.json"),
        ({**TOOLS, "serverInfo": {"name": "shop", "version": "1"}}, "x.json"),
        ({"jsonrpc": "2.0", "id": 1, "result": {**TOOLS, "serverInfo": {"name": "shop"}}}, "x.json"),
        (TOOLS, "mcp/shop.json"),
        ([{"server": "shop", **TOOLS}], "all.json"),
    ],
)
def test_a_server_is_named_by_the_list_or_by_the_documents_path(content: object, path: str) -> None:
    assert set(tools(content, path)) == {"shop/add", "shop/drop"}


def test_a_clients_configuration_names_servers_and_tells_nothing_of_their_secrets() -> None:
    text = json.dumps(
        {"mcpServers": {"shop": {"command": "x", "env": {"KEY": "hunter2"}}, "far": {"url": "u"}}}, indent=1
    )
    assert tools(text, ".mcp.json") == {"shop/*": (3,), "far/*": (9,)}
    edges = extract_edges(GraphDocument("d1", ".mcp.json", None, None, None, text, {}))
    assert "hunter2" not in repr(edges)


@pytest.mark.parametrize(
    "content",
    [{"tools": ["hammer"]}, {"tools": [{"name": "x"}]}, "{", "[" * 100_000, {"servers": {"a": 1}}, {"tools": {}}],
)
def test_other_json_defines_no_tools(content: object) -> None:
    assert tools(content) == {}


def test_a_configuration_with_comments_is_read_as_its_editor_reads_it() -> None:
    text = '// our servers\n{"servers": {\n  /* the shop */ "shop": {"command": "x", "env": {"KEY": "s3cret"},},\n}}'
    assert tools(text, "main/.vscode/mcp.json") == {"shop/*": (3,)}
