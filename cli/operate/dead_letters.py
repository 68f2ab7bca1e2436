"""`sluice dead`: the events that could not be handled, and what operators do about them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sluice.cli.agent.ask_first import ask_first
from sluice.cli.choices import DeadLetterStatus
from sluice.cli.connection import connected, given, wrong
from sluice.cli.operate.dead_letter_options import LetterSelection, Note, selecting
from sluice.cli.operate.replays import abort_replay, list_replays, pause_replay, print_replay, resume_replay
from sluice.cli.output import AsJson, console, marked, plain_text, print_json, print_table
from sluice_client.errors import Conflict

if TYPE_CHECKING:
    from sluice_client import SluiceClient
    from sluice_client.models import DeadLetterGroup, DeadLetterSummary, DeadLetterView

dead = typer.Typer(help="Dead letters: events that could not be handled.", no_args_is_help=True)

DRAWN_BELOW = frozenset({"position", "payload", "stack", "payload_history", "actions"})

DeadLetterId = Annotated[str | None, typer.Argument(help="One letter. Without it, those that the options name.")]
EveryOne = Annotated[bool, typer.Option("--all", help="Every parked letter.")]


@dead.command("list")
@selecting
def list_dead(
    selection: LetterSelection,
    status: Annotated[DeadLetterStatus, typer.Option(help="Only of this status.")] = "parked",
    everything: Annotated[bool, typer.Option("--all", help="Whatever their status.")] = False,
    each: Annotated[bool, typer.Option("--each", help="One by one, not by fingerprint.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 100,
    before: Annotated[str | None, typer.Option(help="Go on behind this position.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what failed, a line per fingerprint; one by one with --each or --fingerprint. The latest first."""
    with connected(as_json=as_json) as client:
        page = given(limit=limit, before=before, status="any" if everything else status)
        if each or selection.fingerprint:
            _tell(client.dead_letters(**selection.filters(), **page), _print_dead_letters, limit, as_json=as_json)
        else:
            _tell(client.dead_letter_groups(**selection.filters(), **page), _print_groups, limit, as_json=as_json)


@dead.command("show")
def show_dead(letter_id: str, as_json: AsJson = False) -> None:
    """Show one dead letter in full: envelope, error, stack, past payloads, operator actions."""
    with connected(as_json=as_json) as client:
        letter = client.dead_letter(letter_id)
        if as_json:
            print_json(letter)
        else:
            _print_dead_letter(letter)


@dead.command("edit")
def edit_dead(
    letter_id: str,
    file: Annotated[str | None, typer.Option(help="Take the payload from this file; - for standard input.")] = None,
    note: Note = "",
    as_json: AsJson = False,
) -> None:
    """Put another payload in place, in $EDITOR or from a file; the old one is kept. Replay it afterwards."""
    with connected(as_json=as_json) as client:
        payload = _in_editor(client.dead_letter(letter_id)) if file is None else _read(file)
        edited = client.edit_dead_letter(letter_id, payload, note)
        if as_json:
            print_json(edited)
        else:
            console.print(f"{letter_id} is edited: sluice dead replay {letter_id}", markup=False, highlight=False)


@dead.command("replay")
@selecting
def replay_dead(
    selection: LetterSelection,
    letter_id: DeadLetterId = None,
    everything: EveryOne = False,
    rate: Annotated[float, typer.Option(help="Letters per second.")] = 10.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    force: Annotated[bool, typer.Option(help="Although replayed three times, or its run was cancelled.")] = False,
    note: Note = "",
    as_json: AsJson = False,
) -> None:
    """Replay one event, or many at a rate (see `sluice dead replays`)."""
    with connected(as_json=as_json) as client:
        wanted = selection.filters()
        if _means_one(letter_id, wanted, everything=everything or dry_run):
            _replay_one(client, str(letter_id), force=force, note=note, as_json=as_json)
        else:
            begun = client.replay(wanted, per_second=rate, force=force, note=note, dry_run=dry_run)
            print_replay(begun, as_json=as_json)


@dead.command("purge")
@selecting
def purge_dead(
    selection: LetterSelection,
    letter_id: DeadLetterId = None,
    status: Annotated[DeadLetterStatus, typer.Option(help="Only of this status.")] = "parked",
    everything: EveryOne = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    note: Note = "",
    as_json: AsJson = False,
) -> None:
    """Purge one letter or many: payload and stack are removed, the facts stay.

    Asks first; who purged, and when, is recorded.
    """
    with connected(as_json=as_json) as client:
        wanted = {"status": status, **selection.filters()}
        if _means_one(letter_id, selection.filters(), everything=everything or dry_run):
            matching, purged = _purge_one(client, str(letter_id), yes=yes, note=note)
        else:
            matching, purged = _purge_many(client, wanted, dry_run=dry_run, yes=yes, note=note)
        if as_json:
            print_json({"matching": matching, "purged": purged})
        else:
            console.print(f"{purged} of {matching} purged", highlight=False)


for command, name in (
    (list_replays, "replays"),
    (pause_replay, "pause"),
    (resume_replay, "resume"),
    (abort_replay, "abort"),
):
    dead.command(name)(command)


Listed = TypeVar("Listed", "DeadLetterSummary", "DeadLetterGroup")


def _tell(found: Sequence[Listed], draw: Callable[[Sequence[Listed]], None], limit: int, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    draw(found)
    if len(found) == limit:
        console.print(f"more: --before {found[-1].position}", markup=False, highlight=False, soft_wrap=True)


def _means_one(letter_id: str | None, wanted: dict[str, Any], *, everything: bool) -> bool:
    """Whether one letter is meant and not many.

    Raises:
        InvalidInput: both are, or neither is.
    """
    if letter_id is not None and (everything or wanted):
        raise wrong("letter_id", "names one letter while the options name many", "give one of the two")
    if letter_id is None and not wanted and not everything:
        raise wrong("letter_id", "no letter is named", "give an ID, options such as --stage, or --all")
    return letter_id is not None


def _replay_one(client: SluiceClient, letter_id: str, *, force: bool, note: str, as_json: bool) -> None:
    done = client.replay_dead_letter(letter_id, force=force, note=note)
    if as_json:
        print_json(done)
    else:
        kind = client.dead_letter(letter_id).kind
        console.print(f"{kind} {done.event_id} of {done.run_id} is ready again", highlight=False)


def _purge_one(client: SluiceClient, letter_id: str, *, yes: bool, note: str) -> tuple[int, int]:
    letter = client.dead_letter(letter_id)
    ask_first(f"Empty {letter.id} ({letter.kind or 'no event'}, {letter.reason}) for good?", yes=yes)
    client.purge_dead_letter(letter_id, note)
    return 1, 1


def _purge_many(
    client: SluiceClient, wanted: dict[str, Any], *, dry_run: bool, yes: bool, note: str
) -> tuple[int, int]:
    matching = client.purge_dead_letters(wanted, dry_run=True).matching
    if dry_run or not matching:
        return matching, 0
    ask_first(f"Empty {matching} dead letters for good?", yes=yes)
    return matching, client.purge_dead_letters(wanted, confirm=matching, note=note).purged


def _in_editor(letter: DeadLetterView) -> bytes:
    if letter.payload.encoding != "utf-8":
        raise wrong("payload", "is no text", "give the new one with --file")
    before = _indented(letter.payload.text)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{letter.id}.json"
        path.write_text(before)
        _run_editor(path)
        after = path.read_text()
    if after == before:
        raise Conflict("the payload was left as it is")
    return after.encode()


def _run_editor(path: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        subprocess.run([*shlex.split(editor), str(path)], check=True)  # noqa: S603 - the operator's own editor
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise wrong("EDITOR", f"{editor!r} failed: {error}", "name another editor, or give --file") from error


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2) + "\n"
    except (ValueError, RecursionError):
        return text


def _read(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _print_dead_letters(found: Sequence[DeadLetterSummary]) -> None:
    columns = ("id", "stage", "kind", "reason", "fingerprint", "status", "replays", "last seen", "message")
    rows = [
        (x.id, x.stage, x.kind, x.reason, x.fingerprint, x.status, x.replay_count, x.last_seen, x.message[:70])
        for x in found
    ]
    print_table("dead letters", columns, rows)


def _print_groups(found: Sequence[DeadLetterGroup]) -> None:
    columns = ("fingerprint", "count", "stage", "kinds", "reasons", "first seen", "last seen", "example", "message")
    rows = [
        (x.fingerprint, x.count, x.stage, x.kinds, x.reasons, x.first_seen, x.last_seen, x.example_id, x.message[:70])
        for x in found
    ]
    print_table("dead letters", columns, rows)


def _print_dead_letter(letter: DeadLetterView) -> None:
    for name in dict(letter):
        value = getattr(letter, name)
        if name not in DRAWN_BELOW:
            console.print(f"[bold]{name}[/] {marked('–' if value is None else value)}", highlight=False)
    for title, text in (("stack", letter.stack), (f"payload ({letter.payload.encoding})", letter.payload.text)):
        console.print(f"[bold]{title}[/]\n{marked(text)}", highlight=False)
    past = [(one.at, one.operator, one.sha256, plain_text(one.payload.text[:200])) for one in letter.payload_history]
    print_table("past payloads", ("replaced", "operator", "sha256", "payload"), past)
    actions = [(one.at, one.operator, one.action, one.note) for one in letter.actions]
    print_table("operator actions", ("at", "operator", "action", "note"), actions)
