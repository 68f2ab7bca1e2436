"""Dead letters: what fails, in groups and one by one, what operators do about it, and how far bulk replays are.

An action on many begins with a page that counts them. Its form carries the filter, the count and the mark of what was
counted, and the service refuses once that is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import urlencode

from fastapi import Response

from sluice.api.access import CONSOLE
from sluice.api.console.frame import Operating, Visit, pages
from sluice.api.console.hub import streamed
from sluice.contracts.errors import Conflict, InvalidInput, checked
from sluice.contracts.event import QUEUES, DeadLetterReason
from sluice.contracts.operations.dead_letters import (
    DeadLetterFilter,
    DeadLetterPage,
    DeadLetterStatus,
    DeadLetterView,
    PurgeRequest,
    ReplayRequest,
    ReplayView,
)

dead, replays = pages(), pages()
PART, REPLAYS_AT_ONCE = 50, 20
NAMES = ("stage", "reason", "kind", "fingerprint", "run_id", "replay_id", "since", "until", "status", "up_to")
"""Fields of the filter that an address may have; beside them `corpus`."""
STATUSES = (*get_args(DeadLetterStatus), "any")
_ZONE = re.compile(r"(?:[zZ]|[+-]\d\d:?\d\d)\Z")
MOST_FIELDS, MOST_SHOWN = 400, 300
"""Fields of a payload that are compared, and characters shown of each."""


def filter_of(given: Mapping[str, str]) -> DeadLetterFilter:
    """Return the filter that an address or a form has; what is empty counts as left out. Raises `InvalidInput`."""
    told = {name: text for name in NAMES if (text := given.get(name, "").strip())}
    for name in ("since", "until"):
        if name in told and not _ZONE.search(told[name]):
            told[name] += "Z"
    corpus = given.get("corpus", "").strip()
    return checked(DeadLetterFilter, corpora=(corpus,) if corpus else None, **told)


def parameters_of(wanted: DeadLetterFilter, **more: str | None) -> dict[str, str]:
    """Return the parameters of an address or a form that has the filter, some of them changed; None removes one."""
    told = {name: str(value) for name, value in wanted.model_dump(mode="json", include={*NAMES}).items() if value}
    if wanted.corpora:
        told["corpus"] = wanted.corpora[0]
    if told["status"] == "parked":
        del told["status"]
    return {name: value for name, value in (told | more).items() if value is not None}


def address_of(page: str, wanted: DeadLetterFilter, **more: str | None) -> str:
    """Return the address, below the console's, of a page with the filter."""
    return f"{page}?{urlencode(parameters_of(wanted, **more))}"


@dead.get("/dead")
def listed(visit: Operating) -> Response:
    """Show what fails: a row for each failure, or for each letter with one fingerprint or with `each`."""
    given = visit.request.query_params
    found = figures(visit, given)
    choices: dict[str, Any] = {
        "stages": ("", *QUEUES),
        "reasons": ("", *get_args(DeadLetterReason)),
        "statuses": STATUSES,
    }
    kept = {name: given[name] for name in (*NAMES, "corpus", "each", "before") if given.get(name)}
    return visit.show("dead.html", **found, **choices, live=kept)


@streamed("dead", "dead_figures.html", needs=lambda visit, _: visit.caller.may_operate(), seconds=5)
def figures(visit: Visit, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Read a part of the groups, or of the letters."""
    wanted, desk = filter_of(parameters), visit.instance.dead_letters
    part = DeadLetterPage(**dict(wanted), limit=PART + 1, cursor=parameters.get("before") or None)
    is_each = bool(parameters.get("each") or wanted.fingerprint)
    found: Sequence[Any] = desk.some(part, visit.caller) if is_each else desk.groups(part, visit.caller)
    shown = found[:PART]
    return {
        "is_each": is_each,
        "found": shown,
        "wanted": wanted,
        "address_of": address_of,
        "before": shown[-1].position if len(found) > PART else None,
    }


@dead.get("/dead/replay")
def plan_replay(visit: Operating, force: str = "") -> Response:
    """Count the letters that a replay would bring back, and those it would leave out; nothing is done."""
    wanted = filter_of(visit.request.query_params).model_copy(update={"up_to": None})
    asked = ReplayRequest(filter=wanted, force=bool(force), dry_run=True)
    plan: Any = visit.instance.dead_letters.begin_replay(asked, visit.caller)
    hidden = parameters_of(wanted, up_to=plan.up_to, counted=str(plan.total), force=force or None)
    return visit.show(
        "dead_replay.html", plan=plan, wanted=wanted, hidden=hidden, address_of=address_of, force=bool(force)
    )


@dead.post("/dead/replay")
def replay_many(visit: Operating) -> Response:
    """Begin the replay of the letters that were counted."""
    form = visit.form
    wanted, counted = filter_of(form), _counted(form)
    asked = checked(
        ReplayRequest,
        filter=wanted,
        per_second=form.get("per_second") or "10",
        force=bool(form.get("force")),
        note=visit.note(),
        confirm=counted,
    )
    try:
        view: Any = visit.instance.dead_letters.begin_replay(asked, visit.caller)
    except Conflict as error:
        raise InvalidInput("typed", f"{error}; they are counted anew above") from error
    return visit.done(f"{view.id} brings back {view.total} letters.", f"{CONSOLE}/replays/{view.id}")


@dead.get("/dead/purge")
def plan_purge(visit: Operating) -> Response:
    """Count the letters that would be emptied; nothing is done."""
    wanted = filter_of(visit.request.query_params).model_copy(update={"up_to": None})
    plan = visit.instance.dead_letters.purge_all(PurgeRequest(filter=wanted, dry_run=True), visit.caller)
    hidden = parameters_of(wanted, up_to=plan.up_to, counted=str(plan.matching))
    return visit.show("dead_purge.html", plan=plan, wanted=wanted, hidden=hidden, address_of=address_of)


@dead.post("/dead/purge")
def purge_many(visit: Operating) -> Response:
    """Empty the letters that were counted."""
    asked = PurgeRequest(filter=filter_of(visit.form), confirm=_counted(visit.form), note=visit.note())
    try:
        done = visit.instance.dead_letters.purge_all(asked, visit.caller)
    except Conflict as error:
        raise InvalidInput("typed", f"{error}; they are counted anew above") from error
    return visit.done(
        f"{done.purged} letters are emptied: payload and stack are gone, the facts stay.", f"{CONSOLE}/dead"
    )


def _counted(form: Mapping[str, str]) -> int:
    """Return the count that the form was made with, if the operator typed the same."""
    counted, typed = form.get("counted", ""), form.get("typed", "").strip().replace(",", "")
    if not counted.isdecimal() or typed != counted:
        raise InvalidInput("typed", "type the count that is told above")
    return int(counted)


@dead.get("/dead/{letter_id}")
def one(visit: Operating, letter_id: str, payload: str = "") -> Response:
    """Show one letter; its payload only on demand, as that is recorded."""
    letter = visit.instance.dead_letters.one(letter_id, visit.caller)
    if payload:
        visit.looked("payload_read", f"letter:{letter_id}")
    return visit.show(
        "dead_letter.html",
        letter=letter,
        stack=list(folded(letter.stack)),
        fields=compared(letter) if payload else None,
        text=indented(letter.payload.text) if payload else "",
        address_of=address_of,
        alike=DeadLetterFilter(fingerprint=letter.fingerprint),
    )


@dead.post("/dead/{letter_id}/edit")
def edit(visit: Operating, letter_id: str) -> Response:
    """Replace the payload, once it is found to be an event of a known kind."""
    text = visit.form.get("payload", "").replace("\r\n", "\n")
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("payload", f"is not JSON: {error}") from error
    visit.instance.dead_letters.edit(letter_id, text.encode(), visit.caller, visit.note())
    return visit.done("The payload is replaced, and the old one is kept. Replay it to try the new one.")


@dead.post("/dead/{letter_id}/replay")
def replay(visit: Operating, letter_id: str) -> Response:
    """Try the event again."""
    force = bool(visit.form.get("force"))
    done = visit.instance.dead_letters.replay(letter_id, visit.caller, visit.note(), force=force)
    return visit.done(f"{done.event_id} of {done.run_id} is ready again.")


@dead.post("/dead/{letter_id}/purge")
def purge(visit: Operating, letter_id: str) -> Response:
    """Empty the letter."""
    visit.instance.dead_letters.purge(letter_id, visit.caller, visit.note())
    return visit.done("Payload and stack are gone; the facts stay.", f"{CONSOLE}/dead/{letter_id}")


class StackPart(NamedTuple):
    """Lines of a stack: of our code, of messages, or of so many frames of libraries, which are folded."""

    text: str
    folded: int = 0


_FRAME = re.compile(r'\s+File "([^"]*)", line \d+')


def folded(stack: str) -> Iterator[StackPart]:
    """Yield the parts of a stack in order, the frames of libraries folded."""
    parts: list[tuple[bool, list[str]]] = []
    for line in stack.splitlines():
        frame = _FRAME.match(line)
        goes_on = bool(parts) and line.startswith("    ") and not frame
        is_library = parts[-1][0] if goes_on else bool(frame) and "/sluice/" not in frame[1] if frame else False
        if parts and parts[-1][0] == is_library:
            parts[-1][1].append(line)
        else:
            parts.append((is_library, [line]))
    for is_library, lines in parts:
        yield StackPart("\n".join(lines), sum(bool(_FRAME.match(line)) for line in lines) if is_library else 0)


class ComparedField(NamedTuple):
    """A field of a payload, by its dotted path, with its value before the last edit and in an event that passed."""

    path: str
    value: str | None
    past: str | None
    passed: str | None
    is_edited: bool
    is_unlike: bool
    """Whether the event that passed has another value in its body."""


def compared(letter: DeadLetterView) -> list[ComparedField]:
    """Return the fields of a letter's payload, or none if it is not JSON."""
    now = _leaves_of(letter.payload.text)
    past = _leaves_of(letter.payload_history[-1].payload.text) if letter.payload_history else None
    passed = _leaves_of(letter.passed.payload.text) if letter.passed else {}
    found = []
    for path in list(dict.fromkeys([*now, *(past or ())]))[:MOST_FIELDS]:
        value, before, other = now.get(path), (past or {}).get(path), passed.get(path)
        is_unlike = bool(passed) and path.startswith("body") and other != value
        is_edited = past is not None and before != value
        found.append(ComparedField(path, _short(value), _short(before), _short(other), is_edited, is_unlike))
    return found


def _leaves_of(text: str) -> dict[str, str]:
    """Return the JSON of each value that holds no other, by its dotted path."""
    try:
        return dict(_leaves(json.loads(text), ""))
    except (ValueError, RecursionError):
        return {}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list) and value:
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{path}.{name}" if path else str(name))
    else:
        yield path, json.dumps(value, ensure_ascii=False)


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} … ({len(text):,} characters)"


def indented(text: str) -> str:
    """Return JSON with a line for each value, anything else as it is."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


@replays.get("/replays")
def latest_replays(visit: Operating, before: str = "") -> Response:
    """Show bulk replays, the newest first."""
    return visit.show(
        "replays.html", **recent_replays(visit, {"before": before}), live={"before": before} if before else {}
    )


@streamed("replays", "replays_figures.html", needs=lambda visit, _: visit.caller.may_operate())
def recent_replays(visit: Visit, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Read a part of the list."""
    found = visit.instance.dead_letters.latest_replays(
        visit.caller, REPLAYS_AT_ONCE + 1, parameters.get("before") or None
    )
    return {
        "replays": found[:REPLAYS_AT_ONCE],
        "before": found[REPLAYS_AT_ONCE - 1].id if len(found) > REPLAYS_AT_ONCE else None,
    }


@replays.get("/replays/{replay_id}")
def one_replay(visit: Operating, replay_id: str) -> Response:
    """Show one bulk replay."""
    actions = visit.instance.dead_letters.replay_actions(replay_id, visit.caller)
    return visit.show("replay.html", **progress(visit, {"replay": replay_id}), actions=actions)


def _may_see(visit: Visit, parameters: Mapping[str, str]) -> None:
    visit.caller.may_operate()
    visit.instance.dead_letters.show_replay(parameters.get("replay", ""), visit.caller)


@streamed("replay", "replay_figures.html", needs=_may_see)
def progress(visit: Visit, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Read how far a bulk replay is."""
    view = visit.instance.dead_letters.show_replay(parameters["replay"], visit.caller)
    seconds = max(1.0, (view.updated_at - view.created_at).total_seconds())
    ended = view.succeeded + view.parked_again
    own = DeadLetterFilter(replay_id=view.id, status="any")
    return {
        "replay": view,
        "rate": view.replayed / seconds,
        "ended": ended,
        "failed_share": view.parked_again / ended if ended else 0.0,
        "parts": _parts(view),
        "brought_back": address_of("dead", own, each="1"),
        "parked_again": address_of("dead", own, each="1", status="parked"),
    }


def _parts(view: ReplayView) -> list[tuple[str, str, int, float, float]]:
    """Return the parts of the progress bar: its kind, its name, the letters, and where it begins and how wide it is, in
    per cent of all letters."""
    left = view.total - view.replayed - sum(view.skips.values())
    parts = (
        ("works", "succeeded", view.succeeded),
        ("failed", "parked again", view.parked_again),
        ("backs_off", "under way", view.open),
        ("died", "left out, or ended with their run", sum(view.skips.values()) + view.cancelled),
        ("waits", "not yet looked at", max(0, left)),
    )
    found, begins = [], 0.0
    for kind, name, many in parts:
        width = 100 * many / max(1, view.total)
        found.append((kind, name, many, begins, min(width, 100 - begins)))
        begins = min(100.0, begins + width)
    return found


@replays.post("/replays/{replay_id}/{action}")
def change_replay(visit: Operating, replay_id: str, action: Literal["pause", "resume", "abort"]) -> Response:
    """Pause the replay, go on with it, or end it for good."""
    view = visit.instance.dead_letters.change_replay(replay_id, action, visit.caller, visit.note())
    return visit.done(f"{view.id} is {view.status}: {view.replayed} of {view.total} letters were brought back.")


ROUTERS = (dead, replays)
