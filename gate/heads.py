"""Linear heads on a question: whether it is talk, which needs no source, and whether its answer changes over time.

    talk        the assistant answers from itself: small talk, a poem, a sum, a conversion, work on a given text,
                a reference to what was said before
    assistant   of talk: the question is about the assistant
    changes     log-odds, by the vector alone, that the answer changes; `gate.intent` adds what the words tell

Talk is told by hashed words and pieces of words (Joulin et al. 2017, arXiv:1607.01759), which work in every language of
the examples, and by the vector of an English question. Without one of all-MiniLM-L6-v2, which reads English, the words
alone decide, and nothing is told of change. Weights are data (`heads.npz`): `python -m bench.gate.heads` fits them.

Words add up as integers and results are rounded, so that processors agree; the probe records the results, and a
decision is computed again from these.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import unicodedata
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.errors import Corrupted
from sluice.text.words import FUNCTION_WORDS, WORD, sigmoid

WEIGHTS_FILE = Path(__file__).with_name("heads.npz")
WEIGHTS_SHA256 = "3b4ff637d3814e07c40c85b202b226a80f9c308a41e2198f46de49c4443cc46c"
OF_WORDS = ("talk", "assistant")
"""The heads that read words, in the order of their weights."""
BUCKETS = 1 << 15
VOCABULARY = 1 << 18
DECIMALS = 4
MOST_CHARACTERS = 1_000
"""Characters that are read; talk is short, and so is the order before a given text."""

_MARKS = re.compile("[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u0640\u200b-\u200f\ufe0f]")
"""Accents of Latin, Greek and Cyrillic, vowel marks and stretching of Arabic, and zero-width characters."""
_QUOTED = re.compile(
    r"“[^”]+”|„[^“”]+[“”]|«[^»]+»|»[^«]+«|「[^」]+」|『[^』]+』|\"[^\"]+\"|‘[^’]+’|(?<!\w)'[^\n]+?'(?!\w)|`[^`]+`"
)
_AFTER = re.compile(r"^([^\n:：]{2,160}?)\s*(?:[:：](?!//)|\n)\s*(?!\d|https?://\S*$)\S.*$", re.DOTALL)
_MOST_WORDS_OF_AN_ORDER = 14
_SENTENCE_ENDS = re.compile(r"[!?。！？؟।…;\n]+|(?<!\d)\.+(?=\s|$)")
_TOKEN = re.compile(r"¤\w|\d+(?:[.,]\d+)*|[-+*/=%°€$?!×÷^]|[^\s\d\W_][^\s!-/:-@\[-`{-~。，、！？；：「」…¿¡؟।“”‘’\d]*")
_ENGLISH = frozenset(FUNCTION_WORDS)
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f\uac00-\ud7af]")


def read_heads(question: str, vector: NDArray[np.float32] | None) -> dict[str, float]:
    """Return the probabilities of `OF_WORDS` and, with the `vector` (384,) of an English question, the log-odds
    `changes`. Raises `Corrupted` if the file of weights is not the published one."""
    weights, logits = load_weights(), _logits_of_words(question)
    has_vector = vector is not None and is_english(question)
    slope, bias = weights["talk_with_vector" if has_vector else "talk_without_vector"]
    of_talk = float(slope * logits["talk"] + bias)
    found = {"assistant": round(sigmoid(logits["assistant"]), DECIMALS)}
    if has_vector:
        by_vector = weights["vector"] @ np.asarray(vector, dtype=np.float64)
        of_talk += float(by_vector[0])
        found["changes"] = round(float(by_vector[1] + weights["changes_bias"]), DECIMALS)
    return found | {"talk": round(sigmoid(of_talk), DECIMALS)}


def is_english(question: str) -> bool:
    """Return whether the question's letters and function words are English, the language of the vector's model."""
    return question.isascii() and sum(word in _ENGLISH for word in WORD.findall(question.lower())) >= 2


@lru_cache(maxsize=256)
def _logits_of_words(question: str) -> Mapping[str, float]:
    """Return the log-odds of each of `OF_WORDS`; of several sentences the lowest, so that all of them must be talk."""
    weights = load_weights()
    found = []
    for sentence in split_sentences(question):
        words = read_words(sentence)
        sums = weights["buckets"][:, words.buckets].sum(axis=1, dtype=np.int64) / math.sqrt(len(words.buckets))
        counts = words.counts(words.count_strange(weights["vocabulary"]))
        found.append(sums * weights["scale"] + weights["counts"] @ np.array(counts) + weights["bias"])
    return dict(zip(OF_WORDS, np.min(found, axis=0).tolist(), strict=True))


def split_sentences(question: str) -> list[str]:
    """Return the sentences that hold a word, a figure or a sign, given texts replaced; or all of it if none does."""
    text = without_given_text(question[:MOST_CHARACTERS])
    ends = [match.end() for match in _SENTENCE_ENDS.finditer(text)]
    parts = (text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True))
    return [part for part in parts if any(map(str.isalnum, part))] or [text]


def without_given_text(question: str) -> str:
    """Return the order alone where `question` gives a text, in quotation marks or behind a colon or a line break."""
    order = _AFTER.sub(r"\1 ¤c", question.strip())
    marked = _QUOTED.sub(" ¤q ", order)
    words = marked.replace("¤q", "").split()
    is_order = any(map(str.isalpha, "".join(words))) and len(words) <= _MOST_WORDS_OF_AN_ORDER
    return marked if is_order else order


class Words(NamedTuple):
    """A sentence as the heads read it."""

    buckets: list[int]
    """Hashes of the words, of their runs of two and three, and of pieces of words; each once."""
    vocabulary: list[int]
    """Hashes of its words; in a script without spaces, of each two neighbouring characters."""
    tokens: list[str]

    def count_strange(self, known: NDArray[np.uint8]) -> int:
        """Return how many words no example of talk has; `known` are the bits of those that some have."""
        return sum(not known[place >> 3] >> (place & 7) & 1 for place in self.vocabulary)

    def counts(self, strange: int) -> list[float]:
        """Return the inputs beside the buckets. One strange word is enough to make a question of "who are you"."""
        size = len(self.tokens)
        of_size = [min(size, 30) / 10, math.log1p(size), size <= 3]
        signs = [sign in self.tokens for sign in ("¤c", "¤q", "0")]
        share = strange / max(1, len(self.vocabulary))
        return [
            float(one) for one in (*of_size, *signs, min(strange, 8) / 4, share, not strange, strange == 1, strange > 2)
        ]


def read_words(sentence: str) -> Words:
    """Return what the heads read of a sentence; its figures count as 0."""
    tokens = [re.sub(r"\d+(?:[.,]\d+)*", "0", token) for token in _TOKEN.findall(_folded(sentence))]
    words = (word for token in tokens if token[0].isalpha() for word in _pairs(token))
    return Words(
        sorted({_place(gram, BUCKETS) for gram in _grams(tokens)}), [_place(word, VOCABULARY) for word in words], tokens
    )


def _pairs(word: str) -> list[str]:
    return [word[at : at + 2] for at in range(len(word) - 1)] or [word] if _UNSPACED.search(word) else [word]


def _place(text: str, size: int) -> int:
    return zlib.crc32(text.encode()) % size


def _grams(words: Sequence[str]) -> Iterator[str]:
    marked = ["^", *words, "$"]
    for length in (1, 2, 3):
        yield from (" ".join(marked[start : start + length]) for start in range(len(marked) - length + 1))
    for word in words:
        spelled, unspaced = f"<{word}>", bool(_UNSPACED.search(word))
        for length in (2, 3, 4) if unspaced else (3, 4, 5):
            yield from (f"#{spelled[start : start + length]}" for start in range(len(spelled) - length + 1))
        if unspaced:
            yield from (f"#{character}" for character in word)


def _folded(text: str) -> str:
    """Return `text` in lower case without accents: `Çok Güzel!` becomes `cok guzel!`."""
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _MARKS.sub("", decomposed))


@cache
def load_weights() -> Mapping[str, NDArray[Any]]:
    """Return the arrays of `heads.npz`.

    Of `OF_WORDS`: `buckets` (2, BUCKETS) in int8, their `scale` (2,), `counts` (2, 11) and `bias` (2,). `vocabulary`
    has the bits of the words of talk. `vector` (2, 384) is of talk and of change, `changes_bias` beside it;
    `talk_with_vector` and `talk_without_vector` are slope and bias of what the words tell.
    """
    content = WEIGHTS_FILE.read_bytes()
    if hashlib.sha256(content).hexdigest() != WEIGHTS_SHA256:
        raise Corrupted(f"{WEIGHTS_FILE} is not the file of this release: install the package again")
    with np.load(io.BytesIO(content)) as arrays:
        return dict(arrays)
