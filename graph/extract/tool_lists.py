"""Tools in the lists of servers, in clients' configurations and in Python files, and the failing tests in a report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Node, NodeLabel, Origin, document_node, symbol
from sluice.graph.extract.addresses import path_address
from sluice.graph.extract.languages.rules import last_line_of, line_of
from sluice.graph.extract.python.reading import Reading, Scope, Value, string_content, text

if TYPE_CHECKING:
    from tree_sitter import Node as SyntaxNode

_TEXT = r'(?P<text>"(?:[^"\\\n]|\\.)*")'
_COMMENT = re.compile(_TEXT + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(_TEXT + r"|,(?=\s*[}\]])")


def read_json(text: str) -> Any:
    """Parse JSON, also with comments and trailing commas. Raises ValueError, or RecursionError, for other text."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(_LAST_COMMA.sub(_kept, _COMMENT.sub(_kept, text)))


def _kept(found: re.Match[str]) -> str:
    return found["text"] or ""


FACTS_KEY, TESTS = "repository_facts", "tests"
"""Metadata by which ingest marks such a document (`ingest.repository.facts`)."""
_FAILED = re.compile(r"FAILED (?P<path>[^\s:]+)(?P<names>(?:::\S*)?)")
_PARAMETERS = re.compile(r"\[.*\Z", re.DOTALL)
_DETAIL = "failing test"
_LANGUAGES = {
    ".py": "python",
    **dict.fromkeys((".js", ".ts", ".tsx"), "javascript"),
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
}


def is_test_report(document: GraphDocument) -> bool:
    """Return whether the document is a report of failing tests."""
    return document.metadata.get(FACTS_KEY) == TESTS


def failing_test_edges(document: GraphDocument) -> Iterator[Edge]:
    """Yield for each failing test REFERS_TO its symbol, and LINKS_TO its file."""
    source = document_node(document.document_id)
    for number, line in enumerate(document.text.split("\n"), 1):
        found = _FAILED.match(line)
        if found is None:
            continue
        path, names = found["path"].strip("/"), _PARAMETERS.sub("", found["names"]).split("::")
        suffix = next((suffix for suffix in _LANGUAGES if path.endswith(suffix)), "")
        module = path.removesuffix(suffix).replace("/", ".")
        name = ".".join(part for part in (module, *names) if part)
        test = symbol(_LANGUAGES.get(suffix, "python"), name)
        yield Edge(EdgeType.REFERS_TO, source, test, Origin.TEST, (number,), _DETAIL)
        yield Edge(EdgeType.LINKS_TO, source, path_address(_file(path, suffix)), Origin.TEST, (number,), _DETAIL)


def _file(path: str, suffix: str) -> str:
    """Return the file of a test. A report without files names a module by dots, maybe with a class in it."""
    if suffix:
        return path
    parts = path.split("/")
    while len(parts) > 1 and parts[-1][:1].isupper():
        parts.pop()
    return "/".join(parts) + ".py"


MOST_CHARACTERS = 2_000_000
"""Limit of a text that is parsed as JSON; a list of a hundred tools has some 200,000."""
ALL_TOOLS = "*"
_SERVER_FILES = re.compile(r"(?:^|/)mcp/(?P<server>[^/]+)\.json\Z")
CONFIG_KEYS = ("mcpServers", "servers")


def may_list_tools(document: GraphDocument) -> bool:
    """Return whether a text is worth parsing as JSON: cheap."""
    head = document.text[:1_000].lstrip()
    text = document.text[:MOST_CHARACTERS]
    return head[:1] in ("{", "[", "/") and ('"tools"' in text or '"mcpServers"' in text or '"servers"' in text)


def tool_list_edges(document: GraphDocument) -> Iterator[Edge]:
    """Yield DEFINED_IN edges of the tools that a document lists or the servers that it configures."""
    if len(document.text) > MOST_CHARACTERS:
        return
    try:
        content = read_json(document.text)
    except (ValueError, RecursionError):
        return
    target = document_node(document.document_id)
    lines = _lines_of(document.text)
    for server, tool, detail in _named(content, document):
        key = "/".join(part for part in (server, tool) if part)
        line = lines.get((server, True) if tool == ALL_TOOLS else (tool, False), ())
        yield Edge(EdgeType.DEFINED_IN, Node(NodeLabel.TOOL, key), target, Origin.TOOL, line, detail)


def _named(content: Any, document: GraphDocument) -> Iterator[tuple[str, str, str]]:
    """Yield server, tool and kind for each tool or server that a text names."""
    if isinstance(content, dict):
        for key in CONFIG_KEYS:
            for server, entry in _items(content.get(key)):
                if isinstance(entry, dict) and ("command" in entry or "url" in entry):
                    yield server, ALL_TOOLS, "server"
        for one in (content, content.get("result")):
            if isinstance(one, dict):
                yield from _listed(one.get("tools"), _server_of(content, one, document))
    elif isinstance(content, list):
        for one in content:
            if isinstance(one, dict) and isinstance(one.get("tools"), list):
                yield from _listed(one["tools"], _server_of(one, one, document))


def _listed(tools: object, server: str) -> Iterator[tuple[str, str, str]]:
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str) or not name:
            continue
        if any(isinstance(tool.get(key), dict) for key in ("inputSchema", "input_schema", "parameters")):
            yield server, name, "tool"


def _server_of(outer: Mapping[str, Any], inner: Mapping[str, Any], document: GraphDocument) -> str:
    """Return the listing server's name: from the text, or from the path that `sluice graph tools` sets."""
    for holder in (inner, outer):
        info = holder.get("serverInfo")
        for named in (info.get("name") if isinstance(info, dict) else None, holder.get("server")):
            if isinstance(named, str) and named:
                return named
    found = _SERVER_FILES.search(str(PurePosixPath(document.path or "")))
    return found["server"] if found else ""


def _items(servers: object) -> list[tuple[str, object]]:
    return [(name, entry) for name, entry in servers.items() if name] if isinstance(servers, dict) else []


_WRITTEN = re.compile(r'(?P<name>"name"\s*:\s*)?(?P<string>"(?:[^"\\]|\\.)*")(?P<colon>\s*:)?')


def _lines_of(text: str) -> dict[tuple[str, bool], tuple[int, ...]]:
    """Return the lines on which JSON names things first: by the name and whether it is a key (`"shop": {`)."""
    lines: dict[tuple[str, bool], tuple[int, ...]] = {}
    line, counted = 1, 0
    for found in _WRITTEN.finditer(text):
        line, counted = line + text.count("\n", counted, found.start()), found.start()
        if found["name"] or found["colon"]:
            with suppress(ValueError):
                lines.setdefault((json.loads(found["string"], strict=False), not found["name"]), (line,))
    return lines


_SERVERS = frozenset({"FastMCP", "Server", "MCPServer", "MCP"})


def registered_tool_edges(document: GraphDocument, reading: Reading) -> Iterator[Edge]:
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
    for scope, called, is_called in reading.uses:
        call = called.parent if is_called and text(called).endswith(("add_tool", "Tool")) else None
        if call is None:
            continue
        if text(called).endswith("add_tool"):
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
