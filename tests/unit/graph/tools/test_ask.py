"""Real MCP servers are asked for their tools, over pipes and over HTTP through the egress proxy."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from sluice.contracts.errors import PolicyRefused, TimedOut, Unavailable
from sluice.contracts.graph.model import GraphDocument, NodeLabel
from sluice.graph.extract.extract import extract_edges
from sluice.graph.tools import ask
from sluice.graph.tools.ask import ToolServer, list_tools, tools_text
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.settings import EgressSettings
from tests.support.repository import IMPORT_PATH, REPOSITORY
from tests.support.waiting import until

ENVIRONMENT = {"PYTHONPATH": IMPORT_PATH}


def server(*arguments: str, **environment: str) -> ToolServer:
    module = ("-m", "tests.support.mcp_server", *arguments)
    return ToolServer("near", sys.executable, module, {**ENVIRONMENT, **environment})


def test_a_command_is_run_and_lists_its_tools_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIDDEN", "not for servers")
    listing = list_tools(server(SEEN="key"), proxy_url=None, timeout_seconds=60)
    assert (listing.name, listing.version) == ("shop", "1.2")
    assert [tool["name"] for tool in listing.tools] == ["add_to_cart", "pay", "seen_key_False"]
    assert listing.tools[0]["inputSchema"]["required"] == ["item"]


def test_the_document_of_a_server_defines_its_tools() -> None:
    text = tools_text(list_tools(server(), proxy_url=None, timeout_seconds=60))
    edges = extract_edges(GraphDocument("d1", "mcp/near.json", None, None, None, text, {}))
    tools = {edge.source.key: edge.lines for edge in edges if edge.source.label is NodeLabel.TOOL}
    assert set(tools) == {"shop/add_to_cart", "shop/pay"}
    lines = text.split("\n")
    assert all('"name"' in lines[line - 1] for [line] in tools.values())
    assert json.loads(text)["serverInfo"] == {"name": "shop", "version": "1.2"}


def test_a_server_that_fails_is_told_without_what_it_wrote() -> None:
    with pytest.raises(Unavailable) as told:
        list_tools(server("--crash"), proxy_url=None, timeout_seconds=60)
    assert "near" in str(told.value)
    assert "run it by hand" in str(told.value)
    assert "secret" not in str(told.value)
    with pytest.raises(Unavailable, match="no such program"):
        list_tools(ToolServer("gone", "/no/such/program"), proxy_url=None, timeout_seconds=10)


def test_a_server_that_says_nothing_is_left_in_time() -> None:
    silent = ToolServer("silent", sys.executable, ("-c", "import sys; sys.stdin.read()"))
    with pytest.raises(TimedOut):
        list_tools(silent, proxy_url=None, timeout_seconds=1.0)


def test_a_list_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "MOST_BYTES", 100)
    with pytest.raises(PolicyRefused, match="lists more than 100 bytes"):
        list_tools(server(), proxy_url=None, timeout_seconds=60)


@pytest.fixture
def port() -> Iterator[int]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        chosen = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.support.mcp_server", str(chosen)]
    served = subprocess.Popen(command, cwd=REPOSITORY, env={**os.environ, **ENVIRONMENT}, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        with closing(socket.socket()) as attempt:
            return attempt.connect_ex(("127.0.0.1", chosen)) == 0

    try:
        until(answers, 60)
        yield chosen
    finally:
        served.kill()
        served.wait()


def test_an_address_is_asked_through_the_egress_proxy_where_its_rules_let_it(port: int) -> None:
    far = ToolServer("far", url=f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "Bearer s3cret"})
    refused: list[str] = []
    for allow in ((f"mcp=127.0.0.1:{port}",), (f"crawl=127.0.0.1:{port}",)):
        proxy = EgressProxy(EgressSettings(allow=allow), on_refusal=lambda refusal: refused.append(refusal.rule))
        proxy.start()
        try:
            if allow[0].startswith("mcp"):
                listing = list_tools(far, proxy_url=proxy.url_for("mcp"), timeout_seconds=60)
                assert [tool["name"] for tool in listing.tools] == ["add_to_cart", "pay"]
                assert refused == []
            else:
                with pytest.raises(Unavailable) as told:
                    list_tools(far, proxy_url=proxy.url_for("mcp"), timeout_seconds=60)
                assert "s3cret" not in str(told.value)
                assert refused
        finally:
            proxy.stop()
