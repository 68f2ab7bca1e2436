"""Webhooks, as far as a caller may have them: who is told of what, and the secrets that sign it.

A caller sees its own webhooks, an operator of all corpora every one. A webhook hears of no corpus that its key may not
touch. A secret is shown once and kept encrypted, by a key that is derived from the instance's.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from sluice.contracts.base import fields_of
from sluice.contracts.errors import Corrupted, Forbidden, InvalidInput, NotFound
from sluice.contracts.operations import webhooks as values
from sluice.ingest.egress.rules import EgressRules
from sluice.ledger.ledger import Ledger
from sluice.ledger.webhooks.store import sealed_secrets
from sluice.workers.service.callers import Caller
from sluice.workers.settings import Settings

SECRET_PREFIX = "whsec_"  # noqa: S105 - what every one begins with
SECRET_BYTES = 32
ROTATION = timedelta(hours=24)
"""Time for which the old secret signs beside the new one."""
_SEALED_FOR = b"sluice webhooks"
_NONCE_BYTES = 12


class Sealer:
    """Encrypts the secrets of webhooks (AES-256-GCM), each bound to its webhook, by a key derived from the instance's
    (HKDF-SHA-256, RFC 5869)."""

    def __init__(self, instance_secret: bytes) -> None:
        # Imported here: a process without webhooks does without.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        self._cipher = AESGCM(HKDF(SHA256(), 32, None, _SEALED_FOR).derive(instance_secret))

    def seal(self, webhook_id: str, secret: str) -> str:
        """Return the secret encrypted, in base64."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, secret.encode(), webhook_id.encode())).decode()

    def open(self, webhook_id: str, sealed: str) -> str:
        """Return the secret. Raises `Corrupted` if it was encrypted by another instance's key."""
        from cryptography.exceptions import InvalidTag

        raw = base64.b64decode(sealed)
        try:
            opened = self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], webhook_id.encode())
        except InvalidTag as error:
            raise Corrupted(
                f"the secret of webhook {webhook_id} was encrypted by another key than this data directory's: rotate it"
            ) from error
        return opened.decode()

    def in_use(self, webhook_id: str, column: str, now: datetime) -> list[str]:
        """Return the secrets that sign now, the newest first. Raises `Corrupted` as `open`."""
        return [self.open(webhook_id, one) for one in sealed_secrets(column, now)]


class WebhookDesk:
    """The webhooks of one instance. Methods on one raise `NotFound` where there is none that the caller may see."""

    def __init__(self, ledger: Ledger, settings: Settings, instance_secret: bytes) -> None:
        self._ledger, self._rows, self._instance_secret = ledger, ledger.webhooks, instance_secret
        self._rules = EgressRules(settings.egress)

    def create(self, asked: values.WebhookRequest, caller: Caller) -> values.WebhookMade:
        """Make a webhook; the secret is in this answer alone.

        Raises:
            InvalidInput: the URL cannot be posted to; the error says what would allow it.
            Forbidden: the key may not hear of these events or corpora.
            Conflict: the caller has too many.
        """
        self._check(asked.url, asked.types, asked.corpora, caller)
        webhook_id, secret = "wh_" + secrets.token_hex(8), _new_secret()
        corpora = asked.corpora or tuple(sorted(caller.corpora or ()))
        stored = self._stored(webhook_id, secret)
        made = self._rows.insert(
            *(webhook_id, asked.url, asked.types, corpora, caller.owner), description=asked.description, secrets=stored
        )
        return values.WebhookMade(secret=secret, **fields_of(values.Webhook, made))

    def list(self, caller: Caller) -> Sequence[values.Webhook]:
        """Return the webhooks that the caller may see, the oldest first."""
        return self._rows.endpoints(None if _sees_all(caller) else caller.owner)

    def one(self, webhook_id: str, caller: Caller) -> values.Webhook:
        """Return one webhook."""
        return self._seen(webhook_id, caller)[0]

    def change(self, webhook_id: str, asked: values.WebhookChange, caller: Caller) -> values.Webhook:
        """Change what is given. Raises as `create`."""
        before, _ = self._seen(webhook_id, caller)
        given = asked.model_dump(exclude_none=True, exclude={"enabled"})
        if "corpora" in given:
            given["corpora"] = asked.corpora or tuple(sorted(caller.corpora or ()))
        types = asked.types or tuple(before.types)  # type: ignore[arg-type]  # the ledger holds none but these
        self._check(asked.url or before.url, types, asked.corpora or before.corpora, caller)
        changed = self._rows.change(webhook_id, **given)
        if asked.enabled:
            return self._rows.enable(webhook_id)
        return changed if asked.enabled is None else self._rows.disable(webhook_id, f"by {caller.owner}")

    def delete(self, webhook_id: str, caller: Caller) -> None:
        """Remove a webhook and the log of its deliveries; what waits is not sent."""
        self._seen(webhook_id, caller)
        self._rows.delete(webhook_id)

    def deliveries(
        self, webhook_id: str, caller: Caller, limit: int, after: str | None, status: values.DeliveryStatus | None
    ) -> Sequence[values.WebhookDelivery]:
        """Return the deliveries to a webhook, the latest first."""
        self._seen(webhook_id, caller)
        return self._rows.deliveries(webhook_id, limit, after, status)

    def rotate(self, webhook_id: str, caller: Caller) -> values.WebhookSecret:
        """Make a new secret. The one before signs beside it for a day; those from before that, no more."""
        _, column = self._seen(webhook_id, caller)
        secret, old_until = _new_secret(), datetime.now(UTC) + ROTATION
        last = sealed_secrets(column, datetime.now(UTC))[:1]
        try:
            self._sealer.in_use(webhook_id, column, datetime.now(UTC))
        except Corrupted:  # nobody can sign with it any more
            last = []
        self._rows.change(webhook_id, secrets=self._stored(webhook_id, secret, last, old_until))
        return values.WebhookSecret(id=webhook_id, secret=secret, old_until=old_until)

    def test(self, webhook_id: str, caller: Caller) -> str:
        """Send a delivery of type `webhook.test`; return its id. Raises `Conflict` while the webhook is disabled."""
        self._seen(webhook_id, caller)
        return self._rows.test(webhook_id)

    def replay(self, webhook_id: str, asked: values.DeliveryReplay, caller: Caller) -> values.Redelivered:
        """Send deliveries again. Raises `Conflict` while the webhook is disabled."""
        self._seen(webhook_id, caller)
        return values.Redelivered(replayed=self._rows.replay(webhook_id, asked))

    @property
    def _sealer(self) -> Sealer:
        return Sealer(self._instance_secret)

    def _stored(self, webhook_id: str, secret: str, old: Sequence[str] = (), old_until: datetime | None = None) -> str:
        until = old_until.timestamp() if old_until else None
        stored: list[dict[str, Any]] = [{"sealed": self._sealer.seal(webhook_id, secret), "until": None}]
        return json.dumps(stored + [{"sealed": one, "until": until} for one in old])

    def _seen(self, webhook_id: str, caller: Caller) -> tuple[values.Webhook, str]:
        found, column = self._rows.find(webhook_id)
        if found.owner != caller.owner and not _sees_all(caller):
            raise NotFound(f"no webhook {webhook_id}")
        return found, column

    def _check(self, url: str, types: Sequence[values.HookType], corpora: Sequence[str], caller: Caller) -> None:
        self._check_url(url)
        for corpus in corpora:
            caller.may_touch(corpus)
        if caller.role != "operator" and (asked := values.OPERATORS_TYPES.intersection(types)):
            raise Forbidden(f"{', '.join(sorted(asked))} needs a key with the role operator")
        if not _sees_all(caller) and (asked := values.WHOLE_TYPES.intersection(types)):
            raise Forbidden(f"{', '.join(sorted(asked))} needs an operator's key of all corpora")

    def _check_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            raise InvalidInput("url", "is not a URL", "https://host/path") from None
        if parts.scheme not in ("https", "http") or not host:
            raise InvalidInput("url", "is not an https URL", "https://host/path")
        if parts.username is not None or parts.password is not None or parts.fragment:
            raise InvalidInput("url", "holds a user, a password or a fragment", "leave it out")
        entry = f"webhook={host}:{port}"
        refusal = self._rules.check_host(host, port, "webhook")
        if refusal is not None:
            raise InvalidInput("url", refusal.detail, f"the owner allows it by {entry} in egress.allow")
        if parts.scheme == "http" and not self._rules.is_listed(host, port, "webhook"):
            raise InvalidInput(
                "url", "is http, which anybody on the way can read", f"https, or {entry} in egress.allow"
            )


def _sees_all(caller: Caller) -> bool:
    return caller.role == "operator" and caller.corpora is None


def _new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
