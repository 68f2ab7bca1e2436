"""Sends what webhooks are told: a thread of the reconciler's process, which holds no model and takes no events.

One attempt: claim in the ledger → sign → post through the egress proxy → record. A sender that dies between the last
two leaves a lease, and whoever looks after it ran out sends again: at least once, in order within a lane. Nothing is
imported or opened before the first delivery is due. A slow receiver takes at most `MOST_OF_ENDPOINT` attempts at once.

The request follows Standard Webhooks (webhook-id, webhook-timestamp, webhook-signature). Redirects are not followed, no
cookie is kept, and of the answer no more than its first kilobyte is read.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.errors import Corrupted, SluiceError, Unavailable
from sluice.ledger.webhooks.store import Attempt, ClaimedDelivery
from sluice.otel import metrics
from sluice.otel.logs import MASK, redact_text
from sluice.workers.broker.transport import BROKER_ERRORS
from sluice.workers.context import Context
from sluice.workers.service.callers import secret_of
from sluice.workers.service.learning.control import announce_control
from sluice.workers.service.webhooks import SECRET_PREFIX, Sealer

if TYPE_CHECKING:
    import httpx2

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two looks for deliveries that are due."""
PRUNE_SECONDS = 60.0
ATTEMPT_SECONDS = 15.0
"""Time limit of one attempt, from the connection to the end of what is read."""
MOST_AT_ONCE = 60
MOST_OF_ENDPOINT = 6
"""Attempts at the same time, in all and to one receiver: the egress proxy has 64 connections, and 12 to one host."""
MOST_ANSWER_BYTES = 1_024
_NAMED_SECRET = re.compile(
    r"((?:api[_-]?key|token|secret|passw(?:or)?d|authorization|cookie)[\"']?\s*[:=]\s*[\"']?)[^\s\"'&,;}<]+",
    re.IGNORECASE,
)
"""What stands behind such a name in a receiver's answer is masked, whatever its form."""
OF_PROXY = ("x-sluice-refused", "x-sluice-failed")
"""Headers of the egress proxy's own answers: what they come with is not the receiver's."""
STOP_SECONDS = 5.0
"""Patience with attempts in hand at the end; one that is broken off is made again when its lease has run out."""


def sign(secrets: Sequence[str], message_id: str, timestamp: int, body: str) -> str:
    """Return the header `webhook-signature` of Standard Webhooks: one `v1` signature (HMAC-SHA-256) for each secret."""
    signed = f"{message_id}.{timestamp}.{body}".encode()
    keys = (base64.b64decode(one.removeprefix(SECRET_PREFIX)) for one in secrets)
    return " ".join("v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys)


class WebhookSender:
    """Sends the deliveries of one ledger, from `start` to `stop`."""

    def __init__(self, context: Context, look_seconds: float = LOOK_SECONDS) -> None:
        self._context, self._webhooks, self._look_seconds = context, context.ledger.webhooks, look_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        self._in_hand: Counter[str] = Counter()
        self._prune_at = 0.0

    def start(self) -> None:
        """Begin to look for deliveries, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more, and wait for the attempts in hand."""
        self._stopping.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(self._look_seconds):
            try:
                if time.monotonic() >= self._prune_at:
                    self._prune_at = time.monotonic() + (0.0 if self._webhooks.prune() else PRUNE_SECONDS)
                if claims := self._claim():
                    asyncio.run(self._send_all(claims))
            except (Unavailable, *BROKER_ERRORS) as error:
                log.warning("webhooks_not_sent", error=repr(error))
            except Exception as error:  # the next look goes on with everything else
                log.error("webhooks_not_sent", error=repr(error), exc_info=error)

    def _claim(self) -> Sequence[ClaimedDelivery]:
        room = MOST_AT_ONCE - self._in_hand.total()
        return self._webhooks.claim(self._in_hand, MOST_OF_ENDPOINT, room) if room else ()

    async def _send_all(self, claims: Sequence[ClaimedDelivery]) -> None:
        """Send these, and what becomes due meanwhile, until nothing is in hand."""
        sealer = Sealer(secret_of(self._context.settings))
        tasks: set[asyncio.Task[None]] = set()
        async with _client(self._context.egress.url_for("webhook")) as client:
            while claims or tasks:
                self._in_hand.update(claim.endpoint_id for claim in claims)
                tasks |= {asyncio.create_task(self._deliver(client, sealer, claim)) for claim in claims}
                _, tasks = await asyncio.wait(tasks, timeout=self._look_seconds, return_when=asyncio.FIRST_COMPLETED)
                claims = () if self._stopping.is_set() else await asyncio.to_thread(self._claim)

    async def _deliver(self, client: httpx2.AsyncClient, sealer: Sealer, claim: ClaimedDelivery) -> None:
        try:
            attempt = await _attempt(client, sealer, claim)
            await asyncio.to_thread(self.record, claim, attempt)
        except Exception as error:  # not recorded: it is sent again when its lease has run out
            known = isinstance(error, SluiceError)
            log.error("webhook_not_recorded", message_id=claim.message_id, error=repr(error), exc_info=not known)
        finally:
            self._in_hand[claim.endpoint_id] -= 1

    def record(self, claim: ClaimedDelivery, attempt: Attempt) -> None:
        """Record an attempt, and announce what it changed."""
        control_run = self._webhooks.record(claim, attempt)
        metrics.WEBHOOK_ATTEMPTS.labels("delivered" if attempt.arrived else "failed").inc()
        if not attempt.arrived:
            facts = {"message_id": claim.message_id, "webhook_id": claim.endpoint_id, "status": attempt.status}
            log.info("webhook_attempt_failed", error=attempt.error, attempts=claim.attempts + 1, **facts)
        if control_run is not None:
            log.warning("webhook_disabled", webhook_id=claim.endpoint_id)
            announce_control(self._context, control_run)


async def _attempt(client: httpx2.AsyncClient, sealer: Sealer, claim: ClaimedDelivery) -> Attempt:
    """Post one delivery. Returns how that ended; raises nothing that the receiver can cause."""
    import httpx2

    timestamp, started = int(time.time()), time.monotonic()
    try:
        headers = {
            "content-type": "application/json",
            "webhook-id": claim.message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(sealer.in_use(claim.secrets), claim.message_id, timestamp, claim.body),
        }
        async with asyncio.timeout(ATTEMPT_SECONDS):
            ended = await _post(client, claim.url, claim.body, headers)
    except TimeoutError:
        ended = Attempt(0, error=f"no answer within {ATTEMPT_SECONDS:.0f} s")
    except (httpx2.HTTPError, httpx2.InvalidURL, Corrupted, OSError) as error:
        ended = Attempt(0, error=redact_text(f"{type(error).__name__}: {error}")[:500])
    return ended._replace(milliseconds=round((time.monotonic() - started) * 1e3))


def _client(proxy_url: str) -> httpx2.AsyncClient:
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    return httpx2.AsyncClient(
        proxy=proxy_url,
        trust_env=False,
        follow_redirects=False,
        timeout=ATTEMPT_SECONDS,
        limits=httpx2.Limits(max_connections=MOST_AT_ONCE, max_keepalive_connections=MOST_AT_ONCE // 4),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers={"user-agent": f"Sluice-Webhooks/{version('sluice')}", "accept-encoding": "identity"},
    )


async def _post(client: httpx2.AsyncClient, url: str, body: str, headers: Mapping[str, str]) -> Attempt:
    from sluice.ingest.politeness.hosts import retry_after_seconds

    async with client.stream("POST", url, content=body.encode(), headers=headers) as response:
        if why := next(filter(None, map(response.headers.get, OF_PROXY)), None):
            return Attempt(0, error=f"the egress proxy let it not through: {why[:200]}")
        answer = b""
        async for part in response.aiter_raw():
            answer += part
            if len(answer) >= MOST_ANSWER_BYTES:
                break
        told = _NAMED_SECRET.sub(rf"\1{MASK}", redact_text(answer.decode("utf-8", "replace")))[:MOST_ANSWER_BYTES]
        asked = response.headers.get("retry-after") if response.status_code in (429, 503) else None
        pause_seconds = retry_after_seconds(asked, datetime.now(UTC)) if asked else 0.0
        return Attempt(0, response.status_code, told, retry_after_seconds=pause_seconds)
