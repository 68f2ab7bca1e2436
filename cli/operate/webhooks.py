"""`sluice webhooks`: who is told of events by HTTP, and how that goes."""

from __future__ import annotations

from sluice.cli.command import Shown, ask_first, chosen, moment, needed, over_http, table
from sluice.cli.connection import given
from sluice_client import SluiceClient, models

ALL_TIME = "1970-01-01T00:00"


@over_http
def webhooks(
    client: SluiceClient,
    webhook_id: str | None = None,
    add: str | None = None,
    event: list[str] | None = None,
    corpus: list[str] | None = None,
    enable: bool = False,
    disable: bool = False,
    rotate: bool = False,
    test: bool = False,
    replay: bool = False,
    since: str | None = None,
    delete: bool = False,
    limit: int = 50,
    cursor: str | None = None,
    yes: bool = False,
) -> Shown:
    """Webhooks: who is told of events, and how that goes; add, change, test or replay one."""
    action = chosen(enable=enable, disable=disable, rotate=rotate, test=test, replay=replay, delete=delete)
    asked = given(types=event or None, corpora=corpus or None)
    if add is not None:
        made = client.create_webhook(add, **asked)
        return Shown(made, f"{made.id}  {made.secret}\nThis is the only time that the secret is shown.")
    if webhook_id is None and action is None:
        types = ("types", lambda one: ", ".join(one.types))
        return table("webhooks", client.webhooks(), "id url", types, ("state", _state), "pending owner")
    webhook_id = needed("ID", webhook_id, action or "show")
    match action:
        case "enable" | "disable":
            changed = client.change_webhook(webhook_id, enabled=action == "enable", **asked)
            return Shown(changed, f"{webhook_id} is {action}d")
        case "rotate":
            rotated = client.rotate_webhook(webhook_id)
            return Shown(rotated, f"{rotated.secret}\nThis is the only time that the secret is shown.")
        case "test":
            sent = client.test_webhook(webhook_id)
            return Shown(sent, f"{sent.id} is on its way: sluice webhooks {webhook_id} shows what comes of it")
        case "replay":
            begin = moment(since or ALL_TIME).isoformat()
            again = client.replay_webhook(webhook_id, since=begin, **({} if since else {"status": "failed"}))
            return Shown(again, f"{again.replayed} deliveries are sent again")
        case "delete":
            ask_first(f"Remove {webhook_id} and the log of its deliveries?", yes=yes)
            client.delete_webhook(webhook_id)
            return Shown({"id": webhook_id, "deleted": True}, f"{webhook_id} is removed")
    if asked:
        return Shown(client.change_webhook(webhook_id, **asked), f"{webhook_id} is changed")
    found = client.webhook_deliveries(webhook_id, limit=limit, cursor=cursor)
    attempted = "id type run=run_id status attempts answered=http_status ms=milliseconds"
    error = ("error", lambda one: one.error or (one.answer if one.status != "delivered" else ""))
    return table("deliveries", found, attempted, error, "created=created_at next=next_attempt_at")


def _state(one: models.Webhook) -> str:
    if one.disabled_at:
        return f"disabled: {one.disabled_because}"
    return f"{one.failures} failures in a row since {one.failing_since:%Y-%m-%d %H:%M}" if one.failures else "well"
