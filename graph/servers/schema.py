"""Constraints and indexes of a graph server: made once, found again later.

Where a server refuses one (an older version, a right that is missing) feeding and searching go on without it, more
slowly, and the report says so.
"""

from __future__ import annotations

from typing import NamedTuple

import structlog

from sluice.contracts.errors import Unavailable
from sluice.graph.servers.client import BoltClient, dicts
from sluice.graph.servers.dialect import VECTOR_INDEX

log = structlog.get_logger(__name__)

_MANY = 100


class SchemaReport(NamedTuple):
    """What was found or made."""

    dimension: int | None
    """Of the vectors that the server's vector index takes; None where there is no such index."""
    refused: tuple[str, ...] = ()
    """What the server refused, in its own words."""


async def prepare(client: BoltClient, dimension: int | None) -> SchemaReport:
    """Make what is missing. A vector index for `dimension` is made where there is none of its name yet.

    One that is there with another dimension stays: an index is dropped by its owner alone.

    Raises what `BoltClient.ping` does, `Unavailable` only where the server is away.
    """
    await client.ping()
    dialect = await client.dialect()
    refused = [problem for statement in dialect.schema if (problem := await _refusal(client, statement))]
    found = await _index_dimension(client, dialect.vector_index_info)
    if found is None and dimension is not None:
        problems = []
        for way in dialect.vector_index:
            problem = await _refusal(client, way.replace("{dimension}", str(int(dimension))))
            if problem is None:
                break
            problems.append(problem)
        found = await _index_dimension(client, dialect.vector_index_info)
        refused += problems if found is None else []
    if refused:
        log.warning("graph_server_schema_incomplete", server=client.place, refused=refused)
    return SchemaReport(found, tuple(refused))


async def _refusal(client: BoltClient, statement: str) -> str | None:
    """Run a statement of the schema; what the server says against it. That it is there already is no refusal."""
    try:
        await client.command(statement)
    except Unavailable as error:
        await client.ping()  # away, and not against the statement
        told = str(error)
        return None if "already exist" in told.lower() or "equivalent" in told.lower() else told
    return None


async def _index_dimension(client: BoltClient, info: str) -> int | None:
    try:
        rows = dicts(await client.read(info, {}, _MANY))
    except Unavailable:
        await client.ping()
        return None
    return next((int(row["dimension"]) for row in rows if row["name"] == VECTOR_INDEX), None)
