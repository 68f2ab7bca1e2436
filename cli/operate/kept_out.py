"""`sluice quarantine`: chunks that the guard blocked. `sluice forget`: removal of documents with every trace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from sluice.cli.agent.answers import print_run
from sluice.cli.command import (
    ACTIONS,
    QuarantineState,
    Shown,
    ask_first,
    chosen,
    needed,
    over_http,
    print_fields,
    print_rows,
    table,
)
from sluice.cli.connection import given, wait_for, wrong
from sluice.cli.output import console, marked, say
from sluice_client import SluiceClient, models

RELEASE_SECONDS = 60.0
"""Seconds that a release waits for its run by default: one document is embedded within seconds."""
FORGET_SECONDS = 300.0
"""Seconds that `sluice forget` waits for its run by default."""
DRAWN_BELOW = frozenset({"position", "findings", "text", "section_path", "actions"})


@over_http
def quarantine(
    client: SluiceClient,
    held_id: str | None = None,
    release: bool = False,
    purge: bool = False,
    corpus: list[str] | None = None,
    rule: str | None = None,
    url: str | None = None,
    document: str | None = None,
    run: str | None = None,
    state: Literal[QuarantineState, "any"] = "held",
    limit: int = 100,
    cursor: str | None = None,
    wait: float = (RELEASE_SECONDS),
    note: str = "",
    yes: bool = False,
) -> Shown:
    """Quarantine: chunks that the guard blocked when they were ingested; list, show, release, purge."""
    action = chosen(release=release, purge=purge)
    if held_id is None and action is None:
        filters = given(rule=rule, url_prefix=url, document_id=document, run_id=run, cursor=cursor)
        found = client.quarantined(corpus, limit=limit, state=state, **filters)
        rules = ("rules", lambda chunk: sorted({finding.rule for finding in chunk.findings}))
        last = (("source", _source_of), "held=held_at by=operator")
        return table("quarantine", found, "id corpus state", rules, "origin", *last)
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


def _source_of(chunk: models.QuarantinedChunk) -> str:
    return chunk.url or chunk.file_path or chunk.document_id


def _print_text(held: models.QuarantinedText) -> None:
    print_fields(held, DRAWN_BELOW)
    print_rows("findings", held.findings, "rule", ("characters", "{0.start}-{0.end}"), "score")
    if held.text is None:
        console.print("its text was removed")
    else:
        console.print(f"[bold]text[/]\n{''.join(_drawn(held.text, held.findings))}")
    print_rows("operator actions", held.actions, ACTIONS)


def _drawn(text: str, findings: Sequence[models.Finding]) -> Iterator[str]:
    """Yield the text in rich's markup, with each finding reversed between ⟦ and ⟧."""
    last = 0
    for start, end in _merged([(one.start, one.end) for one in findings if one.start < one.end]):
        yield marked(text[last:start])
        yield f"[reverse]⟦{marked(text[start:end])}⟧[/]"
        last = end
    yield marked(text[last:])


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in order, with those that overlap or touch merged."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


@over_http
def forget(
    client: SluiceClient,
    corpus: str = "default",
    url: str | None = None,
    url_prefix: str | None = None,
    document: str | None = None,
    run: str | None = None,
    submitted_by: str | None = None,
    filters: str | None = None,
    where: str | None = None,
    keep_out: bool = True,
    prove: bool = False,
    dry_run: bool = False,
    list_entries: bool = False,
    allow: str | None = None,
    note: str = "",
    wait: float = (FORGET_SECONDS),
    yes: bool = False,
) -> Shown:
    """Remove documents with every trace of them, and keep them out.

    Name them by one of --url, --url-prefix, --document, --run, --submitted-by, --where and --filters. They leave the
    served generation, every older one, the journal, known pages, stored pages, exports and the quarantine.
    """
    if list_entries:
        return _entries(client.forgotten().data)
    if allow is not None:
        return _entries([client.let_in(allow, note)])
    named = given(url=url, url_prefix=url_prefix, document_id=document, run_id=run, submitted_by=submitted_by)
    request = named | given(filters=_filters(filters), where=where) | {"keep_out": keep_out, "note": note}
    if prove:
        return _proof(client.prove_forgotten(corpus, **request))
    meant = client.would_forget(corpus, **request)
    if dry_run:
        return Shown(meant, f"{meant.documents} documents are meant: {', '.join(meant.examples)}")
    ask_first(f"Forget {meant.documents} documents of corpus {corpus} for good?", yes=yes)
    run_id = client.forget(corpus, **request).run_id
    view = wait_for(client, run_id, wait) if wait else client.run(run_id)
    return Shown(view, lambda: print_run(view))


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


def _entries(entries: list[models.ForgottenEntry]) -> Shown:
    return table("negative list", entries, "id corpus kind value since=at by=operator note")


def _proof(proof: models.ForgetProof) -> Shown:
    is_proven = not any(trace.found for trace in proof.traces)

    def draw() -> None:
        count = ("found", lambda trace: len(trace.found))
        print_rows("traces", proof.traces, "place looked_at", count, "what=found remedy=detail")
        say("nothing of it is left" if is_proven else "something of it is left")

    return Shown({"is_proven": is_proven, **dict(proof)}, draw, exit_code=int(not is_proven))
