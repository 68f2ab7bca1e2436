"""Finds the concepts of `concepts.toml` in a sentence."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

MOST_BETWEEN = 3
"""Words that `..` in a phrase may stand for."""
_SPLIT = re.compile(r"[\s\"“”‘’()\[\]{},;!?<>]+|`|'(?=\s|$)|(?<=\s)'|[.:](?=\s|$)|(?<=\S)=(?=\S)")
_SHAPES = (
    ("<url>", re.compile(r"(?:https?|ftp|wss?)://(?!localhost|127\.|docs\.|github\.com)")),
    ("<mail>", re.compile(r"[\w.+-]+@[\w-]+\.\w+")),
    ("<number-address>", re.compile(r"(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?:[:/].*)?$")),
    ("<host>", re.compile(r"(?:[\w-]+\.)+(?:example|xyz|ru|cn|top|onion|evil|test)(?:[/:]|$)")),
    ("<secret-file>", re.compile(r"\S*(?:id_(?:rsa|ed25519)|\.ssh\b|\.aws\b|\.netrc\b|/etc/shadow|/etc/passwd)")),
    ("<secret-file>", re.compile(r"\S*\.(?:pem|env)$|\$\w*(?:token|key|secret|pass)")),
    ("<system-path>", re.compile(r"(?:/\*?|~/?|/(?:var|home|etc|usr|boot|root|dev|opt)(?:/.*)?|\$home.*|\.git/?)$")),
    ("<blob>", re.compile(r"(?=\S*\d)[a-z0-9+/]{20,}={0,2}$|[a-z0-9+/]{12,}==$")),
    ("<shell-pipe>", re.compile(r"\|$")),
)  # fmt: skip
Phrase = tuple[str, ...]


def words_of(text: str) -> list[str]:
    """The words of a text in small letters; what looks like an address, a path or an encoded text keeps its letters."""
    return [word for word in _SPLIT.split(text.lower()) if word]


def find_concepts(words: Sequence[str]) -> dict[str, set[int]]:
    """For each concept that is spoken of, the places of its words in `words`."""
    found: dict[str, set[int]] = {}
    phrases = _phrases()
    for at, word in enumerate(words):
        for key in (word[:2], *(_shapes(word))):
            for concept, phrase in phrases.get(key, ()):
                if _stands_at(phrase, words, at):
                    found.setdefault(concept, set()).add(at)
    return found


@cache
def concept_names() -> tuple[str, ...]:
    """All concepts, in the order of the file."""
    return tuple(_read())


def _stands_at(phrase: Phrase, words: Sequence[str], at: int) -> bool:
    if phrase[0][0] != "<" and not _is(phrase[0], words[at]):
        return False
    at += 1
    for part in phrase[1:]:
        reach = 1
        if part.startswith(".."):
            part, reach = part[2:], MOST_BETWEEN + 1
        at = next((place + 1 for place in range(at, min(at + reach, len(words))) if _is(part, words[place])), 0)
        if not at:
            return False
    return True


def _is(part: str, word: str) -> bool:
    return word.startswith(part[:-1]) if part[-1] == "*" and len(part) > 1 else word == part


def _shapes(word: str) -> list[str]:
    if word.isalpha():
        return []
    return [name for name, pattern in _SHAPES if pattern.match(word)]


def _read() -> dict[str, str]:
    text = files("sluice.memory.sanitise").joinpath("concepts.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _phrases() -> dict[str, list[tuple[str, Phrase]]]:
    """Concepts and phrases by the first two letters of the phrase, or by the shape that it begins with."""
    found: dict[str, list[tuple[str, Phrase]]] = {}
    for concept, text in _read().items():
        for entry in dict.fromkeys(text.split()):
            phrase = tuple(entry.split("_")) if not entry.startswith("__") else (entry,)
            key = phrase[0] if phrase[0].startswith("<") else phrase[0][:2]
            found.setdefault(key, []).append((concept, phrase))
    return found
