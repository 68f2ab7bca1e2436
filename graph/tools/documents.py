"""The document of a server's tools: what `sluice graph tools` hands in."""

from __future__ import annotations

import json
from typing import Any

from sluice.graph.tools.ask import Listing


def tools_text(listing: Listing) -> str:
    """The tools as JSON, in one order: the same tools give the same text."""
    tools = [{**tool, **{key: _sorted(tool[key]) for key in tool if key != "name"}} for tool in listing.tools]
    info = {"name": listing.name, "version": listing.version}
    text = json.dumps({"serverInfo": info, "tools": tools}, indent=2, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode() + "\n"


def tools_title(listing: Listing) -> str:
    """The title of the document."""
    return f"Tools of the MCP server {listing.name}"


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value
