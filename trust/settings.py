"""Settings of trust, guard and private data."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from re import Pattern
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from sluice.contracts.base import Value
from sluice.contracts.trust import Finding
from sluice.trust.signature import public_key_bytes

if TYPE_CHECKING:
    from sluice.contracts.document import ChunkedDocument, Document


class CorpusPolicy(Value):
    """What some corpora may take in, and from where."""

    search: bool = True
    """Whether questions to them may search the web."""
    crawl: bool = True
    """Whether pages may be crawled into them."""
    sources: tuple[str, ...] = ()
    """The only sources of their documents: hosts (and their subdomains), "files" of this machine, "submissions".
    Another page is not fetched, and no document from elsewhere is taken in. Empty: every source."""
    forbidden: tuple[Pattern[str], ...] = ()
    """Regular expressions, searched in any case. A chunk in which one is found goes to the quarantine."""

    @field_validator("forbidden", mode="before")
    @classmethod
    def _in_any_case(cls, patterns: object) -> object:
        if not isinstance(patterns, (list, tuple)):
            return patterns
        return [re.compile(one, re.IGNORECASE) if isinstance(one, str) else one for one in patterns]

    def takes(self, document: Document | ChunkedDocument) -> bool:
        """Return whether the document's source is allowed."""
        kind = {"file": "files", "submission": "submissions"}.get(document.provenance.source)
        if not self.sources or kind is not None:
            return not self.sources or kind in self.sources
        return self.takes_page(document.url or "")

    def takes_page(self, url: str) -> bool:
        """Return whether the page's host is allowed."""
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
        named = (one.lower().lstrip("*.") for one in self.sources)
        return not self.sources or any(host == one or host.endswith(f".{one}") for one in named)

    def takes_source(self, source: str) -> bool:
        """Return whether all that such an entry of `sources` lets in is allowed."""
        is_kind = source in ("files", "submissions")
        return source in self.sources or not self.sources or (not is_kind and self.takes_page(f"https://{source}"))

    def find_forbidden(self, text: str) -> tuple[Finding, ...]:
        """Return a finding for the first match of each pattern."""
        found = (pattern.search(text) for pattern in self.forbidden)
        return tuple(Finding(rule="forbidden", start=one.start(), end=one.end()) for one in found if one)


EVERYTHING = CorpusPolicy()


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
    mask: tuple[str, ...] = ("secret", "card", "iban")
    """Kinds of private data that are masked in answers, by default those that a form or check digit proves: secret,
    card, iban, email, ip, ssn, phone; "all" for every kind; empty for none. An answer has [card] or
    [secret: github-pat] in their place. With "instructions", which "all" does not include, passages that the guard
    warns of are left out; otherwise they stand in the context with a mark."""
    recognisers: Literal["own", "presidio"] = "own"
    """Search for private data: the project's own patterns, or these and presidio's national recognisers (tax, health
    and bank numbers with a check digit), for which the extra `private` is needed."""
    snippet_licences: tuple[str, ...] = ()
    """Licences, as pages name them or link to them, for which answers show at most 200 characters of a passage, and the
    address: patterns such as "*by-nc*" or "all rights reserved*", in any case."""
    corpora: dict[str, CorpusPolicy] = Field(default_factory=dict)
    """Policies of some corpora, by shell pattern of their names: `[trust.corpora."docs-*"]`. The first match counts."""
    confidence_floor: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Passages that answer the question with a lower probability are not cited; 0 cites every passage. At 0.2 one
    answer of twenty is lost, and nine of ten questions on topics that the corpus lacks are detected (decision 19)."""

    def policy_of(self, corpus: str) -> CorpusPolicy:
        """Return the policy of a corpus by its name."""
        return next((policy for name, policy in self.corpora.items() if fnmatchcase(corpus, name)), EVERYTHING)

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


MASKED_KINDS = ("all", "instructions", "secret", "card", "iban", "email", "ip", "ssn", "phone")
"""Values allowed in `mask`."""
_NATIONAL = re.compile(r"[a-z]{2}_[a-z_]{2,40}")
