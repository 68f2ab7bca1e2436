"""`sluice trace`: the steps of a run as a waterfall."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.cli.command import Shown, over_http
from sluice.cli.output import print_wide

if TYPE_CHECKING:
    from sluice.otel.spans import StoredSpan
    from sluice_client import SluiceClient


@over_http
def trace(
    client: SluiceClient, run_id: Annotated[str, typer.Argument(help="A run, or a trace id of 32 hex digits.")]
) -> Shown:
    """Draw the steps of a run as a waterfall, from the local span store."""
    found = client.trace(run_id)

    def draw() -> None:
        from sluice.otel.waterfall import render_waterfall

        print_wide(render_waterfall(list(_spans(found.spans))))

    return Shown(found, draw)


def _spans(tree: Sequence[dict[str, Any]]) -> Iterator[StoredSpan]:
    """The spans of a tree, as they were stored."""
    from sluice.otel.spans import SpanLink, StoredSpan

    names = {field.name for field in fields(StoredSpan)}
    for one in tree:
        links = tuple(SpanLink(**link) for link in one["links"])
        yield StoredSpan(**{name: value for name, value in one.items() if name in names} | {"links": links})
        yield from _spans(one["children"])
