"""An MCP server whose errors a model can mend: arguments are checked before a tool is called, and every failure of
Sluice is told with its remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import ValidationError

from sluice_client.errors import InvalidInput, NotFound, PolicyRefused, SluiceError

OTHER_NAMES = {
    "query": "question user_query search_query q prompt",
    "cypher": "query question",
    "what": "query",
    "corpus": "corpora collection collection_name index",
    "corpora": "corpus collection collection_name",
    "top_k": "limit k num_results",
    "limit": "top_k k num_results",
    "max_lines": "limit",
    "run_id": "id",
    "document_id": "id doc_id",
    "node": "id node_id",
    "url": "uri",
    "where": "filter filters",
    "wait_seconds": "timeout wait",
    "parameters": "params",
    "text": "content learning",
}
"""Names by which models call an argument, by its name here."""


class MendableServer(MCPServer[Any]):
    """An `MCPServer` that refuses unknown arguments, takes known other names, and tells remedies."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Raises `ToolError` with a sentence for the model for all that it can mend."""
        tool = self._tool_manager.get_tool(name)
        if tool is None:
            known = [one.name for one in self._tool_manager.list_tools()]
            like = difflib.get_close_matches(name, known, 1, 0.5)
            meant = f": did you mean {like[0]}?" if like else f": there are {', '.join(known)}"
            raise ToolError(f"there is no tool {name}{meant}")
        try:
            return await super().call_tool(name, fitted(tool.parameters, arguments), context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                raise ToolError("; ".join(_wrong(cause))) from error
            if isinstance(cause, SluiceError):
                raise ToolError(sentence(cause)) from error
            if isinstance(cause, ToolError):
                raise ToolError(str(cause)) from error
            raise


def fitted(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names that a tool takes, those that are null left out.

    Raises:
        ToolError: some are unknown, or some that are needed are missing; names all of them.
    """
    known, fit, wrong = schema.get("properties", {}), {}, []
    given = {name: value for name, value in arguments.items() if value is not None}
    for name, value in given.items():
        if (meant := _meant(name, known, given)) is None:
            like = difflib.get_close_matches(name, known, 1, 0.5)
            wrong.append(f"unknown argument {name!r}" + (f": did you mean {like[0]!r}?" if like else ""))
        else:
            fit[meant] = [value] if known[meant].get("type") == "array" and isinstance(value, str) else value
    for name in schema.get("required", ()):
        if name not in fit:
            wrong.append(f"{name!r} is missing: {known[name].get('description', 'it is needed')}")
    if wrong:
        raise ToolError("; ".join(wrong) + f". It takes {', '.join(known)}.")
    return fit


def _meant(name: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    if name in known:
        return name
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")
    free = [one for one in known if one not in given]
    return next((one for one in free if one == snake or snake in OTHER_NAMES.get(one, "").split()), None)


def _wrong(error: ValidationError) -> Iterator[str]:
    for entry in error.errors(include_url=False):
        place = ".".join(str(step) for step in entry["loc"]) or "arguments"
        given = str(entry.get("input"))[:80]
        yield f"{place}: {entry['msg']}, not {given!r}"


def sentence(error: SluiceError) -> str:
    """Return what went wrong, and what would mend it."""
    told = str(error)
    more = [f"{one['detail']} ({one.get('pointer') or one.get('parameter')})" for one in error.errors[1:]]
    told += "".join(f"; {one}" for one in more)
    if error.remedy and not isinstance(error, InvalidInput | PolicyRefused):
        told += f" (remedy: {error.remedy})"
    elif isinstance(error, NotFound):
        told += "; sluice_list shows what there is"
    if error.is_retryable:
        told += f"; trying again in {error.retry_after_seconds:g} s can help"
    return told
