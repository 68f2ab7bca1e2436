from __future__ import annotations

import pytest

from sluice.contracts.graph.model import Edge, NodeLabel, Origin
from tests.support.graph.python_file import edges_of


def _tools(text: str) -> dict[str, Edge]:
    return {edge.source.key: edge for edge in edges_of(text) if edge.source.label is NodeLabel.TOOL}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("@mcp.tool()\ndef add(a): ...", "add"),
        ("@server.tool\ndef add(a): ...", "add"),
        ("@server.tool('sum')\ndef add(a): ...", "sum"),
        ("@server.tool(name='sum')\nasync def add(a): ...", "sum"),
        ("mcp = FastMCP('shop')\n@mcp.tool()\ndef add(a): ...", "shop/add"),
        ("class S:\n    def f(self):\n        @self.mcp.tool()\n        def add(a): ...", "add"),
        ("mcp = FastMCP(name='shop')\ndef add(a): ...\nmcp.add_tool(add)", "shop/add"),
        ("async def listed(): return [types.Tool(name='add', inputSchema={})]", "add"),
    ],
)
def test_a_registration_defines_the_tool_here(text: str, name: str) -> None:
    tools = _tools(text)
    assert tools.keys() == {name}
    assert tools[name].origin is Origin.TOOL
    assert tools[name].target.key == "d"


def test_other_decorators_and_classes_named_tool_define_none() -> None:
    assert _tools("@tool\ndef a(): ...\n@x.tools()\ndef b(): ...\nTool(name='hammer')\n") == {}
