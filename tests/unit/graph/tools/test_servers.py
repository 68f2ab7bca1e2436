"""The servers that configurations of MCP clients name."""

from __future__ import annotations

import json

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.graph.tools.ask import ToolServer, read_configuration


def read(content: object, **environment: str) -> list[ToolServer]:
    text = content if isinstance(content, str) else json.dumps(content)
    return read_configuration(text, ".mcp.json", environment)


def test_commands_and_addresses_are_read_with_variables_of_the_environment() -> None:
    content = {
        "mcpServers": {
            "shop": {"command": "python", "args": ["-m", "${MODULE:-shop}"], "env": {"KEY": "${env:KEY}"}},
            "far": {"url": "https://tools.example/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
            "off": {"command": "x", "disabled": True},
        }
    }
    shop, far = read(content, KEY="k1")
    assert (shop.command, shop.arguments, shop.environment) == ("python", ("-m", "shop"), {"KEY": "k1"})
    assert (far.url, far.headers, far.place) == (
        "https://tools.example/mcp",
        {"Authorization": "Bearer k1"},
        "tools.example",
    )


def test_the_servers_of_an_editor_are_read_too_and_documents_have_safe_paths() -> None:
    [server] = read({"servers": {"../a b": {"type": "stdio", "command": "x"}}})
    assert server.path == "mcp/a-b.json"


def test_secrets_are_not_told() -> None:
    server = ToolServer(
        "shop",
        "python",
        ("--key=s3cret",),
        {"KEY": "s3cret"},
        "https://u:s3cret@tools.example/?k=s3cret",
        {"A": "s3cret"},
    )
    assert "s3cret" not in repr(server)
    assert server.place == "tools.example"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ([], "names no servers"),
        ({"mcpServers": {"a": 1}}, "not an object"),
        ({"mcpServers": {"a": {}}}, "neither a command nor a url"),
        ({"mcpServers": {"a": {"command": "x", "args": "y"}}}, "args"),
        ({"mcpServers": {"a": {"command": "x", "env": {"K": 1}}}}, "env"),
        ({"mcpServers": {"a": {"command": "${GONE}"}}}, "GONE is not set"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_told_by_its_file_and_remedy(content: object, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as told:
        read(content)
    assert ".mcp.json" in str(told.value)


def test_what_editors_write_is_read_with_comments_last_commas_and_their_own_variables() -> None:
    text = """{
      // for "everyone" /* here */
      "servers": {"shop": {"command": "x", "args": ["${workspaceFolder}/a//b", "/*c*/ \\" ,]"],},},
    }"""
    [server] = read_configuration(text, "/home/me/shop/.vscode/mcp.json", {})
    assert server.arguments == ("/home/me/shop/a//b", '/*c*/ " ,]')
