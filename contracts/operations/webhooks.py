"""Webhooks: who is told of what, and how that went. HTTP and the command line use the same values.

A delivery is signed as Standard Webhooks says. Its body is `{"type", "timestamp", "data"}`: ids, states and paths of
this interface, never a text. The receiver fetches the rest with a key of its own.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sluice.contracts.base import CorpusName, Moment, Value

HookType = Literal[
    "run.finished",
    "answer.ready",
    "answer.stale",
    "dead_letter.parked",
    "quarantine.held",
    "defence.tripped",
    "webhook.disabled",
]
"""Events that a webhook may ask for. `run.finished` comes for each end of a run, whatever its status."""
OPERATORS_TYPES: frozenset[HookType] = frozenset({"dead_letter.parked", "quarantine.held"})
"""Only for operators' webhooks."""
WHOLE_TYPES: frozenset[HookType] = frozenset({"defence.tripped", "webhook.disabled"})
"""Only for webhooks of operators of all corpora, as these events belong to none."""
TEST: Literal["webhook.test"] = "webhook.test"
"""The type of the delivery that `POST /v1/webhooks/{id}/test` sends."""
DeliveryStatus = Literal["pending", "delivered", "failed"]
"""`failed`: it was tried as often as it may be. It can be replayed."""

WebhookUrl = Annotated[str, Field(min_length=1, max_length=2_048)]
HookTypes = Annotated[tuple[HookType, ...], Field(min_length=1, max_length=16)]
HookCorpora = Annotated[tuple[CorpusName, ...], Field(max_length=100)]
Description = Annotated[str, Field(max_length=500)]


class WebhookRequest(Value):
    """`POST /v1/webhooks`."""

    url: WebhookUrl
    """Where deliveries are posted to: https, or an address that `egress.allow` names as `webhook=host:port`."""
    types: HookTypes = ("run.finished", "answer.ready", "answer.stale")
    corpora: HookCorpora = ()
    """Only events of these corpora; none: of every corpus that the key may touch."""
    description: Description = ""


class WebhookChange(Value):
    """`PATCH /v1/webhooks/{id}`: what is given changes, the rest stays."""

    url: WebhookUrl | None = None
    types: HookTypes | None = None
    corpora: HookCorpora | None = None
    description: Description | None = None
    enabled: bool | None = None
    """true also begins anew after failures, and sends what waits; false keeps what waits."""


class Webhook(Value):
    """A webhook, and how its deliveries fare."""

    id: str
    url: str
    """Secrets in its query are masked."""
    types: tuple[str, ...]
    corpora: tuple[str, ...]
    """Empty: of every corpus."""
    description: str
    owner: str
    """The API key that made it. Deliveries stop when that is revoked."""
    created_at: Moment
    disabled_at: Moment | None
    disabled_because: str | None
    failures: int
    """Failed attempts in a row, over all deliveries."""
    failing_since: Moment | None
    paused_until: Moment | None
    """Nothing is sent before: the receiver failed several times, or asked for a pause."""
    pending: int
    """Deliveries that wait."""


class WebhookMade(Webhook):
    """A new webhook. `secret` is shown this once; it verifies the signatures."""

    secret: str


class WebhookSecret(Value):
    """A new secret, shown this once. Until `old_until` deliveries carry the signature of the old one as well."""

    id: str
    secret: str
    old_until: Moment


class WebhookDelivery(Value):
    """One event for one webhook, and its last attempt."""

    id: str
    """The header `webhook-id`: the same over all attempts, and for every webhook that gets the event."""
    type: str
    run_id: str | None
    corpus: str | None
    created_at: Moment
    status: DeliveryStatus
    attempts: int
    next_attempt_at: Moment | None
    delivered_at: Moment | None
    http_status: int | None
    milliseconds: int | None
    answer: str | None
    """The first 1,024 bytes of the receiver's answer, with secrets masked."""
    error: str | None
    """Why there was no answer."""
    position: str
    """The place in the list."""


class DeliveryReplay(Value):
    """`POST /v1/webhooks/{id}/replay`: deliveries to send again, under the ids that they had. Give `ids` or `since`."""

    ids: Annotated[tuple[Annotated[str, Field(max_length=128)], ...], Field(max_length=1_000)] = ()
    since: Moment | None = None
    """Those of events from then on, up to `until`."""
    until: Moment | None = None
    status: DeliveryStatus | None = None
    """Of these only those with this status."""

    @model_validator(mode="after")
    def _names_some(self) -> DeliveryReplay:
        if bool(self.ids) == (self.since is not None):
            raise ValueError("give ids, or since (and until)")
        return self


class Redelivered(Value):
    """Number of deliveries that will be sent again; at most 10,000 at once, the oldest first."""

    replayed: int
