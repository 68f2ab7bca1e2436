"""`sluice hosts`: whom the crawl visits, how often, and how that goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.connection import connected
from sluice.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from sluice_client.models import HostView

MOST_DAYS = 8
COLUMNS = (
    "host",
    "requests",
    "pages",
    "success",
    "rendered",
    "robots refused",
    "egress refused",
    "bytes",
    "waited s",
    "interval s",
)


def hosts(
    days: Annotated[int, typer.Option(min=1, max=MOST_DAYS, help="Days to add up, today included.")] = 1,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Hosts to show, the most asked first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Hosts: what the crawl asked of each, and how that went."""
    with connected(as_json=as_json) as client:
        found = client.hosts(days, limit)
    if as_json:
        print_json(found)
    else:
        since = (datetime.now(UTC) - timedelta(days=days - 1)).date()
        print_table(f"hosts since {since}", COLUMNS, map(_row, found))


def _row(row: HostView) -> tuple[object, ...]:
    return (
        row.host,
        row.requests,
        row.pages,
        f"{row.success_share:.0%}",
        f"{row.render_share:.0%}",
        row.robots_refusals,
        row.egress_refusals,
        row.received_bytes,
        f"{row.waited_seconds:.1f}",
        f"{row.interval_seconds:.2f}",
    )
