"""`sluice freshness`: a corpus's changes since the last job, as a plan, and a command to run on it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sluice.cli.command import Shown, on_disk
from sluice.cli.connection import goes_on
from sluice.cli.output import checked_corpus, print_table, say
from sluice.cli.session import begin_work, follow
from sluice.contracts.errors import InvalidInput, TimedOut
from sluice.ingest.freshness import Counts, record_command
from sluice.workers.context import Context
from sluice.workers.service.freshness import (
    FreshnessFiles,
    Rechecked,
    files_of,
    plan_refresh,
    recheck,
    rechecked,
    require_whole,
    run_with_plan,
    write_current_manifest,
)

_STDERR = 2


@on_disk
def freshness(
    context: Context,
    corpus: str = "default",
    prior: Path | None = None,
    current: Path | None = None,
    out: Path | None = None,
    command: str | None = None,
    ask_again: bool = False,
    timeout: float = 3_600.0,
    as_json: bool = False,
) -> Shown:
    """Freshness: what is new, changed or gone since the last job, as a plan."""
    if current is not None and prior is None:
        raise InvalidInput("prior", "is missing", "two manifests are compared: give --prior and --current")
    found = _asked_again(context, checked_corpus(corpus), timeout) if ask_again else None
    files = files_of(context, checked_corpus(corpus), out)
    with files.locked():
        told = _planned(context, corpus, files, prior, current)
        exit_code = _carried_out(command, told["counts"], files, timeout, as_json=as_json)
        if exit_code in (None, 0) and current is None and prior is None:
            files.current.replace(files.last)
    value = {
        "corpus": told["corpus"],
        "corpus_hash": told["corpus_hash"],
        **told["counts"]._asdict(),
        "plan": str(files.plan),
        "prior": str(told["prior"]) if told["prior"] else None,
        "ledger": str(files.decisions),
        "exit_code": exit_code,
        "recheck": asdict(found) if found else None,
    }
    return Shown(value, lambda: _print(value, told["counts"], found), exit_code or 0)


def _planned(
    context: Context, corpus: str, files: FreshnessFiles, prior: Path | None, current: Path | None
) -> dict[str, Any]:
    """Write manifest, plan and decisions; return the plan's facts by their names in the JSON answer."""
    held = None
    if current is None:
        write_current_manifest(context, corpus, files.current)
        held = require_whole(context, corpus)
    before = prior or (files.last if files.last.exists() else None)
    counts = plan_refresh(before, current or files.current, files, datetime.now(UTC))
    corpus_hash = held.served if held else None
    about = {"corpus": corpus if current is None else None, "corpus_hash": corpus_hash}
    return {**about, "prior": before, "counts": counts}


def _carried_out(
    command: str | None, counts: Counts, files: FreshnessFiles, timeout_seconds: float, *, as_json: bool
) -> int | None:
    """Return the exit code of the command; None where nothing is planned, or there is no command."""
    if command is None or not counts.planned:
        return None
    output = _STDERR if as_json else None  # stdout is the one JSON value's
    try:
        exit_code = run_with_plan(command, files.plan, timeout_seconds, stdout=output)
    except TimedOut:
        record_command(files.decisions, datetime.now(UTC), command, None, files.plan)
        raise
    record_command(files.decisions, datetime.now(UTC), command, exit_code, files.plan)
    return exit_code


def _asked_again(context: Context, corpus: str, timeout_seconds: float) -> Rechecked | None:
    """Crawl the pages that are due again, and return the counts; None where none is due."""
    begin_work(context)
    run_id = recheck(context, corpus)
    if run_id is None:
        return None
    with goes_on(run_id):
        for _event in follow(context, run_id, timeout_seconds):
            pass
    return rechecked(context.ledger, run_id)


def _print(value: dict[str, Any], counts: Counts, found: Rechecked | None) -> None:
    if found is not None:
        told = f"{found.asked} pages asked for, {found.unchanged} as they were, {found.read} read, "
        say(f"{told}{found.withdrawn} gone, {found.tokens:,} tokens embedded")
    print_table("freshness", Counts._fields, [counts])
    if value["corpus_hash"]:
        say(f"corpus hash: {value['corpus_hash']}, as it was published")
    say(f"plan: {value['plan']}")
    if value["prior"] is None:
        say("There was no earlier job: the next one compares with this.")
    if value["exit_code"] is not None:
        say(f"the command ended with {value['exit_code']}")
