"""`sluice quarantine`: the chunks that the guard blocked, and what operators do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sluice.cli.choices import QuarantineState
from sluice.cli.command import (
    ACTIONS,
    Before,
    Corpora,
    Limit,
    Note,
    Shown,
    Yes,
    ask_first,
    chosen,
    needed,
    over_http,
    print_fields,
    print_rows,
    table,
)
from sluice.cli.connection import given, wait_for
from sluice.cli.output import console, marked

if TYPE_CHECKING:
    from sluice_client import SluiceClient
    from sluice_client.models import Finding, QuarantinedChunk, QuarantinedText

RELEASE_SECONDS = 60.0
"""How long a release waits for its run unless it is told otherwise: one document is embedded within seconds."""
DRAWN_BELOW = frozenset({"position", "findings", "text", "section_path", "actions"})


@over_http
def quarantine(
    client: SluiceClient,
    held_id: Annotated[str | None, typer.Argument(metavar="ID", help="One chunk; without it, they are listed.")] = None,
    release: Annotated[bool, typer.Option("--release", help="Bring it into the index; it is not blocked again.")] = (
        False
    ),
    purge: Annotated[bool, typer.Option("--purge", help="Remove its text for good. Seen again it is blocked.")] = False,
    corpus: Corpora = None,
    rule: Annotated[str | None, typer.Option(help="Only blocked by this rule.")] = None,
    url: Annotated[str | None, typer.Option(help="Only of pages whose URL begins so.")] = None,
    document: Annotated[str | None, typer.Option(help="Only of this document.")] = None,
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None,
    state: Annotated[Literal[QuarantineState, "any"], typer.Option(help="Only in this state.")] = "held",
    limit: Limit = 100,
    before: Before = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until it can be found; 0: do not.")] = (
        RELEASE_SECONDS
    ),
    note: Note = "",
    yes: Yes = False,
) -> Shown:
    """Quarantine: chunks that the guard blocked when they were ingested; list, show, release, purge."""
    action = chosen(release=release, purge=purge)
    if held_id is None and action is None:
        filters = given(rule=rule, url_prefix=url, document_id=document, run_id=run, before=before)
        found = client.quarantined(corpus, limit=limit, state=state, **filters)
        rules = ("rules", lambda chunk: sorted({finding.rule for finding in chunk.findings}))
        columns = ("id", "corpus", "state", rules, "origin", ("source", _source_of), ("held", "held_at"))
        return table("quarantine", found, *columns, ("by", "operator"), limit=limit)
    held_id = needed("ID", held_id, action or "show")
    if action == "release":
        released = client.release_quarantined(held_id, note)
        if released.run_id and wait:
            wait_for(client, released.run_id, wait)
        told = f": sluice runs {released.run_id}" if released.run_id else f"; {released.waits_for}"
        return Shown(released, f"{held_id} is released{told}")
    held = client.quarantined_text(held_id)
    if action == "purge":
        ask_first(f"Remove the text of {held.id} ({_source_of(held)})?", yes=yes)
        return Shown(client.purge_quarantined(held_id, note), f"{held_id} is purged")
    return Shown(held, lambda: _print_text(held))


def _source_of(chunk: QuarantinedChunk) -> str:
    return chunk.url or chunk.file_path or chunk.document_id


def _print_text(held: QuarantinedText) -> None:
    print_fields(held, DRAWN_BELOW)
    print_rows("findings", held.findings, "rule", ("characters", lambda one: f"{one.start}-{one.end}"), "score")
    if held.text is None:
        console.print("its text was removed", highlight=False)
    else:
        console.print(f"[bold]text[/]\n{''.join(_drawn(held.text, held.findings))}", highlight=False)
    print_rows("operator actions", held.actions, *ACTIONS)


def _drawn(text: str, findings: Sequence[Finding]) -> Iterator[str]:
    """The text in rich's markup, reversed between ⟦ and ⟧ where a finding is about it."""
    last = 0
    for start, end in _merged([(one.start, one.end) for one in findings if one.start < one.end]):
        yield marked(text[last:start])
        yield f"[reverse]⟦{marked(text[start:end])}⟧[/]"
        last = end
    yield marked(text[last:])


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order, those that meet made one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged
