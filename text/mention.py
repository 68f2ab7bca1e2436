"""Tells a text that gives a command from one that speaks about commands: a manual, a security note, a quoted attack."""

from __future__ import annotations

import re
from pathlib import Path

from sluice.text.pattern_file import PatternFile

_FILE = PatternFile(Path(__file__).with_name("mention.toml"))
_ENOUGH_TERMS = 2
"""Number of different security terms, one of them about attacks on models, from which a text is about attacks."""
_MANY_TERMS = 3
"""Number of security terms outside a command's paragraph from which it is an example, quoted or not."""

_QUOTES = ('"', "'", "“”", "‘’", "«»", "„“", "„”", "「」", "『』", "›‹", "»«")
_KEY_BEFORE = re.compile(r"""(?:(?:["']\s*:|=|\{|\[)\s*|[\w.][,;\t])$""")
"""Text before the opening mark of a string in JSON, Python or HTML."""
_FENCE = re.compile(r"^[ \t>]*(?:`{3,}|~{3,})", re.MULTILINE)
_LONGEST_QUOTE = 600
_WORD = re.compile(r"[^\W\d_]{2,}")


def is_about_attacks(text: str) -> bool:
    """Return whether a text, such as the headings of a page, is about attacks on models."""
    lowered = text.lower()
    attacks = _terms(_FILE["attacks_on_models"], lowered)
    return bool(attacks) and len(attacks | _terms(_FILE["security"], lowered)) >= _ENOUGH_TERMS


def _terms(pattern: re.Pattern[str], lowered: str) -> set[str]:
    return {found[0][:6] for found in pattern.finditer(lowered)}


_NO_QUOTE = re.compile(r"\"{3}|'{3}|(?<=\w)'(?=\w)")
"""The marks around a docstring, and apostrophes."""


class Topic:
    """Subject of a chunk, apart from the command found in it."""

    def __init__(self, text: str, headings: str) -> None:
        self._text = text.lower()
        self._headings = headings.lower()

    def is_trade_outside(self, start: int, end: int) -> bool:
        """Return whether the text names attacks on models anywhere, or has two security terms around a window."""
        if _FILE["attacks_on_models"].search(self._text) or _FILE["attacks_on_models"].search(self._headings):
            return True
        around = "\n".join((self._headings, self._text[:start], self._text[end:]))
        return len(_terms(_FILE["security"], around)) >= _ENOUGH_TERMS

    def terms_outside(self, start: int, end: int) -> int:
        """Count the different security terms in the headings and outside the command's paragraph.

        Terms about attacks on models count within its paragraph, too. Returns 0 where there are none of these.
        """
        low, high = max(self._text.rfind("\n\n", 0, start), 0), self._text.find("\n\n", end)
        high = high if high >= 0 else len(self._text)
        far = "\n".join((self._headings, self._text[:low], self._text[high:]))
        near = "\n".join((self._text[low:start], self._text[end:high], far))
        attacks = _terms(_FILE["attacks_on_models"], near)
        return len(attacks | _terms(_FILE["security"], far)) if attacks else 0


def is_mentioned(text: str, start: int, end: int, topic: Topic, *, is_hidden: bool = False) -> bool:
    """Return whether `text[start:end]`, a command to a model, is only mentioned.

    A quoted or code-formatted command is a mention where its sentence has words around it, where the line before
    announces it, or where the page is about attacks. An unquoted one is a mention where the sentence announces it
    ("attackers write …", "telling the model to …"), or where the page is mostly about attacks. A string of JSON is no
    quotation, and a comment in code no code span. Nor does a string quote what is hidden (`is_hidden`) in it by a code.
    """
    lowered = text.lower()
    terms = topic.terms_outside(start, end)
    if terms >= _MANY_TERMS:
        return True
    about_attacks = terms >= _ENOUGH_TERMS
    paragraph = _before(lowered, start)
    is_announced = bool(_FILE["reporting"].search(paragraph)) or _is_led_in(lowered, start)
    if is_quoted(lowered, start, end):
        return is_announced or about_attacks or (not is_hidden and _has_words_around(lowered, start, end))
    if is_fenced(lowered, start):
        return about_attacks or _fence_is_led_in(lowered, start)
    return bool(_FILE["reported"].search(paragraph)) or (about_attacks and is_announced)


def is_mentioned_to_model(text: str, start: int, end: int, topic: Topic) -> bool:
    """Return the same as `is_mentioned`, for a window that the linear model found.

    The model is less precise than a rule, so weaker evidence is enough: a text that uses terms for attacks on models,
    or announces the window as an example, mentions it.
    """
    lowered = text.lower()
    if _FILE["quotes_somebody"].search(lowered, start, end):
        return True
    return topic.is_trade_outside(start, end) or bool(_FILE["reported"].search(_before(lowered, start)))


def is_fenced(text: str, start: int) -> bool:
    """Return whether a place lies in a fenced block of code."""
    return len(_FENCE.findall(text, 0, start)) % 2 == 1


def is_quoted(text: str, start: int, end: int) -> bool:
    """Return whether `text[start:end]` is within quotation marks of prose, or within a code span of a line."""
    text = _NO_QUOTE.sub(lambda found: " " * len(found[0]), text)
    line_start, line_end = _line(text, start)
    ticks = [found.start() for found in re.finditer("`+", text[line_start:line_end])]
    inside = sum(line_start + place < start + 1 for place in ticks)
    if inside % 2 == 1 and len(ticks) > inside:
        return True
    return any(_within(text, start, end, marks) for marks in _QUOTES)


def _within(text: str, start: int, end: int, marks: str) -> bool:
    opening, closing = marks[0], marks[-1]
    low, high = max(0, start - _LONGEST_QUOTE), min(len(text), end + _LONGEST_QUOTE)
    blank = text.rfind("\n\n", low, start)
    paragraph_start = low if blank < 0 else blank + 2
    paragraph_end = text.find("\n\n", end, high)
    paragraph_end = high if paragraph_end < 0 else paragraph_end
    opened = text.rfind(opening, paragraph_start, start + 1)
    if opened < 0 or (opening != closing and text.find(closing, opened, start) >= 0):
        return False
    if opening == closing and text.count(opening, paragraph_start, start + 1) % 2 == 0:
        return False
    closed = text.find(closing, max(end - 1, opened + 1), paragraph_end)
    return closed >= 0 and not _KEY_BEFORE.search(text, max(0, opened - 8), opened)


def _before(text: str, start: int) -> str:
    """Return the sentence up to a place, across line ends but not across paragraphs."""
    low = max(0, start - 240)
    low = max(low, text.rfind("\n\n", low, start) + 2 if text.rfind("\n\n", low, start) >= 0 else low)
    return text[low:start].replace("\n", " ").rstrip("\"'“”‘’«»„`(*_ ")


def _line(text: str, start: int) -> tuple[int, int]:
    line_end = text.find("\n", start)
    return text.rfind("\n", 0, start) + 1, len(text) if line_end < 0 else line_end


def _has_words_around(text: str, start: int, end: int) -> bool:
    """Return whether the quotation's line has words outside of it, as a quoting sentence has."""
    low, high = _line(text, start)
    marks = "\"'“”‘’«»„`「」『』›‹"
    opened = max(text.rfind(mark, low, start + 1) for mark in marks)
    closings = [place for mark in marks if (place := text.find(mark, end - 1, high)) >= 0]
    outside = text[low : max(opened, low)] + " " + (text[min(closings) : high] if closings else "")
    return len(_WORD.findall(outside)) >= 2


def _is_led_in(text: str, start: int) -> bool:
    """Return whether the line before the paragraph or list announces the command: "Examples of such phrases:"."""
    line_start, _ = _line(text, start)
    above = text[max(0, line_start - 600) : line_start].rstrip()
    while above:
        cut = above.rfind("\n")
        last = above[cut + 1 :].strip()
        if _FILE["lead_in"].search(last) or (last.startswith("#") and _FILE["lead_in"].search(last + ":")):
            return True
        if not re.match(r"[-*+•|>\d\"'`“]", last):
            return False
        above = above[: max(cut, 0)].rstrip()
    return False


def _fence_is_led_in(text: str, start: int) -> bool:
    opening = next(reversed(list(_FENCE.finditer(text, 0, start))))
    return _is_led_in(text, opening.start())
