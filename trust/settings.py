"""Settings of trust, guard and private data."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from sluice.contracts.base import Value
from sluice.trust.signature import public_key_bytes


class TrustSettings(Value):
    """Trusted sources, and the handling of untrusted and private texts."""

    domains: tuple[str, ...] = ()
    """Hosts (and their subdomains) whose pages are trusted; all others lose trust. Empty: no host is judged."""
    authors: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Authors known on a domain, as its pages name them: {"example.org" = ["Ada"]}. Elsewhere names have no effect, as
    anybody can write one."""
    submitters: tuple[str, ...] = ()
    """Ids of API keys whose submissions are trusted like files of this machine; see `sluice keys`. "local" stands for
    requests of this machine that need no key."""
    keys: dict[str, str] = Field(default_factory=dict)
    """Public keys whose signatures are trusted, by an id: {"release" = "base64 of 32 bytes"}. `sluice sign --new-key`
    makes one; after a key is removed, its earlier signatures are no longer trusted either."""
    mask: tuple[str, ...] = ("secret",)
    """Kinds of private data that are masked in answers: secret, card, iban, email, ip, ssn, phone; "all" for every
    kind; empty for none. An answer has [card] or [secret: github-pat] in their place."""
    recognisers: Literal["own", "presidio"] = "own"
    """Search for private data: the project's own patterns, or these and presidio's national recognisers (tax, health
    and bank numbers with a check digit), for which the extra `private` is needed."""
    snippet_licences: tuple[str, ...] = ()
    """Licences, as pages name them or link to them, for which answers show at most 200 characters of a passage, and the
    address: patterns such as "*by-nc*" or "all rights reserved*", in any case."""
    confidence_floor: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Passages that answer the question with a lower probability are not cited; 0 cites every passage. At 0.2 one
    answer of twenty is lost, and nine of ten questions on topics that the corpus lacks are detected (decision 19)."""

    @field_validator("keys")
    @classmethod
    def _keys_are_public_keys(cls, keys: dict[str, str]) -> dict[str, str]:
        for key_id, public in keys.items():
            try:
                public_key_bytes(public)
            except ValueError as error:
                raise ValueError(f"{key_id} {error}") from error
        return keys

    @field_validator("mask")
    @classmethod
    def _are_kinds(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        for kind in kinds:
            if kind not in MASKED_KINDS and not _NATIONAL.fullmatch(kind):
                kinds_there_are = f"{', '.join(MASKED_KINDS)}, or one of presidio's such as uk_nhs"
                raise ValueError(f"{kind!r} is no kind of private data: use {kinds_there_are}")
        return kinds


MASKED_KINDS = ("all", "secret", "card", "iban", "email", "ip", "ssn", "phone")
"""Values allowed in `mask`."""
_NATIONAL = re.compile(r"[a-z]{2}_[a-z_]{2,40}")
