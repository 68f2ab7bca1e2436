"""What can be counted in a window of text: whom it addresses, how, and how it stands on its page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_VERBS = (
    r"(?:add|advise|allow|analy[sz]e|answer|append|apply|approve|arrange|ask|assign|begin|book|buy|call|cancel|change|check|clear|click|collect|compose|"
    r"compress|configure|connect|convert|convince|copy|create|decode|delete|deliver|deposit|describe|direct|disable|dispatch|display|disregard|download|draft|"
    r"email|enable|encode|encourage|end|ensure|enter|execute|explain|export|extract|fetch|fill|find|finish|follow|forget|forward|generate|get|give|grant|guide|help|"
    r"ignore|include|inform|initiate|insert|install|invest|invite|join|keep|leave|let|list|lock|make|mention|modify|move|notify|offer|open|order|output|pay|perform|persuade|place|"
    r"play|point|post|praise|prepare|print|process|promote|proceed|propose|provide|publish|purchase|put|read|recommend|redirect|refuse|register|remind|remove|repeat|replace|"
    r"reply|report|request|reset|respond|restart|retrieve|return|reveal|run|save|say|scan|schedule|search|select|sell|send|set|share|show|shut|sign|start|state|stop|store|submit|"
    r"subscribe|suggest|summari[sz]e|switch|tell|track|transfer|translate|trick|trigger|turn|unlock|update|upload|urge|use|visit|withdraw|write)"
)
_START = r"(?:^|[\n.!?:;>*#\"'|/-]\s*)"
_PATTERNS: dict[str, str] = {
    "you": r"\byou\b",
    "your": r"\byour(?:s|self)?\b",
    "please": r"\bplease\b|\bkindly\b",
    "first_is_imperative": rf"^[\s\"'*>#/|({{\[-]*(?:(?:please|now|then|also|kindly|and|first|next|finally|instead|just)[,:]?\s+)?{_VERBS}\b",
    "imperative": rf"{_START}(?:(?:please|now|then|also|kindly|first|next|finally|instead)[,:]?\s+)?{_VERBS}\b",
    "polite_imperative": rf"\b(?:please|kindly)\s+(?:also )?{_VERBS}\b",
    "my": r"\b(?:my|mine)\b",
    "me": r"\b(?:me|i|i'm|i've)\b",
    "own_output": r"\byour? (?:\w+ )?(?:answer|response|reply|replies|output|summary|message|text|code|solution)s?\b|\b(?:the|this|each|every) (?:answer|response|reply)\b",
    "output": r"\b(?:answer|respon[ds]\w*|reply|replies|output|summar\w+|translat\w+)\b",
    "user": r"\b(?:the|this|any) (?:user|reader|customer|recipient|person)'?s?\b|\busers\b",
    "model": r"\b(?:a\.?i\.?|llm|language model|assistant|chat ?bot|agent|gpt|model)s?\b",
    "obligation": r"\b(?:must|should|shall|have to|need to|required to|make sure|ensure|be sure)\b",
    "always": r"\b(?:always|never|only|immediately|right away|as soon as possible|at once|without)\b",
    "prohibition": r"\b(?:do not|don't|never|stop|avoid|refuse)\b",
    "override": r"\b(?:ignor\w+|disregard\w*|forget|overrid\w+|bypass\w*|instead)\b",
    "instructions": r"\b(?:instructions?|prompts?|rules?|guidelines|directives?|orders|task)\b",
    "url": r"https?://|www\.|\b\w+\.(?:com|net|org|io|xyz)\b",
    "mail": r"[\w.+-]+@[\w-]+\.\w+",
    "money": r"[$€£¥]\s?\d|\b\d[\d,.]* ?(?:usd|eur|euros?|dollars|bitcoins?|btc|eth)\b|\b(?:payment|account|funds|money|invest\w*|crypto\w*|bitcoin)\b",
    "identifier": r"\b(?:id|no\.?|number|code)[ :#]*['\"]?[\w-]*\d|\b\w*\d\w*[-_]\w+\b|#\w+",
    "secret": r"\b(?:password|credential|secret|token|api key|cookie|private|confidential|personal|security|two-factor)\w*\b",
    "device": r"\b(?:door|lock|camera|robot|light|speaker|alarm|device|thermostat|vehicle|garage|phone|system)s?\b",
    "now": r"\b(?:now|today|tonight|tomorrow|immediately|urgent\w*|asap)\b",
    "code_fence": r"^[ \t>]*(?:`{3,}|~{3,})",
    "code_span": r"`[^`\n]+`",
    "shell": r"\b(?:sudo|curl|wget|chmod|rm -|bash|subprocess|os\.(?:system|environ|popen)|eval\(|exec\(|socket|requests\.|import os|nohup|base64)",
    "quotation": r"[\"“”«»„]|(?<!\w)'|'(?!\w)",
    "question": r"\?",
    "exclamation": r"!",
    "conditional": r"\b(?:if|when|unless|whether|in case|once|after|before)\b",
    "third_person": r"\b(?:is|are|was|were|has|had|it|its|they|their|he|she|his|her|which)\b",
    "past": r"\b\w{3,}ed\b",
    "modal_possible": r"\b(?:can|could|may|might|would|will)\b",
    "reporting": r"\b(?:such as|for example|e\.g\.|says?|said|told|called|phrases?|attack\w*|inject\w*|malicious|example)\b",
    "technical": r"\b(?:function|class|method|argument|parameter|option|file|directory|commit|branch|command|value|default|module|package|string|object|test|config\w*|install\w*|version)s?\b|--\w|\w\(\)|_\w",
    "heading": r"^[ \t]*#{1,6} |^[ \t]*[=~-]{3,}$",
    "list_item": r"^[ \t>]*(?:[-*+•]|\d+[.)])\s",
    "odd_spelling": r"\b[b-df-hj-np-tv-xz]{5,}\b|\b\w*\d[a-z]\d*\w*[a-z]\b|\b(?:[a-z]\W){4,}",
}  # fmt: skip
_WORD = re.compile(r"[^\W\d_]{4,}")
_MOST_OF_CHUNK = 0.6
"""A window of more than this share of its chunk is like it in any case."""
_COMPILED = [re.compile(pattern, re.MULTILINE) for pattern in _PATTERNS.values()]
_MOST = 3
"""Counts above this say no more."""
_SHAPE = (
    "length",
    "upper",
    "digits",
    "punctuation",
    "share_of_chunk",
    "begins_chunk",
    "ends_chunk",
    "words_of_chunk",
    "words_of_page",
)
_LIKENESS = ("likeness", "is_most_of_chunk")
COUNTED: tuple[str, ...] = (*_PATTERNS, *_SHAPE)
"""The features that need no vector."""
NAMES: tuple[str, ...] = (*COUNTED, *_LIKENESS)
Numbers = NDArray[np.float32]

_CANDIDATE = re.compile(
    rf"\byou\b|\byour\b|\bplease\b|\bkindly\b|(?:^|[\n.!?:;>*#\"'|]\s*)(?:(?:now|then|also|first|finally|instead)[,:]?\s+)?{_VERBS}\b|\bmust\b|\balways\b|\bnever\b|\bdo not\b|\bdon't\b|"
    r"\bmy\b|<\||\[inst|^[ \t>]*(?:`{3,}|~{3,})|\b(?:the user|assistant|ai|llm)\b|\b(?:ignor|disregard|forget|overrid)",
    re.MULTILINE,
)


def is_candidate(lowered: str) -> bool:
    """Whether a window might address somebody: the cheap test before its vector is computed."""
    return bool(_CANDIDATE.search(lowered))


def content_words(lowered: str) -> Counter[str]:
    """How often each longer word stands in a text."""
    return Counter(_WORD.findall(lowered))


def count_features(
    chunk: str, lowered: str, start: int, end: int, words: Counter[str], page_words: Counter[str]
) -> list[float]:
    """The counts of a window (`chunk[start:end]`, normalised `lowered`); the features in the order of `NAMES` but likeness.

    `words` and `page_words` are those of its chunk and its whole document, the window's own among them.
    """
    original = chunk[start:end]
    size = max(len(original), 1)
    letters = max(sum(map(str.isalpha, original)), 1)
    own = content_words(lowered)
    return [
        *(float(min(len(pattern.findall(lowered)), _MOST)) for pattern in _COMPILED),
        min(size, 400) / 400,
        sum(map(str.isupper, original)) / letters,
        sum(map(str.isdigit, original)) / size,
        sum(not one.isalnum() and not one.isspace() for one in original) / size,
        size / max(len(chunk), 1),
        float(not chunk[:start].strip()),
        float(not chunk[end:].strip()),
        _share_elsewhere(own, words),
        _share_elsewhere(own, page_words),
    ]


def _share_elsewhere(own: Counter[str], words: Counter[str]) -> float:
    """The share of a window's words that stand outside of it, too."""
    return sum(words[word] > count for word, count in own.items()) / len(own) if own else 0.0


def with_likeness(counts: Sequence[Sequence[float]], vectors: Numbers, chunk_vectors: Numbers) -> Numbers:
    """Features (windows, len(NAMES)): the counts, and how like each window's vector is to its chunk's (row by row)."""
    table = np.asarray(counts, dtype=np.float32)
    likeness = np.einsum("ij,ij->i", vectors, chunk_vectors)
    is_most = table[:, NAMES.index("share_of_chunk")] > _MOST_OF_CHUNK
    return np.column_stack((table, np.where(is_most, 0.0, likeness), is_most)).astype(np.float32)
