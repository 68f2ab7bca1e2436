"""The guides: what they say to type is typed in order, against a running instance; what they say to paste works."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.support.chat_server import chat_server
from tests.support.instance import Instance
from tests.support.repository import REPOSITORY

GUIDES = REPOSITORY / "docs" / "guides"
AGENT = REPOSITORY / "docs" / "examples" / "agent.py"
ADDRESS = "http://127.0.0.1:8080"
LIBRARIES = {"langchain": "langchain_core", "llamaindex": "llama_index"}
"""What an example needs that the tests do not install, by the module that it imports."""


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a guide in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (GUIDES / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with Instance(tmp_path_factory.mktemp("guides")) as running:
        program = running.folder / "bin" / "sluice"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sluice.cli "$@"\n')
        program.chmod(0o755)
        yield running


@pytest.fixture(scope="module")
def key(instance: Instance) -> str:
    made = instance.sluice("keys", "guides", "--create", "--role", "operator", "--json")
    return str(json.loads(made.stdout)["key"])


def environment(instance: Instance, key: str = "") -> dict[str, str]:
    path = f"{instance.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**instance.environment, "PATH": path, "SLUICE_URL": instance.url, "SLUICE_API_KEY": key}


def typed(instance: Instance, lines: list[str], key: str = "") -> str:
    """What a shell prints in which all of it was typed; the first command that fails ends it, and the test."""
    script = "set -eo pipefail\n" + "\n".join(lines).replace(ADDRESS, instance.url)
    shell = ["bash", "-c", script]
    done = subprocess.run(
        shell,
        cwd=instance.folder,
        env=environment(instance, key),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_python(instance: Instance, key: str, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=instance.folder,
        env={**environment(instance, key), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_quickstart_leads_to_cited_answers(instance: Instance) -> None:
    said = typed(instance, blocks("quickstart.md", "sh"))
    assert "[1] leases:1-1" in said
    assert "A worker holds a lease of fifteen seconds" in said
    assert re.search(r"^1 .*notes/dead-letters.md", said, re.MULTILINE)
    assert "event: AnswerReady" in said
    assert " working (query" in said


@pytest.mark.parametrize(("page", "found"), [("keys.md", "crawler-bot"), ("api.md", "heartbeat")])
def test_what_a_guide_says_to_type_works(instance: Instance, key: str, page: str, found: str) -> None:
    assert found in typed(instance, blocks(page, "sh"), key)


def test_the_problem_that_the_guide_shows_is_the_one_that_comes(instance: Instance, key: str) -> None:
    [shown] = [json.loads(block) for block in blocks("api.md", "json")]
    asked = {"Authorization": f"Bearer {key}"}
    came = instance.http.post("/v1/gate", json={"qery": "x"}, headers=asked).json()
    assert {name: came[name] for name in shown if name != "instance"} == {
        name: told for name, told in shown.items() if name != "instance"
    }


def test_the_client_guide_runs_as_one_program(instance: Instance, key: str) -> None:
    for block in blocks("client.md", "python"):
        needed = [library for module, library in LIBRARIES.items() if f"sluice_client.{module}" in block]
        compile(block, "client.md", "exec")
        if not needed:
            said = run_python(instance, key, "-c", f"from sluice_client import SluiceClient\n{block}")
            assert "heapq" in said or "assert" in block or "top_k" in said


@pytest.mark.parametrize("library", LIBRARIES)
def test_retrievers_of_other_libraries_find_what_is_there(instance: Instance, key: str, library: str) -> None:
    pytest.importorskip(LIBRARIES[library])
    [block] = [one for one in blocks("client.md", "python") if f"sluice_client.{library}" in one]
    assert run_python(instance, key, "-c", block)


def test_the_agent_remembers_and_cites(instance: Instance, key: str) -> None:
    """First without a model, then with one, whose words are asked for sources and memory alike."""
    typed(instance, blocks("quickstart.md", "sh")[1:2], key)
    assert len(AGENT.read_text().splitlines()) <= 50
    said = run_python(instance, key, str(AGENT), "How long is a lease?")
    assert "fifteen seconds" in said
    assert "[1] leases:" in said
    with chat_server(lambda asked: "Fifteen seconds [1]." if "answers: How long" in asked else "What?") as chat:
        model = {"MODEL_URL": chat.base_url, "MODEL": "judge-1"}
        assert "Fifteen seconds [1].\n\n[1] leases:" in run_python(
            instance, key, str(AGENT), "How long is a lease?", **model
        )


def test_what_hosts_of_mcp_are_told_leads_to_the_tools(instance: Instance, key: str) -> None:
    """The configuration of a host with headers, of one that starts a program, and the command of one that has a command."""
    told = [
        json.loads(block.replace("slk_…", key).replace(ADDRESS, instance.url)) for block in blocks("mcp.md", "json")
    ]
    over_http, started = (one["mcpServers"]["sluice"] for one in told)
    page = (GUIDES / "mcp.md").read_text()
    [command] = re.findall(r"^ {4}(claude mcp add .*)$", page, re.MULTILINE)
    assert shlex.split(command)[-3:] == [f"{ADDRESS}/mcp", "--header", "Authorization: Bearer slk_…"]
    rows = re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert [started["args"][0], *started["args"][1].split("/")[-2:], started["args"][2]] == [
        "--from",
        "clients",
        "python[mcp]",
        "sluice-mcp",
    ]

    async def tools(transport: Any) -> set[str]:
        async with Client(transport) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    async def over_headers() -> set[str]:
        async with httpx2.AsyncClient(headers=over_http["headers"]) as http:
            return await tools(streamable_http_client(over_http["url"], http_client=http))

    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "sluice_client.mcp.stdio"],
        env={**started["env"], "PYTHONPATH": instance.environment["PYTHONPATH"]},
    )
    assert asyncio.run(tools(program)) == asyncio.run(over_headers()) == named


def test_the_manual_is_served_without_a_key(instance: Instance, key: str) -> None:
    index = instance.http.get("/llms.txt").text
    for path in re.findall(r"\]\((/docs/[^)]+)\)", index):
        assert instance.http.get(path).text.startswith("# "), path
    assert instance.http.get("/v1/runs").status_code == 401
