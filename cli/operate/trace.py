"""`sluice trace`: the spans of a run, from the local span store."""

from __future__ import annotations

import re
import sqlite3
from typing import Annotated

import typer

from sluice.cli.output import AsJson, print_json, print_wide
from sluice.cli.session import session
from sluice.contracts.errors import Corrupted, NotFound
from sluice.otel.spans import SpanStore, StoredSpan
from sluice.otel.start import RETENTION_HOURS
from sluice.otel.waterfall import render_waterfall, waterfall_json
from sluice.workers.context import Context

_TRACE_ID = re.compile(r"[0-9a-f]{32}")


def trace(
    run_id: Annotated[str, typer.Argument(help="A run, or a trace id of 32 hex digits.")], as_json: AsJson = False
) -> None:
    """Draw the steps of a run as a waterfall, from the local span store."""
    with session(as_json=as_json) as context:
        spans = _spans(context, run_id)
        if as_json:
            print_json(waterfall_json(spans))
        else:
            print_wide(render_waterfall(spans))


def _spans(context: Context, wanted: str) -> list[StoredSpan]:
    """The spans of a run or a trace.

    Raises:
        NotFound: no such run, or no span of it is kept any more.
        Corrupted: the store cannot be read.
    """
    store = SpanStore.in_dir(context.settings.data_dir)
    try:
        spans = store.of_trace(wanted) if _TRACE_ID.fullmatch(wanted) else store.of_run(wanted)
    except sqlite3.DatabaseError as error:
        raise Corrupted(
            f"the span store {store.path} cannot be read ({error}); it holds only traces: remove it to begin anew"
        ) from error
    finally:
        store.close()
    if not spans:
        if not _TRACE_ID.fullmatch(wanted):
            context.ledger.run(wanted)
        raise NotFound(f"no span of {wanted} is kept; they are for {RETENTION_HOURS:g} h")
    return spans
