"""Two texts side by side: how near they are, and what speaks against their saying the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memory.learning.polarity.tokens import Kind, Token, tokens_of

_FUNCTION_WORDS_TEXT = """
a an the this that these those is are was were be been being am do does did has have had will would shall
it its they them their we our us you your i my he his she her there here of to in on at for with by from as and
also please just so then very really simply always make sure
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORDS_TEXT.split())
_NEGATIONS = frozenset({"not", "no", "never", "without", "neither", "nor", "none", "nothing", "avoid"})
_CONTRAST = (("instead", "of"), ("rather", "than"), ("as", "opposed", "to"))
_ANTONYMS_TEXT = """
before/after enable/disable enabled/disabled allow/deny allow/forbid include/exclude
sync/async synchronous/asynchronous optional/required taken/released true/false on/off start/stop
open/close always/never all/none first/last min/max minimum/maximum read/write add/remove increase/decrease
up/down works/fails pass/fail passes/fails succeed/fail success/failure accept/reject accepts/rejects
must/may must/can should/may all/some every/some above/below more/less upper/lower push/pull
left/right local/remote public/private lock/unlock safe/unsafe valid/invalid
"""
_ANTONYMS = {
    pair for one, other in (pair.split("/") for pair in _ANTONYMS_TEXT.split()) for pair in ((one, other), (other, one))
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`similarity`: Jaccard of the content words in [0, 1]. `vetoes`: why the two are no duplicates, by kind.

    `opposite`: whether they say the contrary of the same subject; `same`: whether nothing but function words differs.
    """

    similarity: float
    vetoes: tuple[str, ...]
    opposite: bool
    same: bool


def compare(one: str, other: str) -> Comparison:
    """Compares two texts; symmetrical."""
    a, b = _contrasts(tokens_of(one)), _contrasts(tokens_of(other))
    content_a, content_b = _content(a), _content(b)
    left, right = Counter(content_a), Counter(content_b)
    only_a, only_b = left - right, right - left
    union = set(left) | set(right)
    similarity = len(set(left) & set(right)) / len(union) if union else 1.0
    vetoes = []
    for kind in (Kind.IDENTIFIER, Kind.NUMBER):
        if _counts(a, kind) != _counts(b, kind):
            vetoes.append(kind.value)
    negations = _negations(a) - _negations(b)
    if negations:
        vetoes.append("negation")
    antonyms = [(x, y) for x in only_a for y in only_b if (x, y) in _ANTONYMS]
    if antonyms:
        vetoes.append("antonym")
    if not only_a and not only_b and content_a != content_b:
        vetoes.append("order")
    changed = bool(only_a) and bool(only_b)
    if changed and not antonyms:
        vetoes.append("words")
    opposite = (negations % 2 == 1) != (len(antonyms) % 2 == 1) or vetoes == ["order"]
    return Comparison(similarity, tuple(vetoes), opposite, not vetoes and not only_a and not only_b)


def _contrasts(tokens: Sequence[Token]) -> list[Token]:
    """ "X instead of Y" and "X rather than Y" say "X, not Y"."""
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        for words in _CONTRAST:
            if tuple(token.text for token in tokens[at : at + len(words)]) == words:
                found.append(Token("not", Kind.WORD))
                at += len(words)
                break
        else:
            found.append(tokens[at])
            at += 1
    return found


def _content(tokens: Sequence[Token]) -> list[str]:
    return [
        token.text
        for token in tokens
        if token.kind is not Kind.SIGN and token.text not in _FUNCTION_WORDS and token.text not in _NEGATIONS
    ]


def _counts(tokens: Sequence[Token], kind: Kind) -> Counter[str]:
    return Counter(token.text for token in tokens if token.kind is kind)


def _negations(tokens: Sequence[Token]) -> int:
    return sum(token.text in _NEGATIONS for token in tokens)
