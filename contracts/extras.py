"""Parts of the distribution that are installed on demand: the error of one that is missing.

A library that belongs to an extra is imported where it is first used:

    try:
        import ladybug
    except ImportError as error:
        raise needed("cypher", error) from error
"""

from __future__ import annotations

from typing import Literal

from sluice.contracts.errors import NotInstalled

Extra = Literal["crawl", "cypher", "eval", "fit", "graph", "mcp", "memory", "neo4j", "postgres", "private", "qdrant"]


def needed(extra: Extra, error: ImportError) -> NotInstalled:
    """Return the error that says which library is missing and which command installs it."""
    library = (error.name or str(error)).partition(".")[0]
    return NotInstalled(f"{library} is not installed", f"pip install 'sluice[{extra}]'")
