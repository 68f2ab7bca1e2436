"""Webhooks, as far as a caller may have them: who is told of what, and the secrets that sign it.

A caller sees its own webhooks, an operator of all corpora every one. A webhook hears of no corpus that its key may not
touch, whoever changes it. A secret is shown once and kept encrypted, by a key that is derived from the instance's.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from sluice.contracts.base import fields_of
from sluice.contracts.errors import Corrupted, Forbidden, InvalidInput, NotFound
from sluice.contracts.operations import webhooks as values
from sluice.ingest.egress.rules import EgressRules
from sluice.ledger.ledger import Ledger
from sluice.ledger.webhooks.store import Webhooks
from sluice.workers.service.callers import OWN_MACHINE, Caller
from sluice.workers.settings import Settings

SECRET_PREFIX = "whsec_"  # noqa: S105 - what every one begins with
SECRET_BYTES = 32
ROTATION = timedelta(hours=24)
"""Time for which the old secret signs beside the new one."""


class Sealer:
    """Encrypts the secrets of webhooks (Fernet), by a key derived from the instance's (HMAC-SHA-256)."""

    def __init__(self, instance_secret: bytes) -> None:
        from cryptography.fernet import Fernet  # here: a process without webhooks does without

        key = hmac.digest(instance_secret, b"sluice webhooks", "sha256")
        self._cipher = Fernet(base64.urlsafe_b64encode(key))

    def seal(self, signing: Sequence[tuple[str, float | None]]) -> str:
        """Return secrets, each with the time until which it signs, as the column of a webhook; the newest first."""
        return self._cipher.encrypt(json.dumps(signing).encode()).decode()

    def in_use(self, sealed: str) -> list[str]:
        """Return the secrets that sign now, the newest first. Raises `Corrupted` if another key encrypted them."""
        from cryptography.fernet import InvalidToken

        try:
            signing = json.loads(self._cipher.decrypt(sealed))
        except InvalidToken as error:
            raise Corrupted(
                "the webhook's secret was encrypted by another key than this data directory's: rotate it"
            ) from error
        return [secret for secret, until in signing if until is None or until > time.time()]


class WebhookDesk:
    """The webhooks of one instance. Methods on one raise `NotFound` where there is none that the caller may see."""

    def __init__(self, ledger: Ledger, settings: Settings, instance_secret: bytes) -> None:
        self._keys, self._rows, self._instance_secret = ledger.keys, ledger.webhooks, instance_secret
        self._rules = EgressRules(settings.egress)

    def create(self, asked: values.WebhookRequest, caller: Caller) -> values.WebhookMade:
        """Make a webhook; the secret is in this answer alone.

        Raises:
            InvalidInput: the URL cannot be posted to; the error says what would allow it.
            Forbidden: the key may not hear of these events or corpora.
            Conflict: the caller has too many.
        """
        self._check_url(asked.url)
        corpora = _corpora_of(asked.corpora, asked.types, caller)
        secret = _new_secret()
        made = self._rows.insert(
            *("wh_" + secrets.token_hex(8), asked.url, asked.types, corpora, caller.owner),
            description=asked.description,
            secrets=Sealer(self._instance_secret).seal([(secret, None)]),
        )
        return values.WebhookMade(secret=secret, **fields_of(values.Webhook, made))

    def list(self, caller: Caller) -> Sequence[values.Webhook]:
        """Return the webhooks that the caller may see, the oldest first."""
        return self._rows.endpoints(None if _sees_all(caller) else caller.owner)

    def one(self, webhook_id: str, caller: Caller) -> values.Webhook:
        """Return one webhook."""
        return self._seen(webhook_id, caller)[0]

    def change(self, webhook_id: str, asked: values.WebhookChange, caller: Caller) -> values.Webhook:
        """Change what is given. Raises as `create`, by the key that made the webhook."""
        before, _ = self._seen(webhook_id, caller)
        given = asked.model_dump(exclude_none=True, exclude={"enabled"})
        if asked.url is not None:
            self._check_url(asked.url)
        if asked.types or asked.corpora is not None:
            corpora = before.corpora if asked.corpora is None else asked.corpora
            given["corpora"] = _corpora_of(corpora, asked.types or before.types, self._maker(before.owner))
        return self._rows.change(webhook_id, asked.enabled, f"by {caller.owner}", **given)

    def log(self, webhook_id: str, caller: Caller) -> Webhooks:
        """Return the ledger's webhooks, to look at this one's deliveries, to send some again, or to remove it."""
        self._seen(webhook_id, caller)
        return self._rows

    def rotate(self, webhook_id: str, caller: Caller) -> values.WebhookSecret:
        """Make a new secret. The one before signs beside it for a day; those from before that, no more."""
        _, sealed = self._seen(webhook_id, caller)
        sealer, secret, old_until = Sealer(self._instance_secret), _new_secret(), datetime.now(UTC) + ROTATION
        try:
            before = sealer.in_use(sealed)[:1]
        except Corrupted:  # nobody can sign with it any more
            before = []
        signing = [(secret, None), *((one, old_until.timestamp()) for one in before)]
        self._rows.change(webhook_id, secrets=sealer.seal(signing))
        return values.WebhookSecret(id=webhook_id, secret=secret, old_until=old_until)

    def _seen(self, webhook_id: str, caller: Caller) -> tuple[values.Webhook, str]:
        """Return a webhook and its encrypted secrets."""
        found, sealed = self._rows.find(webhook_id)
        if found.owner != caller.owner and not _sees_all(caller):
            raise NotFound(f"no webhook {webhook_id}")
        return found, sealed

    def _maker(self, owner: str) -> Caller:
        key = self._keys.one(owner)
        return Caller(key.id, key.role, frozenset(key.corpora) or None) if key else OWN_MACHINE

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
        if refusal := self._rules.check_host(host, port, "webhook"):
            raise InvalidInput("url", refusal.detail, f"the owner allows it by {entry} in egress.allow")
        if parts.scheme == "http" and not self._rules.is_listed(host, port, "webhook"):
            remedy = f"https, or {entry} in egress.allow"
            raise InvalidInput("url", "is http, which anybody on the way can read", remedy)


def _corpora_of(corpora: Sequence[str], types: Sequence[str], maker: Caller) -> Sequence[str]:
    """Return the corpora of which a webhook hears: those asked for, or all of its maker's. Raises `Forbidden`."""
    for corpus in corpora:
        maker.may_touch(corpus)
    if maker.role != "operator" and (asked := values.OPERATORS_TYPES.intersection(types)):
        raise Forbidden(f"{', '.join(sorted(asked))} needs a key with the role operator")
    if not _sees_all(maker) and (asked := values.WHOLE_TYPES.intersection(types)):
        raise Forbidden(f"{', '.join(sorted(asked))} needs an operator's key of all corpora")
    return corpora or sorted(maker.corpora or ())


def _sees_all(caller: Caller) -> bool:
    return caller.role == "operator" and caller.corpora is None


def _new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
