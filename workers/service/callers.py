"""The senders of requests, what their keys allow, and the API keys: made once, shown once, kept as a hash.

A key is 256 random bits, so one round of SHA-256 is enough to keep it: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar, get_args

from sluice.contracts.base import CORPUS_NAME, fields_of
from sluice.contracts.errors import Conflict, Forbidden, InvalidInput, InvalidSetting, NotFound, Unavailable
from sluice.contracts.operations.dead_letters import DeadLetterFilter
from sluice.contracts.operations.keys import ApiKey, KeyLimits, MadeKey, NewKey, Role
from sluice.disk.durable import replace_file
from sluice.ledger.audit import KeyRecord
from sluice.ledger.ledger import Ledger
from sluice.workers.data_dir import API_FILE, SIGNING_FILE
from sluice.workers.settings import Settings

__all__ = ["ROLES", "ApiKeys", "LocalKey", "Role", "is_loopback", "require_key_beyond_loopback"]

ROLES: tuple[Role, ...] = get_args(Role)

KEY_PREFIX = "slk_"
OWN_NAME = "local"
"""The name of a caller from this machine that needs no key."""
LOCAL_PREFIX = "slo_"
REMEMBERED_SECONDS = 2.0
"""Age up to which the list of keys is used without a look into the ledger: the delay of a revocation."""
_LOOK_AHEAD_SECONDS = 0.5
"""Margin for the check that follows `is_known`, which takes less."""
_UNKNOWN_SECONDS = 0.1
"""Age up to which the list may lack a key: wrong keys read the ledger no more often, and a new key works after it."""


class ApiKeys:
    """Creates, finds and revokes keys. Safe across threads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._active: dict[str, KeyRecord] = {}
        self._was_one_made = False
        self._read_at = float("-inf")

    def create(
        self,
        name: str,
        role: Role,
        corpora: Sequence[str],
        expires_at: datetime | None = None,
        requests_per_minute: int | None = None,
        operator: str = OWN_NAME,
    ) -> tuple[str, str]:
        """Create a key; return its id and the key itself, which is not kept. Without corpora it covers all of them.

        Raises:
            InvalidInput: an unknown role, an unusable corpus name, an end that has passed, or a rate below 0.
        """
        if role not in ROLES:
            raise InvalidInput("role", f"{role!r} is none", f"one of {', '.join(ROLES)}")
        for corpus in corpora:
            if not CORPUS_NAME.fullmatch(corpus):
                raise InvalidInput("corpus", f"{corpus!r} is no corpus name", "lower-case letters, digits, - _ .")
        if expires_at is not None and expires_at <= datetime.now(UTC):
            raise _passed(expires_at)
        if requests_per_minute is not None and requests_per_minute < 0:
            raise InvalidInput("rate", "is below 0", "give requests a minute, or 0 for no limit")
        key, key_id = KEY_PREFIX + secrets.token_urlsafe(32), "key_" + secrets.token_hex(6)
        self._ledger.keys.insert(key_id, _hash(key), name, role, corpora, expires_at, requests_per_minute, operator)
        self._forget()
        return key_id, key

    def make(self, wanted: NewKey, operator: str) -> MadeKey:
        """Create a key; return it with its secret. Raises as `create` does."""
        limits = wanted.expires_at, wanted.requests_per_minute
        key_id, key = self.create(wanted.name, wanted.role, wanted.corpora, *limits, operator)
        return MadeKey.model_construct(**dict(self.one(key_id)), key=key)

    def list(self) -> Sequence[ApiKey]:
        """Return every key, the revoked ones too, the oldest first."""
        return [_shown(key) for key in self._ledger.keys.list()]

    def one(self, key_id: str) -> ApiKey:
        """Return a key. Raises `NotFound` if there is no such key."""
        found = self._ledger.keys.one(key_id)
        if found is None:
            raise NotFound(f"there is no key {key_id}")
        return _shown(found)

    def change(self, key_id: str, limits: KeyLimits, operator: str) -> ApiKey:
        """Change the given limits of a key. Raises `InvalidInput` if its end has passed, `NotFound` if there is no such
        key, `Conflict` if it is revoked."""
        given = limits.model_dump(exclude_unset=True)
        if end := given.get("expires_at"):
            given["expires_at"] = end.timestamp()
            if end <= datetime.now(UTC):
                raise _passed(end)
        if given and not self._ledger.keys.change(key_id, given, operator, "key_changed"):
            raise Conflict(f"key {key_id} is revoked: make another")
        self._forget()
        return self.one(key_id)

    def revoke(self, key_id: str, operator: str = OWN_NAME) -> bool:
        """Put a key out of force. Raises `NotFound` if there is no such key."""
        was_in_force = self._ledger.keys.revoke(key_id, operator)
        self._forget()
        return was_in_force

    def _forget(self) -> None:
        """Have the next request read the list anew."""
        self._read_at = float("-inf")

    def is_known(self, key: str | None) -> bool:
        """Return whether the list is recent enough to check this key without the ledger. None stands for no key."""
        is_fresh = time.monotonic() - self._read_at < REMEMBERED_SECONDS - _LOOK_AHEAD_SECONDS
        return is_fresh and (key is None or _hash(key) in self._active)

    def find(self, key: str) -> KeyRecord | None:
        """Return the key's record while it is in force. Reads the ledger for a key that the list lacks."""
        hashed = _hash(key)
        found = self._in_force().get(hashed) or self._in_force(_UNKNOWN_SECONDS).get(hashed)
        return found if found and found.is_in_force(datetime.now(UTC)) else None

    def is_in_force(self, key_id: str) -> bool:
        """Return whether a key is in force, by its id."""
        now = datetime.now(UTC)
        return any(key.id == key_id and key.is_in_force(now) for key in self._in_force().values())

    def any_active(self) -> bool:
        """Return whether any key is in force."""
        return any(key.is_in_force(datetime.now(UTC)) for key in self._in_force().values())

    def needed(self, required: bool | None) -> bool:
        """Return whether a request from this machine needs a key, by the setting `require_api_key`.

        If it is None, revoking the last key does not open the interface again: the ledger keeps revoked keys.
        """
        is_any_active = self.any_active()
        if required is None:
            return self._was_one_made
        return required or is_any_active

    def _in_force(self, trusted_seconds: float = REMEMBERED_SECONDS) -> dict[str, KeyRecord]:
        with self._lock:
            if time.monotonic() - self._read_at > trusted_seconds:
                known = self._ledger.keys.list()
                self._was_one_made = bool(known)
                self._active = {key.hash: key for key in known if key.revoked_at is None}
                self._read_at = time.monotonic()
            return self._active


class LocalKey:
    """The key of this machine's own user, for the command line: who can read it can read the ledger as well.

    It stands in the data directory, in a file of mode 0600, and changes each time an interface starts, so that a
    program that took the port meanwhile has learned nothing.
    """

    def __init__(self, data_dir: Path) -> None:
        self._file = data_dir / API_FILE

    def renew(self, host: str, port: int) -> None:
        """Write a new key, and the address of the interface."""
        reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
        url = f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
        told = {"url": url, "key": LOCAL_PREFIX + secrets.token_urlsafe(32)}
        replace_file(self._file, json.dumps(told).encode(), 0o600)

    def is_it(self, key: str) -> bool:
        """Return whether this is the key. Another interface on the same data directory may have renewed it."""
        if not key.startswith(LOCAL_PREFIX):
            return False
        try:
            known = json.loads(self._file.read_bytes())["key"]
        except (OSError, ValueError, KeyError):
            return False
        return secrets.compare_digest(known.encode(), key.encode())


def secret_of(settings: Settings) -> bytes:
    """Return the instance's secret: `signing_key`, or a file of the data directory, which is made once. Raises
    `InvalidSetting` where machines share an object store and none is set, as each would make its own."""
    if settings.signing_key is not None:
        return bytes.fromhex(settings.signing_key.get_secret_value())
    if settings.object_store.url:
        problem = "is not set: each machine would refuse the sign-ins, cursors and webhooks of the others"
        remedy = "64 hexadecimal digits in a file SLUICE_SIGNING_KEY of secrets on each: openssl rand -hex 32"
        raise InvalidSetting("signing_key", problem, remedy)
    file = settings.data_dir / SIGNING_FILE
    with suppress(FileNotFoundError):
        return file.read_bytes()
    replace_file(file, secrets.token_bytes(32), 0o600)
    return file.read_bytes()


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_key_beyond_loopback(settings: Settings) -> None:
    """Raise `InvalidSetting` if `http_host` is not loopback and no key exists."""
    with Ledger(settings.ledger_location) as ledger:
        if not is_loopback(settings.http_host) and not ApiKeys(ledger).any_active():
            raise InvalidSetting(
                "http_host",
                f"{settings.http_host} can be reached from outside, and there is no API key",
                "run `sluice keys NAME --create`, or use 127.0.0.1",
            )


def _passed(end: datetime) -> InvalidInput:
    return InvalidInput("expires_at", f"{end:%Y-%m-%d %H:%M} UTC has passed", "give a moment to come")


def _shown(key: KeyRecord) -> ApiKey:
    return ApiKey.model_construct(**fields_of(ApiKey, key))


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


Narrowable = TypeVar("Narrowable", bound=DeadLetterFilter)


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request."""

    owner: str
    role: str
    corpora: frozenset[str] | None
    """The corpora that the key may touch; None for all."""
    requests_per_minute: int | None = None
    """The key's own limit; None for that of the settings."""

    @classmethod
    def of(cls, key: KeyRecord) -> Caller:
        """Return the sender of requests with that key."""
        return cls(key.id, key.role, frozenset(key.corpora) or None, key.requests_per_minute)

    def may_touch(self, corpus: str) -> None:
        """Raise `Forbidden` unless the key lists the corpus."""
        if not self.may_see(corpus):
            raise Forbidden(f"this key may not touch corpus {corpus!r}")

    def may_see(self, corpus: str | None) -> bool:
        """Return whether the caller may see what is of that corpus; None (of no corpus) needs a key for all."""
        return self.corpora is None or corpus in self.corpora

    def may_operate(self) -> None:
        """Raise `Forbidden` unless the key's role is operator."""
        if self.role != "operator":
            raise Forbidden("this needs a key with the role operator")

    def may_operate_instance(self) -> None:
        """Raise `Forbidden` unless the key's role is operator and the key covers every corpus."""
        self.may_operate()
        if self.corpora is not None:
            raise Forbidden("this concerns every corpus, and the key is limited to some: use an operator's key of all")

    def narrowed(self, wanted: Narrowable) -> Narrowable:
        """Limit the filter to the caller's corpora. Raises `Forbidden` if the filter names another."""
        for corpus in wanted.corpora or ():
            self.may_touch(corpus)
        return wanted.within(self.corpora)


OWN_MACHINE = Caller(OWN_NAME, "operator", None)
"""A request from this machine that needs no key."""


SESSION_SECONDS, IDLE_SECONDS = 12 * 3_600.0, 3_600.0
"""How long a session of the console lasts at most, and how long without a request."""
REMEMBERED_AWAY_SECONDS = 600.0
"""How long a session is believed while the ledger, which would know its end, does not answer."""
MOST_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at the console: the caller, the key's name, and the hash of the session ("" without one)."""

    caller: Caller
    name: str
    session: str = ""


KEYLESS = Visitor(OWN_MACHINE, "this machine")
"""Who sits at this machine, while it needs no key."""


class ConsoleSessions:
    """Signs in at the console by an API key. A session is a row of the ledger, so that it ends with its key, and every
    process of the interface knows it; the browser holds a random id, of which the row has the hash."""

    def __init__(self, ledger: Ledger, keys: ApiKeys, secret: bytes) -> None:
        self._table, self._keys, self._secret = ledger.console, keys, secret
        self._remembered: dict[str, tuple[float, Visitor]] = {}

    def begin(self, key: str) -> str | None:
        """Begin a session of a key, and return its id for the cookie; None if the key is not in force."""
        found = self._keys.find(key)
        if found is None:
            return None
        session_id = secrets.token_urlsafe(32)
        self._table.begin(_hash(session_id), found.id, SESSION_SECONDS)
        return session_id

    def find(self, session_id: str) -> Visitor | None:
        """Return who is signed in under an id; None if the session or its key has ended. While the ledger does not
        answer, one who was known lately is still known. Raises `Unavailable` for any other."""
        session = _hash(session_id)
        try:
            key = self._table.find(session, IDLE_SECONDS)
        except Unavailable:
            return self._known_lately(session)
        if key is None:
            self._remembered.pop(session, None)
            return None
        return self._remember(Visitor(Caller.of(key), key.name, session))

    def keyless(self, required: bool | None) -> Visitor | None:
        """Return who sits at this machine, if that needs no key by the setting `require_api_key`."""
        try:
            return None if self._keys.needed(required) else self._remember(KEYLESS)
        except Unavailable:
            return self._known_lately(KEYLESS.session)

    def goes_on(self, visitor: Visitor) -> bool:
        """Return whether a stream goes on that was opened in a session: its key is in force, as far as is known."""
        with suppress(Unavailable):
            return not visitor.session or self._keys.is_in_force(visitor.caller.owner)
        return True

    def end(self, visitor: Visitor) -> None:
        """End a session."""
        self._remembered.pop(visitor.session, None)
        self._table.end(visitor.session, visitor.caller.owner)

    def token(self, visitor: Visitor) -> str:
        """Return what each form of this session carries, so that no other page can have made it."""
        return hmac.new(self._secret, f"console:{visitor.session}".encode(), hashlib.sha256).hexdigest()

    def record(self, visitor: Visitor, action: str, subjects: Sequence[str], note: str = "") -> None:
        """Record what somebody does, or looks at. Raises `Unavailable`: then it may not be done or shown."""
        self._table.record(visitor.caller.owner, action, subjects, note)

    def _remember(self, visitor: Visitor) -> Visitor:
        self._remembered.pop(visitor.session, None)
        self._remembered[visitor.session] = (time.monotonic(), visitor)
        while len(self._remembered) > MOST_REMEMBERED:
            self._remembered.pop(next(iter(self._remembered)), None)
        return visitor

    def _known_lately(self, session: str) -> Visitor:
        at, visitor = self._remembered.get(session, (float("-inf"), None))
        if visitor is None or time.monotonic() - at > REMEMBERED_AWAY_SECONDS:
            raise Unavailable("the ledger does not answer: nobody can be signed in")
        return visitor
