"""Decisions that an agent told of in its own words, and why it took them.

Rules, made to be right rather than many. A sentence of the agent's text (no code, no quotation, no question) tells of a
decision if

1. it stands in a line of its own after `Decision:`, with what follows `Reason:` or `Rationale:` as the reason;
2. somebody decided: `I decided to …`, `we chose X over Y`, `I opted for …`, `went with …`, `settled on …`; or
3. the agent says what it will do, or has done, in place of something else, or for a reason:
   `I'll use X instead of Y`, `Let's keep X because Y`, `I switched to X since Y`.

The reason is what follows `because`, `since`, `as it`, `so that`, `due to` and their like. A decision of rule 3 without
a reason and without an alternative is none; nor is the removal of what is no longer needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sluice.contracts.memory.model import DecisionEntry

MAX_DECISION_CHARACTERS = 1_000
_MIN_CHARACTERS = 8
_MAX_SENTENCE_CHARACTERS = 700
_MAX_TEXT_CHARACTERS = 50_000
"""Of one message so much is looked through."""

_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|^(?: {4,}|\t|>|\|)[^\n]*$", re.DOTALL | re.MULTILINE)
_SENTENCE = re.compile(
    r"""(?<=[.!?])["')\]*_]*\s+(?=["'(\[*_`]*[A-Z0-9`])  # after a full stop
    | \n\s*\n | \n(?=\s*(?:[-*•]|\d+[.)])\s) | \n(?=\s*\#)  # a paragraph, an item of a list, a heading""",
    re.VERBOSE,
)
_LABEL = re.compile(
    r"""^[ \t\-*\#•\d.)>]*(?:key\ |design\ )?decision(?:\*\*)?[ ]?:(?:\*\*)?[ \t]*(?P<what>\S[^\n]{0,1500}?)
    (?:[\s.;,(—*-]{0,20}\b(?:rationale|reason|why)(?:\*\*)?[ ]?:(?:\*\*)?[ \t]*(?P<why>\S[^\n]*))?$""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_REASON = re.compile(
    r"""[\s,;:—(-]+(?:
        because(?:\ of)? | so\ that | due\ to | given\ that | the\ reason\ being | for\ the\ reason\ that
      | since(?=\ (?:it|its|it's|this|that|the|these|those|they|there|we|our|an?|both|only|no|all|using)\b|\ [`A-Z])
      | as(?=\ (?:it|its|this|that|they|there|the|we)\ )
      | which(?=\ (?:avoids|prevents|keeps|lets|allows|makes)\ )
    )\s+""",
    re.IGNORECASE | re.VERBOSE,
)
_CHOSE = r"(?:decided\ (?:to|on|against|not\ to|that)|chosen?|opted\ (?:to|for)|settled\ on|went\ with|picked)"
_DECIDED = re.compile(
    rf"""\b(?:I|we)(?:'ve|\ have|'d|\ had)?(?:\ \w+ly)?\ (?:{_CHOSE}|chose)\b
    | ^(?:so\ |therefore\ |hence\ )?(?:{_CHOSE}|chose|going\ with)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_VERBS = """use[ds]? using keep kept switch(?:ed)?\\ to replaced? go\\ with going\\ with rely\\ on store[ds]? put
    moved? add(?:ed)? avoid(?:ed)? implement(?:ed)? make made return(?:ed)? call(?:ed)? write wrote
    skip(?:ped)? leave left stick\\ with prefer adopt(?:ed)? pass(?:ed)? set handled? wrap(?:ped)? split
    extract(?:ed)? revert(?:ed)? pin(?:ned)? mock(?:ed)? patch(?:ed)? changed? removed? drop(?:ped)? inlined?
    cached?"""
_VERB = "(?:" + "|".join(re.split(r"(?<!\\)\s+", _VERBS)) + ")"
_WILL = re.compile(
    rf"""\b(?:I|we)(?:'ll|\ will|\ won't|(?:'m|\ am|'re|\ are)(?:\ not)?\ going\ to|'ve|\ have)?
        (?:\ (?:now|therefore|also|just|instead|rather|deliberately|not))*\ {_VERB}\b
    | \blet(?:'s|\ us|\ me)(?:\ \w+)?\ {_VERB}\b
    | ^(?:so\ |therefore\ |instead,?\ )?{_VERB}\b""",
    re.IGNORECASE | re.VERBOSE,
)
_INSTEAD = re.compile(r"\b(?:instead of|rather than|in place of|in favou?r of)\b", re.IGNORECASE)
_INSTEAD_FIRST = re.compile(
    r"(?:instead of|rather than) [^,.]{3,150}, (?:I|we)(?:'ll| will|'ve| have|'m| am)? \w+", re.IGNORECASE
)
_TIDYING = re.compile(
    r"(?:it|they|this|that|these|the \w+)(?: \w+)? (?:is|are) no longer (?:needed|necessary|required)", re.I
)
_NO_DECISION = re.compile(
    r"""\?\s*$
    | \b(?:could|might|may|would|should|if)\b[^.]{0,40}\b(?:use|using|decide|choose|switch)\b
    | \byou\ (?:decided|chose)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_MARKUP = re.compile(r"\*\*|__|^#+\s+|^[\s\-*•]+|^\d+[.)]\s+")


def decisions(said: Iterable[str]) -> list[DecisionEntry]:
    """The decisions in an agent's texts, each once, in order."""
    found: dict[str, DecisionEntry] = {}
    for text in said:
        plain = _CODE.sub("\n\n", text[:_MAX_TEXT_CHARACTERS].replace("’", "'").replace("\r\n", "\n"))
        for labelled in _LABEL.finditer(plain):
            what, why = (labelled["what"], labelled["why"]) if labelled["why"] else _split(labelled["what"], _REASON)
            if labelled_decision := _entry(what, why):
                found.setdefault(labelled_decision.description.casefold(), labelled_decision)
        for sentence in _sentences(_LABEL.sub("\n\n", plain)):
            decision = _decision(sentence)
            if decision is not None:
                found.setdefault(decision.description.casefold(), decision)
    return list(found.values())


def _sentences(text: str) -> Iterable[str]:
    for sentence in _SENTENCE.split(text):
        plain = " ".join(sentence.split())
        if _MIN_CHARACTERS <= len(plain) <= _MAX_SENTENCE_CHARACTERS:
            yield plain


def _decision(sentence: str) -> DecisionEntry | None:
    plain = _MARKUP.sub("", sentence).strip()
    if _NO_DECISION.search(plain):
        return None
    description, reason = _split(plain, _REASON)
    if reason and _TIDYING.match(reason):
        return None
    if _DECIDED.search(description) or _INSTEAD_FIRST.match(plain):
        return _entry(description, reason)
    will = _WILL.search(description)
    if will and (reason or _INSTEAD.search(description, will.end())):
        return _entry(description, reason)
    return None


def _split(text: str, at: re.Pattern[str]) -> tuple[str, str | None]:
    parts = at.split(text, maxsplit=1)
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
