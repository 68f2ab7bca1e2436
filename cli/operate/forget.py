"""`sluice forget`: documents that go with every trace of them, the proof of it, and the negative list."""

from __future__ import annotations

import getpass
import json
from typing import Annotated

import typer

from sluice.cli.agent.answers import print_run
from sluice.cli.agent.ask_first import ask_first
from sluice.cli.operate.dead_letter_options import Note, checked
from sluice.cli.output import AsJson, Corpus, checked_corpus, console, marked, print_json, print_table
from sluice.cli.session import goes_on, session, wait_for
from sluice.contracts.errors import InvalidInput
from sluice.contracts.operations.forget import ForgetProof, ForgetRequest, ForgottenEntry
from sluice.contracts.retrieval import Filters
from sluice.workers.context import Context
from sluice.workers.service.caller import Caller
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.service.service import Service

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
    is_reading = prove or dry_run or list_entries or allow is not None
    with session(as_json=as_json, needs_workers=not is_reading) as context:
        desk = ForgetDesk(context, Service(context))
        operator = Caller(getpass.getuser(), "operator", None)
        if list_entries:
            _print_entries(list(desk.entries(operator)), as_json=as_json)
            return
        if allow is not None:
            _print_entries([desk.allow(allow, operator, note)], as_json=as_json)
            return
        told = {"url": url, "url_prefix": url_prefix, "document_id": document, "run_id": run}
        request = checked(
            ForgetRequest,
            corpus=checked_corpus(corpus),
            **told,
            submitted_by=submitted_by,
            filters=_filters(filters),
            keep_out=keep_out,
            note=note,
        )
        if prove:
            proof = desk.prove(request.corpus, request.selection, operator)
            _print_proof(proof, as_json=as_json)
            raise typer.Exit(0 if proof.is_proven else 1)
        meant = desk.count(request, operator)
        if dry_run:
            print_json({"documents": meant}) if as_json else console.print(f"{meant} documents are meant")
            return
        ask_first(f"Forget {meant} documents of corpus {request.corpus} for good?", yes=yes)
        accepted = desk.forget(request, operator)
        _end(context, accepted.run_id, wait, as_json=as_json)


def _end(context: Context, run_id: str, wait: float, *, as_json: bool) -> None:
    if wait:
        with goes_on(run_id):
            wait_for(context, run_id, wait)
    print_run(context.ledger.run(run_id), as_json=as_json)


def _filters(told: str | None) -> Filters | None:
    if told is None:
        return None
    try:
        return Filters.model_validate(json.loads(told))
    except ValueError as error:
        raise InvalidInput(
            "filters", f"no filters: {error}", """JSON such as '{"domains": ["example.org"]}'"""
        ) from error


def _print_entries(entries: list[ForgottenEntry], *, as_json: bool) -> None:
    if as_json:
        print_json(entries)
        return
    rows = [(one.id, one.corpus, one.kind, one.value, one.at, one.operator, one.note) for one in entries]
    print_table("negative list", ("id", "corpus", "kind", "value", "since", "by", "note"), rows)


def _print_proof(proof: ForgetProof, *, as_json: bool) -> None:
    if as_json:
        print_json({"is_proven": proof.is_proven, **proof.model_dump(mode="json")})
        return
    rows = [(one.place, one.looked_at, len(one.found), one.found, one.detail) for one in proof.traces]
    print_table("traces", ("place", "looked at", "found", "what", "remedy"), rows)
    console.print("nothing of it is left" if proof.is_proven else marked("something of it is left"), highlight=False)
