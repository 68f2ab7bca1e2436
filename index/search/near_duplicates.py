"""Near-duplicates among the results of one query: the best one stays and lists the others.

Two texts are near-duplicates when their sets of three-word shingles overlap by a Jaccard index of at least the
threshold (Broder, "On the resemblance and containment of documents", 1997), estimated by MinHash signatures of
128 values, whose standard error at 0.9 is 0.027.

The default threshold of 0.9: one word in 60 may differ, or a tenth of the text may be added. Copies, mirrors and
reprints with another date or footer are then duplicates; texts that share a template or a quotation are not. Texts of
fewer than about 60 words are duplicates only where they differ in nothing but case and white space.

A signature costs 20 µs, so two cheaper checks come first: equal texts need none, and texts that share none of three
probes of 20 characters, line ends aside, are different. Measured on pairs of 100
words: of unrelated ones none of 3,000 shared a probe; of those with two words changed (an index of 0.89) none of
20,000 shared none. With twelve changed (0.51) one in 20 shared none: a threshold that low misses a few.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

SHINGLE_WORDS = 3
PERMUTATIONS = 128
_SEED = 1
PROBE_CHARACTERS = 20
MOST_SIGNATURES = 5_000
"""Signatures kept from one query to the next, about 1 kB each, and the text."""


class Signature(Protocol):
    """A MinHash signature."""

    def jaccard(self, other: Signature) -> float:
        """The estimated Jaccard index of the two texts' shingles, in [0, 1]."""
        ...


class DistinctTexts:
    """The texts of one query's results, without those that repeat an earlier one.

    `threshold` is a Jaccard index in (0, 1]; 0 takes every text for distinct.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._positions: dict[str, int] = {}
        self._first_halves = self._middles = self._last_halves = ""

    def find_duplicate(self, text: str) -> int | None:
        """The position, among the texts kept so far, of the one that this text repeats; None where it is distinct."""
        if not self._threshold:
            return None
        equal = self._positions.get(text)
        if equal is not None:
            return equal
        return self._near(text) if self._shares_a_probe(text) else None

    def keep(self, text: str) -> None:
        """Keep a text, so that later ones are compared with it."""
        if self._threshold:
            self._positions[text] = len(self._positions)
            line, quarter = text.replace("\n", " "), len(text) // 4
            self._first_halves += line[: 2 * quarter]
            self._middles += line[quarter : 3 * quarter]
            self._last_halves += line[2 * quarter :]

    def _shares_a_probe(self, text: str) -> bool:
        """Whether a kept text has one of the text's three probes near the same place.

        A probe may also match where two kept texts meet; that costs a comparison of signatures and no more.
        """
        first, middle, last = extract_probes(text)
        return first in self._first_halves or middle in self._middles or last in self._last_halves

    def _near(self, text: str) -> int | None:
        """Compare with every kept text, which is cheaper than looking for the probes in each."""
        signature = compute_signature(text)
        near = (place for kept, place in self._positions.items() if self._is_near(signature, kept))
        return next(near, None)

    def _is_near(self, signature: Signature, kept: str) -> bool:
        return signature.jaccard(compute_signature(kept)) >= self._threshold


def extract_probes(text: str) -> tuple[str, str, str]:
    """Short pieces at a quarter, a half and three quarters of the text, its lines joined."""
    line, quarter = text.replace("\n", " "), len(text) // 4
    return (
        line[quarter : quarter + PROBE_CHARACTERS],
        line[2 * quarter : 2 * quarter + PROBE_CHARACTERS],
        line[3 * quarter : 3 * quarter + PROBE_CHARACTERS],
    )


@lru_cache(maxsize=MOST_SIGNATURES)
def compute_signature(text: str) -> Signature:
    """The MinHash signature of the text's shingles, case and white space aside; the latest are kept."""
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
