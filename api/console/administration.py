"""What operators did, who may send requests, and how the instance is set."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import Response

from sluice.api.console.frame import OperatingAll, pages
from sluice.contracts.errors import InvalidInput, checked
from sluice.contracts.operations.actions import ActionPage
from sluice.contracts.operations.keys import KeyLimits, NewKey
from sluice.workers.service.callers import ROLES
from sluice.workers.service.operate.settings import list_settings

administration = pages()
PART, KEYS = 100, 50


@administration.get("/actions")
def actions(
    visit: OperatingAll, operator: str = "", action: str = "", subject: str = "", before: str | None = None
) -> Response:
    """Show what operators did, the latest first."""
    filters = {"operator": operator.strip(), "action": action.strip(), "subject": subject.strip()}
    asked = {name: value or None for name, value in filters.items()}
    found = visit.instance.context.ledger.console.actions(checked(ActionPage, limit=PART + 1, cursor=before, **asked))
    position = found[PART - 1].position if len(found) > PART else None
    return visit.show("actions.html", actions=found[:PART], before=position, filters=filters)


@administration.get("/keys")
def keys(visit: OperatingAll, before: str | None = None) -> Response:
    """Show the keys without their secrets, the newest first."""
    every = [*reversed(visit.instance.keys.list())]
    begin = next((place for place, one in enumerate(every, 1) if one.id == before), 0)
    part = every[begin : begin + KEYS]
    position = part[-1].id if begin + KEYS < len(every) else None
    return visit.show("keys.html", keys=part, before=position, roles=ROLES)


@administration.post("/keys")
def make(visit: OperatingAll) -> Response:
    """Make a key, and show its secret this once."""
    names = visit.form.get("corpora", "").replace(",", " ").split()
    wanted = _checked(
        NewKey,
        name=visit.form.get("name", "").strip(),
        role=visit.form.get("role"),
        corpora=names,
        **_limits(visit.form),
    )
    made = visit.instance.keys.make(wanted, visit.caller.owner)
    return visit.show("key_made.html", 201, made=made, closes=not visit.visitor.session)


@administration.post("/keys/{key_id}/change")
def change(visit: OperatingAll, key_id: str) -> Response:
    """Change a key's end and rate."""
    visit.instance.keys.change(key_id, _checked(KeyLimits, **_limits(visit.form)), visit.caller.owner)
    return visit.done(f"Key {key_id} is changed, everywhere within two seconds.")


@administration.post("/keys/{key_id}/revoke")
def revoke(visit: OperatingAll, key_id: str) -> Response:
    """Put a key out of force."""
    was_in_force = visit.instance.keys.revoke(key_id, visit.caller.owner)
    told = "is revoked for good, everywhere within two seconds" if was_in_force else "was revoked before"
    return visit.done(f"Key {key_id} {told}.")


@administration.get("/config")
def config(visit: OperatingAll, q: str = "", changed: bool = False) -> Response:
    """Show each setting, its value, and where that comes from."""
    every = list_settings(visit.instance.settings)
    found = [one for one in every if q.strip() in one.setting and (one.source != "default" or not changed)]
    return visit.show("config.html", settings=found, q=q, changed=changed)


def _limits(form: Any) -> dict[str, Any]:
    """Return the limits that a form has: an empty field takes one away."""
    end, rate = form.get("expires_at", "").strip(), form.get("requests_per_minute", "").strip()
    if rate and not rate.isdecimal():
        raise InvalidInput(
            "requests_per_minute", "give a whole number; 0 for no limit, nothing for that of the settings"
        )
    try:
        moment = datetime.fromisoformat(end) if end else None
    except (ValueError, OverflowError):
        raise InvalidInput("expires_at", f"{end[:50]!r} is no moment: as 2027-01-31 12:00") from None
    if moment is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return {"expires_at": moment, "requests_per_minute": int(rate) if rate else None}


def _checked(kind: Any, **fields: Any) -> Any:
    """Do as `checked`, and name the field of the form, also for a member of a list."""
    try:
        return checked(kind, **fields)
    except InvalidInput as error:
        raise InvalidInput(error.field.partition(".")[0], error.problem, error.remedy) from error


ROUTERS = (administration,)
