"""`sluice dead`: the events that could not be handled, and operators' actions on them, one by one or in bulk."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

from sluice.cli.command import (
    ACTIONS,
    Column,
    DeadLetterReason,
    DeadLetterStatus,
    Shown,
    Stage,
    ask_first,
    chosen,
    needed,
    over_http,
    print_fields,
    print_rows,
    table,
)
from sluice.cli.connection import given, wrong
from sluice.cli.output import console, marked, print_table, say
from sluice_client import SluiceClient, models
from sluice_client.errors import Conflict

DRAWN_BELOW = frozenset({"position", "payload", "stack", "payload_history", "actions"})
_MESSAGE: Column = ("message", lambda letter: letter.message[:70])
_LETTERS = "id stage kind reason fingerprint status replays=replay_count last_seen"
_GROUPS = "fingerprint count stage kinds reasons first_seen last_seen example=example_id"
_REPLAYS: tuple[Column, ...] = (
    "id status begun=created_at by=operator total back=replayed open succeeded parked_again",
    ("left out", lambda view: _counted(view.skips)),
    ("why", lambda view: view.why or view.note),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Filters of dead letters by options. A letter matches when it fits all of them."""

    stage: Stage | None = None
    reason: DeadLetterReason | None = None
    kind: str | None = None
    fingerprint: str | None = None
    run: str | None = None
    corpora: list[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    up_to: str | None = None

    def filters(self) -> dict[str, Any]:
        """Return the filters that are set, by their names in the HTTP interface."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        return given(**{"run_id" if name == "run" else name: value for name, value in facts.items()})


@over_http
def list_dead(
    client: SluiceClient,
    selection: Selection,
    status: Literal[DeadLetterStatus, "any"] = "parked",
    everything: bool = False,
    each: bool = False,
    limit: int = 100,
    cursor: str | None = None,
) -> Shown:
    """List dead letters, a line per fingerprint; one by one with --each or --fingerprint. The latest first."""
    page = given(limit=limit, cursor=cursor, status="any" if everything else status, **selection.filters())
    if each or selection.fingerprint:
        return table("dead letters", client.dead_letters(**page), _LETTERS, _MESSAGE)
    return table("dead letters", client.dead_letter_groups(**page), _GROUPS, _MESSAGE)


@over_http
def show_dead(client: SluiceClient, letter_id: str) -> Shown:
    """Show one dead letter in full: envelope, error, stack, past payloads, operator actions."""
    letter = client.dead_letter(letter_id)
    return Shown(letter, lambda: _print_letter(letter))


@over_http
def edit_dead(client: SluiceClient, letter_id: str, file: str | None = None, note: str = "") -> Shown:
    """Put another payload in place, in $EDITOR or from a file; the old one is kept. Replay it afterwards."""
    payload = _in_editor(client.dead_letter(letter_id)) if file is None else _read(file)
    edited = client.edit_dead_letter(letter_id, payload, note)
    return Shown(edited, f"{letter_id} is edited: sluice dead replay {letter_id}")


@over_http
def replay_dead(
    client: SluiceClient,
    selection: Selection,
    letter_id: str | None = None,
    everything: bool = False,
    rate: float = 10.0,
    dry_run: bool = False,
    force: bool = False,
    confirm: int | None = None,
    note: str = "",
) -> Shown:
    """Replay one event, or many at a rate (see `sluice dead replays`)."""
    filters = selection.filters()
    if _means_one(letter_id, filters, everything=everything or dry_run):
        done = client.replay_dead_letter(str(letter_id), force=force, note=note)
        return Shown(done, f"{done.event_id} of {done.run_id} is ready again")
    begun = client.replay(filters, per_second=rate, force=force, note=note, dry_run=dry_run, **given(confirm=confirm))
    if dry_run:
        return Shown(begun, lambda: _print_plan(cast("models.ReplayPlan", begun)))
    view = cast("models.ReplayView", begun)
    told = f"{view.id} brings back {view.total} letters, {view.per_second:g} per second"
    return Shown(view, f"{told}\nfollow it with: sluice dead replays {view.id}")


@over_http
def purge_dead(
    client: SluiceClient,
    selection: Selection,
    letter_id: str | None = None,
    status: DeadLetterStatus = "parked",
    everything: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    note: str = "",
) -> Shown:
    """Purge one letter or many: payload and stack are removed, the facts stay.

    Asks first. The operator and the time are recorded.
    """
    filters = selection.filters()
    if _means_one(letter_id, filters, everything=everything or dry_run):
        letter = client.dead_letter(str(letter_id))
        ask_first(f"Empty {letter.id} ({letter.kind or 'no event'}, {letter.reason}) for good?", yes=yes)
        client.purge_dead_letter(letter.id, note)
        matching = purged = 1
    else:
        filters = {"status": status, **filters}
        counted = client.purge_dead_letters(filters, dry_run=True)
        matching, purged = counted.matching, 0
        if matching and not dry_run:
            ask_first(f"Empty {matching} dead letters for good?", yes=yes)
            filters = {"up_to": counted.up_to, **filters}
            purged = client.purge_dead_letters(filters, confirm=matching, note=note).purged
    return Shown({"matching": matching, "purged": purged}, f"{purged} of {matching} purged")


@over_http
def replays(
    client: SluiceClient,
    replay_id: str | None = None,
    pause: bool = False,
    resume: bool = False,
    abort: bool = False,
    limit: int = 50,
    cursor: str | None = None,
    note: str = "",
) -> Shown:
    """Show one bulk replay and how far it is, list the latest, or pause, resume and abort one."""
    if action := chosen(pause=pause, resume=resume, abort=abort):
        change = {"pause": client.pause_replay, "resume": client.resume_replay, "abort": client.abort_replay}[action]
        view = change(needed("replay_id", replay_id, action), note)
        return Shown(view, f"{view.id} is {view.status}: {view.replayed} of {view.total} brought back")
    if replay_id is None:
        return table("bulk replays", client.replays(limit, cursor), *_REPLAYS)
    view, actions = client.bulk_replay(replay_id), client.replay_actions(replay_id).data

    def draw() -> None:
        print_rows("bulk replays", [view], *_REPLAYS)
        print_rows("operator actions", actions, ACTIONS)

    return Shown({**dict(view), "actions": actions}, draw)


def _means_one(letter_id: str | None, filters: dict[str, Any], *, everything: bool) -> bool:
    """Return whether the options name one letter or select many. Raises `InvalidInput` if they do both, or neither."""
    if letter_id is not None and (everything or filters):
        raise wrong("letter_id", "names one letter while the options name many", "give one of the two")
    if letter_id is None and not filters and not everything:
        raise wrong("letter_id", "no letter is named", "give an ID, options such as --stage, or --all")
    return letter_id is not None


def _in_editor(letter: models.DeadLetterView) -> bytes:
    if letter.payload.encoding != "utf-8":
        raise wrong("payload", "is no text", "give the new one with --file")
    before = _indented(letter.payload.text)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{letter.id}.json"
        path.write_text(before)
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        try:
            subprocess.run([*shlex.split(editor), str(path)], check=True)  # noqa: S603 - the operator's own editor
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise wrong("EDITOR", f"{editor!r} failed: {error}", "name another editor, or give --file") from error
        after = path.read_text()
    if after == before:
        raise Conflict("the payload was left as it is")
    return after.encode()


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2) + "\n"
    except (ValueError, RecursionError):
        return text


def _read(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _print_letter(letter: models.DeadLetterView) -> None:
    print_fields(letter, DRAWN_BELOW)
    for title, text in (("stack", letter.stack), (f"payload ({letter.payload.encoding})", letter.payload.text)):
        console.print(f"[bold]{title}[/]\n{marked(text)}")
    past = [(one.at, one.operator, one.sha256, one.payload.text[:200]) for one in letter.payload_history]
    print_table("past payloads", ("replaced", "operator", "sha256", "payload"), past)
    print_rows("operator actions", letter.actions, ACTIONS)


def _print_plan(plan: models.ReplayPlan) -> None:
    left_out = ("left out", lambda group: _counted(group.skips))
    print_rows("what it would do", plan.groups, "fingerprint back_to_work=replayable", left_out)
    say(f"{plan.replayable} of {plan.total} letters would go back to work")
    say(f"to replay these alone: --up-to {plan.up_to} --confirm {plan.total}")


def _counted(skips: Mapping[str, int]) -> str:
    return ", ".join(f"{how_many} {reason}" for reason, how_many in skips.items())
