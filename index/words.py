"""From text to terms: the one analysis that indexing, queries and the gate's coverage probe share."""

from __future__ import annotations

import threading
from functools import lru_cache

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

LONGEST_TERM_CHARACTERS = 64

_FUNCTION_WORDS = """
a about above after again all also am an and any are aren as at be because been before being below between
both but by can cannot could couldn d did didn do does doesn doing don down during each either for from
further had hadn has hasn have haven having he her here hers him his how i if in into is isn it its itself
just ll m may me might more most mustn my no nor not now of off on once only or other our ours out over own
please re s same shall shan she should shouldn so some such t than that the their theirs them then there these
they this those through to too under until up us ve very was wasn we were weren what when where whether which
while who whom whose why will with won would wouldn you your yours
"""
STOP_WORDS = tuple(_FUNCTION_WORDS.split())
"""English function words. They stay in the index; a question drops them unless it has nothing else."""

_own = threading.local()


def prose_analyzer() -> TextAnalyzer:
    """Words split at everything that is no letter or digit; lower case, without accents, English stems."""
    return _folded().filter(Filter.stemmer("english")).build()


def code_analyzer() -> TextAnalyzer:
    """Terms that were prepared already, separated by white space."""
    return TextAnalyzerBuilder(Tokenizer.whitespace()).build()


def analyse(text: str) -> list[str]:
    """The terms of `text` as the index holds them, in order, with repeats, function words included."""
    return _analyzers()[0].analyze(text)


@lru_cache(maxsize=64)
def content_terms(text: str) -> tuple[str, ...]:
    """The distinct terms of a question that carry meaning, in order; all of them if none does."""
    return tuple(dict.fromkeys(_analyzers()[1].analyze(text) or analyse(text)))


def _folded() -> TextAnalyzerBuilder:
    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(LONGEST_TERM_CHARACTERS))
    return builder.filter(Filter.lowercase()).filter(Filter.ascii_fold())


def _analyzers() -> tuple[TextAnalyzer, TextAnalyzer]:
    """One pair a thread: an analyzer may not be used by two threads at once."""
    pair: tuple[TextAnalyzer, TextAnalyzer] | None = getattr(_own, "pair", None)
    if pair is None:
        content = _folded().filter(Filter.custom_stopword(list(STOP_WORDS))).filter(Filter.stemmer("english"))
        pair = _own.pair = (prose_analyzer(), content.build())
    return pair
