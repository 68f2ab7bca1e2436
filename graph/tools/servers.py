"""The servers that configurations of MCP clients name: `.mcp.json`, `claude_desktop_config.json`, `.vscode/mcp.json`,
`.cursor/mcp.json`.

What such a file hands to a server may be secret: the environment, headers, arguments and the query of an address. None
of it is told by `repr` or by an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sluice.contracts.errors import InvalidInput
from sluice.graph.extract.tool_lists import read_json

_KEYS = ("mcpServers", "servers")
_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>\w+)(?::-(?P<otherwise>[^}]*))?\}")
_NAME = re.compile(r"[^\w.@+-]+")


@dataclass(frozen=True)
class ToolServer:
    """A server to be asked for its tools: a command that is run and spoken to over its pipes, or an address."""

    name: str
    command: str | None = None
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """For people: the command's name, or the address's host."""
        if self.url is not None:
            return urlsplit(self.url).netloc.rpartition("@")[2]
        return self.command or ""

    @property
    def path(self) -> str:
        """The path of the document of its tools."""
        return f"mcp/{_NAME.sub('-', self.name).strip('-.') or 'server'}.json"


def read_configuration(text: str, source: str, environment: Mapping[str, str]) -> list[ToolServer]:
    """The servers that a client's configuration names, in its order; those that it switches off are left out.

    `${NAME}`, `${env:NAME}` and `${NAME:-otherwise}` stand for variables of `environment`, `${workspaceFolder}` for the
    folder that the file is about, `${userHome}` for the user's. Comments and last commas are left out, as editors do.

    Raises:
        InvalidInput: names `source`: no such file, or a variable that it needs is not set.
    """
    environment = {"workspaceFolder": _workspace(source), "userHome": str(Path.home()), **environment}
    try:
        content = read_json(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(source, "not JSON", "give a configuration of MCP servers, like .mcp.json") from error
    found = next((content[key] for key in _KEYS if isinstance(content, dict) and key in content), None)
    if not isinstance(found, dict):
        raise InvalidInput(source, "names no servers", f"an object {' or '.join(_KEYS)}")
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
