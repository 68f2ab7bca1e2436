"""Asks an MCP server for its tools, by the package `mcp` (the extra `mcp`): over pipes or streamable HTTP.

The servers are those that configurations of MCP clients name: `.mcp.json`, `claude_desktop_config.json`,
`.vscode/mcp.json`, `.cursor/mcp.json`. Such a file may hand secrets to a server: in the environment, headers,
arguments and the query of an address. Neither `repr` nor an error shows any of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sluice.contracts.errors import InvalidInput, PolicyRefused, SluiceError, TimedOut, Unavailable
from sluice.graph.extract.tool_lists import CONFIG_KEYS, read_json

if TYPE_CHECKING:
    import httpx2

MOST_PAGES = 100
"""Most pages that are read of one list, as a server's pages may never end. The rest is ignored."""
MOST_BYTES = 4_000_000
"""Limit of one server's list of tools, and of all its HTTP responses. A list of 100 tools has some 200 kB."""
_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
_INSTALL = "pip install 'sluice[mcp]'"


@dataclass(frozen=True)
class Listing:
    """A server's own name and version, and its tools by their names."""

    server: ToolServer
    name: str
    version: str
    tools: tuple[dict[str, Any], ...]


def list_tools(server: ToolServer, *, proxy_url: str | None, timeout_seconds: float) -> Listing:
    """Ask a server for its tools. It receives no data, and none of its tools is called.

    A command runs with a minimal environment (`HOME`, `PATH` and the like) and the additions of its configuration; its
    standard error is dropped. HTTP goes through `proxy_url`, whose rules decide on the addresses.

    Raises:
        InvalidInput: the package `mcp` is not installed, or there is no proxy for an address.
        PolicyRefused: rule `bytes`: the list is longer than `MOST_BYTES`.
        TimedOut, Unavailable: the server does not answer, or not as an MCP server does.
    """
    _require_mcp()
    try:
        return asyncio.run(asyncio.wait_for(_listing(server, proxy_url, timeout_seconds), timeout_seconds))
    except SluiceError:
        raise
    except TimeoutError as error:
        raise TimedOut(f"{server.name} ({server.place}) did not answer within {timeout_seconds:g} s") from error
    except Exception as error:  # noqa: BLE001 - the package raises many kinds, in groups; each is this server's failure
        raise _told(server, error) from None


async def _listing(server: ToolServer, proxy_url: str | None, timeout_seconds: float) -> Listing:
    from mcp import Client

    async with AsyncExitStack() as stack:
        transport = await _transport(server, proxy_url, timeout_seconds, stack)
        client = await stack.enter_async_context(Client(transport, read_timeout_seconds=timeout_seconds, cache=None))
        tools: list[dict[str, Any]] = []
        cursor: str | None = None
        size = 0
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                said = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
                tools.append({key: said[key] for key in _FIELDS if key in said})
                size += len(json.dumps(tools[-1]))
                if size > MOST_BYTES:
                    raise _too_large(server)
            cursor = page.next_cursor
            if cursor is None:
                break
        info = client.server_info
        by_name = sorted(tools, key=lambda tool: str(tool["name"]))
        return Listing(server, info.name if info else server.name, info.version if info else "", tuple(by_name))


async def _transport(server: ToolServer, proxy_url: str | None, timeout_seconds: float, stack: AsyncExitStack) -> Any:
    from mcp import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if server.url is None:
        parameters = StdioServerParameters(
            command=server.command or "", args=list(server.arguments), env=dict(server.environment)
        )
        errors = stack.enter_context(open(os.devnull, "w"))  # noqa: ASYNC230, SIM115 - waits for nothing
        return stdio_client(parameters, errlog=errors)
    if proxy_url is None:
        raise InvalidInput(server.name, "an address needs the egress proxy")
    http = await stack.enter_async_context(_http_client(server, proxy_url, timeout_seconds))
    return streamable_http_client(server.url, http_client=http)


def _http_client(server: ToolServer, proxy_url: str, timeout_seconds: float) -> httpx2.AsyncClient:
    import httpx2

    class Bounded(httpx2.AsyncBaseTransport):
        """Limits the bytes of all responses together."""

        def __init__(self) -> None:
            self._inner = httpx2.AsyncHTTPTransport(proxy=proxy_url, trust_env=False)
            self._left = MOST_BYTES

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await self._inner.handle_async_request(request)
            return httpx2.Response(
                response.status_code,
                headers=response.headers,
                stream=Counted(response.stream, self._count),
                extensions=response.extensions,
            )

        async def aclose(self) -> None:
            await self._inner.aclose()

        def _count(self, size: int) -> None:
            self._left -= size
            if self._left < 0:
                raise _too_large(server)

    class Counted(httpx2.AsyncByteStream):
        """A body that counts each of its pieces."""

        def __init__(self, stream: Any, count: Any) -> None:
            self._stream = stream
            self._count = count

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._stream:
                self._count(len(piece))
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    headers = dict(server.headers)
    return httpx2.AsyncClient(transport=Bounded(), headers=headers, timeout=timeout_seconds, trust_env=False)


def _require_mcp() -> None:
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError as error:
        raise InvalidInput("tools", "the package mcp is not installed", _INSTALL) from error


def _too_large(server: ToolServer) -> PolicyRefused:
    return PolicyRefused("bytes", f"{server.name} ({server.place}) lists more than {MOST_BYTES:,} bytes")


def _told(server: ToolServer, error: BaseException) -> SluiceError:
    """Return the first error of a group, named by its kind alone: a message may repeat a secret of the address."""
    leaves = [error]
    while isinstance(leaves[0], BaseExceptionGroup):
        leaves = [*leaves[0].exceptions, *leaves[1:]]
    for leaf in leaves:
        if isinstance(leaf, SluiceError):
            return leaf
    if isinstance(leaves[0], TimeoutError):
        return TimedOut(f"{server.name} ({server.place}) did not answer in time")
    kind = type(leaves[0]).__name__
    return Unavailable(f"{server.name} ({server.place}) did not list its tools: {kind}; {_likely(server, leaves[0])}")


def _likely(server: ToolServer, error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such program"
    if server.url is None:
        return "the process ended, or does not speak MCP: run it by hand to see what it says"
    return f'it does not answer as an MCP server does, or egress forbids it: egress.allow = ["mcp={server.place}"]'


def tools_text(listing: Listing) -> str:
    """Return the tools as JSON, in one order: the same tools give the same text."""
    tools = [{**tool, **{key: _sorted(tool[key]) for key in tool if key != "name"}} for tool in listing.tools]
    info = {"name": listing.name, "version": listing.version}
    text = json.dumps({"serverInfo": info, "tools": tools}, indent=2, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode() + "\n"


def tools_title(listing: Listing) -> str:
    """Return the title of the document."""
    return f"Tools of the MCP server {listing.name}"


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>\w+)(?::-(?P<otherwise>[^}]*))?\}")
_NAME = re.compile(r"[^\w.@+-]+")


@dataclass(frozen=True)
class ToolServer:
    """A server to query for its tools: a command that is run and spoken to over its pipes, or an address."""

    name: str
    command: str | None = None
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """A name for people: the command's, or the address's host."""
        if self.url is not None:
            return urlsplit(self.url).netloc.rpartition("@")[2]
        return self.command or ""

    @property
    def path(self) -> str:
        """The path of the document of its tools."""
        return f"mcp/{_NAME.sub('-', self.name).strip('-.') or 'server'}.json"


def read_configuration(text: str, source: str, environment: Mapping[str, str]) -> list[ToolServer]:
    """Return the servers that a client's configuration names, in its order, without those that it switches off.

    `${NAME}`, `${env:NAME}` and `${NAME:-otherwise}` stand for variables of `environment`, `${workspaceFolder}` for the
    folder that the file is about, `${userHome}` for the user's. Comments and trailing commas are allowed. Raises
    `InvalidInput`, which names `source`, if the file is no such configuration or lacks a variable.
    """
    environment = {"workspaceFolder": _workspace(source), "userHome": str(Path.home()), **environment}
    try:
        content = read_json(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(source, "not JSON", "give a configuration of MCP servers, like .mcp.json") from error
    found = next((content[key] for key in CONFIG_KEYS if isinstance(content, dict) and key in content), None)
    if not isinstance(found, dict):
        raise InvalidInput(source, "names no servers", f"an object {' or '.join(CONFIG_KEYS)}")
    return [
        _server(name, entry, f"{source}: {name}", environment)
        for name, entry in found.items()
        if not (isinstance(entry, dict) and (entry.get("disabled") is True or entry.get("enabled") is False))
    ]


def _workspace(source: str) -> str:
    folder = Path(source).absolute().parent
    return str(folder.parent if folder.name in (".vscode", ".cursor") else folder)


def _server(name: str, entry: Any, where: str, environment: Mapping[str, str]) -> ToolServer:
    if not isinstance(entry, dict):
        raise InvalidInput(where, "not an object")
    command, url = entry.get("command"), entry.get("url") or entry.get("serverUrl")
    if not isinstance(command, str) and not isinstance(url, str):
        raise InvalidInput(where, "has neither a command nor a url")
    arguments = entry.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
        raise InvalidInput(where, "its args are not a list of texts")

    def filled(value: str) -> str:
        return _VARIABLE.sub(lambda variable: _value(variable, where, environment), value)

    return ToolServer(
        name=name,
        command=filled(command) if isinstance(command, str) else None,
        arguments=tuple(map(filled, arguments)),
        environment={key: filled(value) for key, value in _texts(entry.get("env"), f"{where}: env").items()},
        url=None if isinstance(command, str) else filled(str(url)),
        headers={key: filled(value) for key, value in _texts(entry.get("headers"), f"{where}: headers").items()},
    )


def _texts(found: object, where: str) -> dict[str, str]:
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InvalidInput(where, "not an object of texts")
    return found


def _value(variable: re.Match[str], where: str, environment: Mapping[str, str]) -> str:
    found = environment.get(variable["name"], variable["otherwise"])
    if found is None:
        raise InvalidInput(where, f"the variable {variable['name']} is not set", f"export {variable['name']}")
    return found
