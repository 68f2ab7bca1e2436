"""Finds decisions that an agent stated in its own words, and its reasons.

The rules prefer precision to recall. A sentence of the agent's text (no code, quotation, question) states a decision if

1. it stands in a line of its own after `Decision:`, with the text after `Reason:` or `Rationale:` as the reason;
2. somebody decided: `I decided to …`, `we chose X over Y`, `I opted for …`, `went with …`, `settled on …`; or
3. the agent says that it will do, or has done, one thing instead of another, or for a reason:
   `I'll use X instead of Y`, `Let's keep X because Y`, `I switched to X since Y`.

The reason is the text after `because`, `since`, `as it`, `so that`, `due to` and similar words. Under rule 3 a sentence
without reason and alternative is no decision; nor is the removal of something no longer needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sluice.contracts.memory.model import DecisionEntry
from sluice.text.pattern_file import PatternFile

_PATTERNS = PatternFile(Path(__file__).with_name("decisions.toml"))

MAX_DECISION_CHARACTERS = 1_000
_MIN_CHARACTERS = 8
_MAX_SENTENCE_CHARACTERS = 700
_MAX_TEXT_CHARACTERS = 50_000
"""Most characters of one message that are searched."""


def decisions(said: Iterable[str]) -> list[DecisionEntry]:
    """Return the decisions in an agent's texts, each once, in order."""
    found: dict[str, DecisionEntry] = {}
    for text in said:
        plain = _PATTERNS["code"].sub("\n\n", text[:_MAX_TEXT_CHARACTERS].replace("’", "'").replace("\r\n", "\n"))
        for labelled in _PATTERNS["label"].finditer(plain):
            what, why = (labelled["what"], labelled["why"]) if labelled["why"] else _split(labelled["what"])
            if labelled_decision := _entry(what, why):
                found.setdefault(labelled_decision.description.casefold(), labelled_decision)
        for sentence in _sentences(_PATTERNS["label"].sub("\n\n", plain)):
            decision = _decision(sentence)
            if decision is not None:
                found.setdefault(decision.description.casefold(), decision)
    return list(found.values())


def _sentences(text: str) -> Iterable[str]:
    for sentence in _PATTERNS["sentence"].split(text):
        plain = " ".join(sentence.split())
        if _MIN_CHARACTERS <= len(plain) <= _MAX_SENTENCE_CHARACTERS:
            yield plain


def _decision(sentence: str) -> DecisionEntry | None:
    plain = _PATTERNS["markup"].sub("", sentence).strip()
    if _PATTERNS["no_decision"].search(plain):
        return None
    description, reason = _split(plain)
    if reason and _PATTERNS["tidying"].match(reason):
        return None
    if _PATTERNS["decided"].search(description) or _PATTERNS["instead_first"].match(plain):
        return _entry(description, reason)
    will = _PATTERNS["will"].search(description)
    if will and (reason or _PATTERNS["instead"].search(description, will.end())):
        return _entry(description, reason)
    return None


def _split(text: str) -> tuple[str, str | None]:
    """Split a text into the parts before and behind the word that begins a reason."""
    parts = _PATTERNS["reason"].split(text, maxsplit=1)
    return (parts[0], parts[1]) if len(parts) == 2 and parts[1].strip() else (text, None)


def _entry(description: str, reason: str | None) -> DecisionEntry | None:
    description = description.strip(" .;,:—-*_")
    if len(description) < _MIN_CHARACTERS:
        return None
    rationale = reason.strip(" .;,:—-*_)") if reason else None
    return DecisionEntry(
        description=description[:MAX_DECISION_CHARACTERS],
        rationale=rationale[:MAX_DECISION_CHARACTERS] if rationale else None,
    )
