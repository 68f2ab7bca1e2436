"""`sluice forget`: documents that go with every trace of them, the proof of it, and the negative list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.cli.agent.answers import print_run
from sluice.cli.command import Note, ask_first
from sluice.cli.connection import connected, given, wait_for, wrong
from sluice.cli.output import AsJson, Corpus, console, marked, print_json, print_table

if TYPE_CHECKING:
    from sluice_client.models import ForgetProof, ForgottenEntry

FORGET_SECONDS = 300.0
"""How long the command waits for its run unless it is told otherwise."""


def forget(
    corpus: Corpus = "default",
    url: Annotated[str | None, typer.Option(help="The documents of this URL.")] = None,
    url_prefix: Annotated[str | None, typer.Option(help="Those whose URL begins so.")] = None,
    document: Annotated[str | None, typer.Option(help="The document with this id.")] = None,
    run: Annotated[str | None, typer.Option(help="Those that this run brought.")] = None,
    submitted_by: Annotated[str | None, typer.Option(help="Those that this API key handed in.")] = None,
    filters: Annotated[str | None, typer.Option(help="Those that meet these filters, as JSON.")] = None,
    keep_out: Annotated[
        bool, typer.Option("--keep-out/--may-return", help="Whether they are refused when they come again.")
    ] = True,
    prove: Annotated[
        bool, typer.Option("--prove", help="Only look whether anything is left of them; exit with 1 if so.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many documents are meant.")] = False,
    list_entries: Annotated[bool, typer.Option("--list", help="Show the negative list.")] = False,
    allow: Annotated[str | None, typer.Option(metavar="ID", help="Take an entry off the negative list.")] = None,
    note: Note = "",
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until nothing is left; 0: do not.")] = (
        FORGET_SECONDS
    ),
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove documents with every trace of them, and keep them out.

    Name them by one of --url, --url-prefix, --document, --run, --submitted-by and --filters. They leave what is served,
    every older generation, the journal, known pages, stored pages and the quarantine.
    """
    with connected(as_json=as_json) as client:
        if list_entries:
            _print_entries(client.forgotten(), as_json=as_json)
            return
        if allow is not None:
            _print_entries([client.let_in(allow, note)], as_json=as_json)
            return
        named = given(url=url, url_prefix=url_prefix, document_id=document, run_id=run, submitted_by=submitted_by)
        request = named | given(filters=_filters(filters)) | {"keep_out": keep_out, "note": note}
        if prove:
            proof = client.prove_forgotten(corpus, **request)
            is_proven = not any(trace.found for trace in proof.traces)
            _print_proof(proof, is_proven=is_proven, as_json=as_json)
            raise typer.Exit(0 if is_proven else 1)
        meant = client.count_forgettable(corpus, **request).documents
        if dry_run:
            print_json({"documents": meant}) if as_json else console.print(f"{meant} documents are meant")
            return
        ask_first(f"Forget {meant} documents of corpus {corpus} for good?", yes=yes)
        run_id = client.forget(corpus, **request).run_id
        print_run(wait_for(client, run_id, wait) if wait else client.run(run_id), as_json=as_json)


def _filters(told: str | None) -> dict[str, Any] | None:
    if told is None:
        return None
    example = """JSON such as '{"domains": ["example.org"]}'"""
    try:
        found = json.loads(told)
    except ValueError as error:
        raise wrong("filters", f"no filters: {error}", example) from error
    if not isinstance(found, dict):
        raise wrong("filters", "no filters: no JSON object", example)
    return found


def _print_entries(entries: list[ForgottenEntry], *, as_json: bool) -> None:
    if as_json:
        print_json(entries)
        return
    rows = [(one.id, one.corpus, one.kind, one.value, one.at, one.operator, one.note) for one in entries]
    print_table("negative list", ("id", "corpus", "kind", "value", "since", "by", "note"), rows)


def _print_proof(proof: ForgetProof, *, is_proven: bool, as_json: bool) -> None:
    if as_json:
        print_json({"is_proven": is_proven, **dict(proof)})
        return
    rows = [(one.place, one.looked_at, len(one.found), one.found, one.detail) for one in proof.traces]
    print_table("traces", ("place", "looked at", "found", "what", "remedy"), rows)
    console.print("nothing of it is left" if is_proven else marked("something of it is left"), highlight=False)
