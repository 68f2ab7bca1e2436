"""Share of voice: how often each of some brands is named in some passages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from sluice.contracts.profiles.insights import Channel, Voice
from sluice.contracts.retrieval import RetrievedChunk

DECIMALS = 4


def count_voices(brands: Sequence[str], passages: Iterable[tuple[RetrievedChunk, Channel]]) -> tuple[Voice, ...]:
    """How often each brand is named, in the order of `brands`; none where fewer than two brands or no passage count.

    A passage that names a brand more than once counts once, and one that names several counts for each. A text that
    stands in several documents counts each time: it was heard so often.
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
    """Those of the brands that a text names, as whole words, in the capitals they have or in capitals throughout.

    `apple` is no brand, `Apple`, `APPLE` and `Apple's` are.
    """
    return frozenset(brand for brand in brands if _pattern(brand).search(text))


def _pattern(brand: str) -> re.Pattern[str]:
    spellings = dict.fromkeys(
        (brand, brand.upper(), f"#{brand.replace(' ', '')}", f"@{brand.replace(' ', '').lower()}")
    )
    return re.compile(rf"(?<![\w@#])(?:{'|'.join(map(re.escape, spellings))})(?!\w)")
