"""Near-duplicates among the results of one query: the best one stays and lists the others.

Two texts are near-duplicates when their sets of three-word shingles overlap by a Jaccard index of at least the
threshold (Broder, "On the resemblance and containment of documents", 1997), estimated by MinHash signatures of 128
values, whose standard error at 0.9 is 0.027.

At the default threshold of 0.9, one word in 60 may differ, or a tenth of the text may be added. Copies, mirrors and
reprints with another date or footer are then duplicates; texts that share a template or a quotation are not. Texts of
fewer than about 60 words are duplicates only where they differ just in case and white space.

Equal texts need no signature. A signature costs 30 µs and is kept, so that comparing a known text costs 0.2 µs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

SHINGLE_WORDS = 3
PERMUTATIONS = 128
_SEED = 1
MOST_SIGNATURES = 5_000
"""Signatures kept from one query to the next, about 1 kB each besides the text."""


class Signature(Protocol):
    """A MinHash signature."""

    def jaccard(self, other: Signature) -> float:
        """Return the estimated Jaccard index of the two texts' shingles, in [0, 1]."""


class DistinctTexts:
    """Distinct texts of a query's results. `threshold` is a Jaccard index in (0, 1]; with 0 every text is distinct."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._positions: dict[str, int] = {}

    def find_duplicate(self, text: str) -> int | None:
        """Return the position of the kept text that this text repeats; None where it is distinct."""
        if not self._threshold or not self._positions:
            return None
        equal = self._positions.get(text)
        if equal is not None:
            return equal
        signature = compute_signature(text)
        for kept, position in self._positions.items():
            if signature.jaccard(compute_signature(kept)) >= self._threshold:
                return position
        return None

    def keep(self, text: str) -> None:
        """Keep a text, so that later ones are compared with it."""
        if self._threshold:
            self._positions[text] = len(self._positions)


@lru_cache(maxsize=MOST_SIGNATURES)
def compute_signature(text: str) -> Signature:
    """Return the MinHash signature of the text's shingles, ignoring case and white space; the latest are kept."""
    from rensa import RMinHash

    signature: Signature = RMinHash(PERMUTATIONS, _SEED)
    signature.update(split_shingles(text))  # type: ignore[attr-defined]  # the protocol is what callers need
    return signature


def split_shingles(text: str) -> list[str]:
    """Split the text into all runs of three words; a shorter text is one shingle."""
    words = text.casefold().split()
    if len(words) <= SHINGLE_WORDS:
        return [" ".join(words)]
    return [f"{first} {second} {third}" for first, second, third in zip(words, words[1:], words[2:], strict=False)]
