"""Finds tools that a file registers with MCP: `@mcp.tool()`, `mcp.add_tool(f)`, `Tool(name=…, inputSchema=…)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Node, NodeLabel, Origin, document_node
from sluice.graph.extract.languages.rules import last_line_of, line_of
from sluice.graph.extract.python.reading import Reading, Scope, Value, string_content, text

if TYPE_CHECKING:
    from tree_sitter import Node as SyntaxNode

_SERVERS = frozenset({"FastMCP", "Server", "MCPServer", "MCP"})


def tool_edges(document: GraphDocument, reading: Reading) -> Iterator[Edge]:
    """Yield DEFINED_IN edges of the tools, from `server/tool`, or the tool's name where the server has none."""
    target = document_node(document.document_id)
    registered = [(function, one) for function in reading.scopes for one in function.decorators.items()]
    for function, (decorator, last) in registered:
        expression = decorator.named_children[0] if last == "tool" else None
        called = expression.child_by_field_name("function") if expression and expression.type == "call" else expression
        if called is None or called.type != "attribute":
            continue
        name = _string_argument(expression, "name", 0) or function.name.rpartition(".")[2]
        server = _server(called.child_by_field_name("object"), function.around)
        yield _tool(server, name, target, line_of(decorator), last_line_of(function.node))
    for scope, call in reading.calls:
        called = call.child_by_field_name("function")
        if called is not None and text(called).endswith("add_tool"):
            name = _string_argument(call, "name", 1) or _first_name(call)
            server = _server(called.child_by_field_name("object"), scope)
        else:
            name = _string_argument(call, "name", None) if _argument(call, "inputSchema", None) is not None else ""
            server = ""
        if name:
            yield _tool(server, name, target, line_of(call), last_line_of(call))


def _tool(server: str, name: str, target: Node, first: int, last: int) -> Edge:
    key = f"{server}/{name}" if server else name
    return Edge(EdgeType.DEFINED_IN, Node(NodeLabel.TOOL, key), target, Origin.TOOL, (first, last), "tool")


def _server(node: SyntaxNode | None, scope: Scope) -> str:
    """Return the name that a registration's server was constructed with: `weather` of `mcp = FastMCP("weather")`."""
    holder = scope.holder(text(node)) if node is not None and node.type == "identifier" else None
    for binding in holder.bindings[text(node)] if holder is not None else ():
        made = binding.node if isinstance(binding, Value) else None
        if made is not None and made.type == "call":
            called = text(made.child_by_field_name("function")).rpartition(".")[2]
            if called in _SERVERS and (name := _string_argument(made, "name", 0)):
                return name
    return ""


def _first_name(call: SyntaxNode) -> str:
    node = _argument(call, None, 0)
    return text(node).rpartition(".")[2] if node is not None and node.type in ("identifier", "attribute") else ""


def _string_argument(call: SyntaxNode | None, keyword: str, position: int | None) -> str:
    node = _argument(call, keyword, position)
    if node is None or node.type != "string":
        return ""
    return string_content(node).strip()


def _argument(call: SyntaxNode | None, keyword: str | None, position: int | None) -> SyntaxNode | None:
    arguments = call.child_by_field_name("arguments") if call is not None else None
    positional: list[SyntaxNode] = []
    for child in arguments.named_children if arguments is not None else ():
        if child.type == "keyword_argument":
            if keyword is not None and text(child.child_by_field_name("name")) == keyword:
                return child.child_by_field_name("value")
        elif child.type != "comment":
            positional.append(child)
    return positional[position] if position is not None and position < len(positional) else None
