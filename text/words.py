"""English function words, a light stemmer, words as runs of letters and digits, sentences, BM25, and the sigmoid."""

from __future__ import annotations

import math
import re

WORD = re.compile(r"[^\W_]+")
"""A run of letters and digits."""
UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")
"""A character of a script that puts no space between words: Han, kana, Thai."""

_FUNCTION_WORDS = """
a about above after again all also am an and any are aren as at be because been before being below between
both but by can cannot could couldn d did didn do does doesn doing don down during each either for from
further had hadn has hasn have haven having he her here hers him his how i if in into is isn it its itself
just ll m may me might more most mustn my no nor not now of off on once only or other our ours out over own
please re s same shall shan she should shouldn so some such t than that the their theirs them then there these
they this those through to too under until up us ve very was wasn we were weren what when where whether which
while who whom whose why will with won would wouldn you your yours
"""
FUNCTION_WORDS = tuple(_FUNCTION_WORDS.split())
"""English words without content. Published indexes were searched with these, so a change moves their rankings."""

_CHARACTERS_PER_TOKEN = 3
"""Fewer than usual: the estimate errs towards too many tokens, so that a budget holds."""

_SUFFIXES = ("ings", "ing", "ies", "ied", "edly", "ed", "es", "ly", "s", "e", "y")
_SHORTEST_STEM = 3
_DOUBLED = frozenset("bdgklmnprtvz")


def singular(word: str) -> str:
    """Return an English word in lower case without a plural's "s"; "ss" is none."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def stem(word: str) -> str:
    """Return `word` (lower case) without its inflection: `running`, `runs` and `run` become `run`.

    One suffix is cut where at least three letters remain, then a doubled last consonant is halved.
    Words with a digit or a character outside a-z stay as they are.
    """
    if not (word.isascii() and word.isalpha()):
        return word
    root = _without_suffix(word)
    if len(root) > _SHORTEST_STEM and root[-1] == root[-2] and root[-1] in _DOUBLED:
        root = root[:-1]
    return root


def _without_suffix(word: str) -> str:
    if word.endswith("ss"):
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return word[: -len(suffix)]
    return word


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer; errs towards too many."""
    return math.ceil(len(text) / _CHARACTERS_PER_TOKEN)


_END = re.compile(r"(?<=[.!?])[\"')\]»”]*\s+(?=[^a-z])|(?<=[。！？])|\n+")


def cut_sentences(text: str) -> list[str]:
    """Return the sentences in order, stripped. A line's end ends one; a stop before a lower-case letter does not."""
    return [sentence for piece in _END.split(text) if (sentence := piece.strip())]


K1, B = 1.2, 0.75
"""BM25: weight · idf · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average length)).

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with the 1 that Lucene adds
to the inverse document frequency, so that it is never negative. Tantivy has the same formula and constants.
"""


def sigmoid(log_odds: float) -> float:
    """Return the probability for log-odds: 1 / (1 + exp(-x)); beyond ±700, where `math.exp` overflows, it stays."""
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, log_odds))))


def inverse_document_frequency(population: int, frequency: int) -> float:
    """Return ln(1 + (N - n + 0.5) / (n + 0.5)), for a term that `frequency` of `population` texts have."""
    return math.log(1 + max(0.0, population - frequency + 0.5) / (frequency + 0.5))


def saturation(count: float, relative_length: float) -> float:
    """Return the weight of `count` occurrences in a text of that length, in average lengths: from 0 to k1 + 1."""
    return count * (K1 + 1) / (count + K1 * (1 - B + B * relative_length))
