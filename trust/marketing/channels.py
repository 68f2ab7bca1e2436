"""Classifies the channels of passages and counts the brands named: channels, their diversity, share of voice."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import get_args
from urllib.parse import urlsplit

from sluice.contracts.profiles import Channel, Channels, Voice
from sluice.contracts.retrieval import RetrievedChunk
from sluice.trust.marketing.claims import ChannelRules, read_rules

SiteOf = Callable[[str], str | None]
"""Returns the registered domain of a URL; None where it has none."""
CHANNELS: tuple[Channel, ...] = get_args(Channel)
DECIMALS = 4
_NOT_NAME = re.compile(r"[^a-z0-9]+")


def classify_channel(url: str | None, brands: Sequence[str], site_of: SiteOf) -> Channel:
    """Return the kind of source of a URL; `owned` where its registered domain has the name of one of the brands.

    Listed domains come first, then a brand's own, then patterns of the address: a brand's newsroom is its own.
    """
    site = site_of(url) if url else None
    if url is None or site is None:
        return "other"
    rules = read_rules(ChannelRules, "channels")
    known: tuple[tuple[Channel, frozenset[str]], ...] = (
        ("press_release", rules.press_release),
        ("social", rules.social),
        ("forum", rules.forum),
        ("news", rules.news),
    )
    for channel, domains in known:
        if site in domains:
            return channel
    if is_owned(site, brands):
        return "owned"
    parts = urlsplit(url)
    address = f"{parts.hostname or ''}{parts.path}".lower()
    return next((one for one in CHANNELS if one in rules.addresses and rules.addresses[one].search(address)), "other")


def is_owned(site: str, brands: Sequence[str]) -> bool:
    """Return whether a registered domain has a brand's name: `acme-cola.com` that of Acme Cola."""
    label = _plain(site.split(".", 1)[0])
    return any(
        (name := _plain(brand)) and label in (name, f"{name}group", f"get{name}", f"{name}hq") for brand in brands
    )


def measure_channels(chunks: Sequence[RetrievedChunk], channels: Sequence[Channel], site_of: SiteOf) -> Channels:
    """Measure the variety of the passages' sources; `channels` has one channel per passage.

    Diversity is Shannon's entropy of the passages over registered domains (without an address, over documents), divided
    by its maximum, the logarithm of the number of passages (Pielou's evenness, 1966, over passages).
    """
    sources = Counter((site_of(chunk.url) if chunk.url else None) or chunk.document_id for chunk in chunks)
    domains = {site for chunk in chunks if chunk.url and (site := site_of(chunk.url))}
    return Channels(
        passages=dict(sorted(Counter(channels).items())),
        domains=len(domains),
        diversity=_evenness(list(sources.values())),
    )


def _evenness(counts: Sequence[int]) -> float:
    total = sum(counts)
    if total < 2:
        return 0.0
    entropy = -math.fsum(count / total * math.log(count / total) for count in counts)
    return round(min(1.0, max(0.0, entropy / math.log(total))), DECIMALS)


def _plain(name: str) -> str:
    return _NOT_NAME.sub("", name.casefold())


def count_voices(brands: Sequence[str], passages: Iterable[tuple[RetrievedChunk, Channel]]) -> tuple[Voice, ...]:
    """Count how often each brand is named, in the order of `brands`; empty where no passage names any.

    A passage that names a brand more than once counts once, and one that names several counts for each. A text in
    several documents counts each time: readers met it that often.
    """
    named = [(chunk, channel, names_in(f"{chunk.title or ''}\n{chunk.text}", brands)) for chunk, channel in passages]
    total = sum(len(names) for _, _, names in named)
    if not total:
        return ()
    voices = []
    for brand in brands:
        own = [(chunk, channel) for chunk, channel, names in named if brand in names]
        voices.append(
            Voice(
                brand=brand,
                passages=len(own),
                documents=len({chunk.document_id for chunk, _ in own}),
                share=round(len(own) / total, DECIMALS),
                channels=dict(sorted(Counter(channel for _, channel in own).items())),
            )
        )
    return tuple(voices)


def names_in(text: str, brands: Sequence[str]) -> frozenset[str]:
    """Return the brands that a text names, as whole words, in their own capitals or in capitals throughout.

    `apple` does not name the brand Apple; `Apple`, `APPLE` and `Apple's` do.
    """
    return frozenset(brand for brand in brands if _pattern(brand).search(text))


def _pattern(brand: str) -> re.Pattern[str]:
    spellings = dict.fromkeys(
        (brand, brand.upper(), f"#{brand.replace(' ', '')}", f"@{brand.replace(' ', '').lower()}")
    )
    return re.compile(rf"(?<![\w@#])(?:{'|'.join(map(re.escape, spellings))})(?!\w)")
