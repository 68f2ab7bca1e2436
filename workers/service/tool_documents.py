"""Documents of the tools of MCP servers: the tools that each server lists become one document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from sluice.contracts.document import Document, Provenance
from sluice.contracts.errors import SluiceError
from sluice.graph.tools.ask import Listing, ToolServer, list_tools, tools_text, tools_title
from sluice.trust.guard.guard import find_by_rule
from sluice.trust.source_trust import submission_id_for
from sluice.workers.context import Context

OnFailure = Callable[[ToolServer, SluiceError], None]


def tool_documents(
    context: Context, servers: Iterable[ToolServer], *, timeout_seconds: float, now: datetime, on_failure: OnFailure
) -> Iterator[Document]:
    """Yield one document for each server that answers, at the path `mcp/<server>.json`; `on_failure` gets the others.

    A server's words are not trusted: the documents count as submitted, and the guard reads them as such. Addresses are
    reached by the rules of egress, for the purpose `mcp`.
    """
    for server in servers:
        try:
            proxy_url = context.egress.url_for("mcp") if server.url is not None else None
            listing = list_tools(server, proxy_url=proxy_url, timeout_seconds=timeout_seconds)
        except SluiceError as error:
            on_failure(server, error)
            continue
        for path, part in parted(server.path, listing):
            yield Document(
                id=submission_id_for(None, path),
                file_path=path,
                title=tools_title(listing),
                media_type="application/json",
                text=tools_text(part),
                metadata={"mcp_server": listing.name, "mcp_tools": len(part.tools)},
                provenance=Provenance(source="submission", fetched_at=now),
            )


def parted(path: str, listing: Listing) -> Iterator[tuple[str, Listing]]:
    """Yield the list without the tools that command their reader, and each of these by itself, with their paths.

    So a poisoned description takes none of its neighbours into quarantine.
    """
    alone = {
        number: part
        for number, tool in enumerate(listing.tools)
        if find_by_rule(tools_text(part := replace(listing, tools=(tool,))))
    }
    yield path, replace(listing, tools=tuple(one for place, one in enumerate(listing.tools) if place not in alone))
    for number, part in alone.items():
        yield f"{path.removesuffix('.json')}/{number + 1}.json", part
