"""`sluice quarantine`: the chunks that the guard blocked, and what operators do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.agent.ask_first import ask_first
from sluice.cli.choices import QuarantineState
from sluice.cli.connection import connected, given, wait_for
from sluice.cli.operate.dead_letter_options import Note
from sluice.cli.output import AsJson, console, marked, print_json, print_table

if TYPE_CHECKING:
    from sluice_client.models import Finding, QuarantinedChunk, QuarantinedText

quarantine = typer.Typer(
    help="Quarantine: chunks that the guard blocked when they were ingested.", no_args_is_help=True
)

RELEASE_SECONDS = 60.0
"""How long `release` waits for its run unless it is told otherwise: one document is embedded within seconds."""

DRAWN_BELOW = frozenset({"position", "findings", "text", "section_path", "actions"})

Id = Annotated[str, typer.Argument(metavar="ID", help="A chunk's id, as `sluice quarantine list` shows it.")]


@quarantine.command("list")
def list_quarantine(
    corpus: Annotated[list[str] | None, typer.Option("--corpus", "-c", help="Only of this corpus. Repeatable.")] = None,
    rule: Annotated[str | None, typer.Option(help="Only blocked by this rule.")] = None,
    url: Annotated[str | None, typer.Option(help="Only of pages whose URL begins so.")] = None,
    document: Annotated[str | None, typer.Option(help="Only of this document.")] = None,
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None,
    state: Annotated[QuarantineState, typer.Option(help="Only in this state.")] = "held",
    everything: Annotated[bool, typer.Option("--all", help="Whatever their state.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 100,
    before: Annotated[str | None, typer.Option(help="Go on behind this position.")] = None,
    as_json: AsJson = False,
) -> None:
    """List chunks in quarantine, the latest first."""
    with connected(as_json=as_json) as client:
        filters = given(rule=rule, url_prefix=url, document_id=document, run_id=run, before=before)
        found = client.quarantined(corpus, limit=limit, state="any" if everything else state, **filters)
        if as_json:
            print_json(found)
            return
        _print_chunks(found)
        if len(found) == limit:
            console.print(f"more: --before {found[-1].position}", markup=False, highlight=False, soft_wrap=True)


@quarantine.command("show")
def show_quarantined(held_id: Id, as_json: AsJson = False) -> None:
    """Show one chunk: its text with what the guard found marked, its source, and what operators did."""
    with connected(as_json=as_json) as client:
        held = client.quarantined_text(held_id)
        if as_json:
            print_json(held)
        else:
            _print_text(held)


@quarantine.command("release")
def release_quarantined(
    held_id: Id,
    note: Note = "",
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until it can be found; 0: do not.")] = (
        RELEASE_SECONDS
    ),
    as_json: AsJson = False,
) -> None:
    """Release one chunk: it is brought into the index, and not blocked again."""
    with connected(as_json=as_json) as client:
        released = client.release_quarantined(held_id, note)
        if released.run_id and wait:
            wait_for(client, released.run_id, wait)
        if as_json:
            print_json(released)
        elif released.run_id:
            console.print(f"{held_id} is released: sluice runs {released.run_id}", markup=False, highlight=False)
        else:
            console.print(f"{held_id} is released; {released.waits_for}", markup=False, highlight=False)


@quarantine.command("purge")
def purge_quarantined(
    held_id: Id,
    note: Note = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Purge one chunk: its text is removed for good, the facts stay. Seen again it is blocked."""
    with connected(as_json=as_json) as client:
        held = client.quarantined_text(held_id)
        ask_first(f"Remove the text of {held.id} ({held.url or held.file_path or held.document_id})?", yes=yes)
        purged = client.purge_quarantined(held_id, note)
        if as_json:
            print_json(purged)
        else:
            console.print(f"{held_id} is purged", markup=False, highlight=False)


def _rules(found: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(sorted({finding.rule for finding in found}))


def _print_chunks(found: Sequence[QuarantinedChunk]) -> None:
    columns = ("id", "corpus", "state", "rules", "origin", "source", "held", "by")
    rows = [
        (x.id, x.corpus, x.state, _rules(x.findings), x.origin, _source_of(x), x.held_at, x.operator) for x in found
    ]
    print_table("quarantine", columns, rows)


def _source_of(chunk: QuarantinedChunk) -> str:
    return chunk.url or chunk.file_path or chunk.document_id


def _print_text(held: QuarantinedText) -> None:
    for name in dict(held):
        value = getattr(held, name)
        if name not in DRAWN_BELOW:
            console.print(f"[bold]{name}[/] {marked('–' if value is None else value)}", highlight=False)
    rows = [(one.rule, f"{one.start}-{one.end}", one.score) for one in held.findings]
    print_table("findings", ("rule", "characters", "score"), rows)
    if held.text is None:
        console.print("its text was removed", highlight=False)
    else:
        console.print(f"[bold]text[/]\n{''.join(_drawn(held.text, held.findings))}", highlight=False)
    actions = [(one.at, one.operator, one.action, one.note) for one in held.actions]
    print_table("operator actions", ("at", "operator", "action", "note"), actions)


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
