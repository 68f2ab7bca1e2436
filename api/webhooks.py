"""Routes for webhooks: make, change and remove them, look at their deliveries, send some again.

A key sees its own webhooks, an operator of all corpora every one.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from sluice.api.access import AnyCaller, instance_of
from sluice.api.lists import Cursor, paged, position, whole
from sluice.api.problems import problems
from sluice.contracts.api import Page
from sluice.contracts.operations import webhooks as values

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])
ROUTERS = (router,)


@router.get("", name="some", responses=problems(503), summary="Every webhook of this key")
def some(request: Request, caller: AnyCaller) -> Page[values.Webhook]:
    """Return the webhooks of this key, the oldest first; for an operator of all corpora, all of them."""
    return whole(instance_of(request).webhooks.list(caller))


@router.post("", name="create", status_code=201, responses=problems(409, 503, 507), summary="Be told of events")
def create(request: Request, response: Response, body: values.WebhookRequest, caller: AnyCaller) -> values.WebhookMade:
    """Make a webhook. Its secret is in this answer alone: it verifies the signature of each delivery, as Standard
    Webhooks says. Send `POST /v1/webhooks/{id}/test` next."""
    made = instance_of(request).webhooks.create(body, caller)
    response.headers["Location"] = f"/v1/webhooks/{made.id}"
    return made


@router.get("/{webhook_id}", name="one", responses=problems(404, 503), summary="One webhook, and how it fares")
def one(request: Request, webhook_id: str, caller: AnyCaller) -> values.Webhook:
    """Return a webhook: what it asked for, what waits, and whether it fails or is disabled, and why."""
    return instance_of(request).webhooks.one(webhook_id, caller)


@router.patch("/{webhook_id}", responses=problems(404, 409, 503, 507), summary="Change, enable or disable a webhook")
def change(request: Request, webhook_id: str, body: values.WebhookChange, caller: AnyCaller) -> values.Webhook:
    """Change what the body names. A new URL gets what waits, too."""
    return instance_of(request).webhooks.change(webhook_id, body, caller)


@router.delete("/{webhook_id}", status_code=204, responses=problems(404, 503), summary="Remove a webhook")
def delete(request: Request, webhook_id: str, caller: AnyCaller) -> None:
    """Remove a webhook with the log of its deliveries. What waits is not sent."""
    instance_of(request).webhooks.log(webhook_id, caller).delete(webhook_id)


@router.get("/{webhook_id}/deliveries", responses=problems(404, 503), summary="What was sent, and what came of it")
def deliveries(
    request: Request,
    webhook_id: str,
    caller: AnyCaller,
    status: values.DeliveryStatus | None = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    cursor: Cursor = None,
) -> Page[values.WebhookDelivery]:
    """Return the deliveries of the last 30 days, the latest first, each with its last attempt."""
    log = instance_of(request).webhooks.log(webhook_id, caller)
    return paged(request, limit, lambda most, after: log.deliveries(webhook_id, most, after, status), position)


@router.post("/{webhook_id}/rotate", responses=problems(404, 503, 507), summary="Get a new secret")
def rotate(request: Request, webhook_id: str, caller: AnyCaller) -> values.WebhookSecret:
    """Make a new secret. For a day each delivery carries the signature of the one before as well."""
    return instance_of(request).webhooks.rotate(webhook_id, caller)


@router.post("/{webhook_id}/test", status_code=202, responses=problems(404, 409, 503, 507), summary="Send a test")
def test(request: Request, webhook_id: str, caller: AnyCaller) -> values.WebhookDelivery:
    """Send a delivery of type `webhook.test`; its outcome stands in the deliveries. Ends a pause after failures."""
    return instance_of(request).webhooks.log(webhook_id, caller).test(webhook_id)


@router.post("/{webhook_id}/replay", status_code=202, responses=problems(404, 409, 503, 507), summary="Send again")
def replay(request: Request, webhook_id: str, body: values.DeliveryReplay, caller: AnyCaller) -> values.Redelivered:
    """Send deliveries again, by id or by time, whatever came of them. Each keeps its id."""
    log = instance_of(request).webhooks.log(webhook_id, caller)
    return values.Redelivered(replayed=log.replay(webhook_id, body))
