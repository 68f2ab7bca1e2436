"""Finds the commands to a language model that a text gives, plain or disguised, and not those that it only mentions.

Commands to drop earlier orders are found by a table of words (`orders`), marks of chat templates by theirs
(`role_marks`), all others by patterns over normalised text (`commands.toml`). `mention` says which are quoted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sluice.text.mention import Topic, is_fenced, is_mentioned, is_quoted
from sluice.text.orders import find_discarding
from sluice.text.pattern_file import PatternFile
from sluice.text.readings import Reading, decoded, normalise
from sluice.text.role_marks import find_marks
from sluice.text.words import WORD

_FILE = PatternFile(Path(__file__).with_name("commands.toml"))
_HIDDEN_ALONE = frozenset(("tag-characters", "variation-selectors"))
"""Characters whose only use is to hide a text."""
_AS_WRITTEN = frozenset(("exfiltrate.image",))
"""Rules about addresses, in which escapes are no disguise."""
_MOST_TRIES = 50
"""Most matches of one rule that are examined in a text, which may consist of nothing else."""
_FEW_WORDS = 6
_FEW_MASKS = 3
_SLIP = 3


class Command(NamedTuple):
    """A command in `text[start:end]`, by the rule that found it; `hidden.…` is a disguise that no honest text has."""

    rule: str
    start: int
    end: int


def find_commands(text: str, headings: str = "") -> list[Command]:
    """Find the commands that a text gives, and not merely mentions; the first of each rule.

    `headings` are the page's title and headings, which show its subject.
    """
    return find_in_readings(text, headings, decoded(text))


def find_in_readings(text: str, headings: str, reading: Reading | None) -> list[Command]:
    """Find commands in a text and in `reading`, which is what is encoded in it."""
    letters = normalise(text)
    found: dict[str, Command] = {}

    def add(rule: str, start: int, end: int) -> None:
        found.setdefault(rule, Command(rule, start, end))

    for kind, start, end in _telling_disguises(text, letters, reading):
        add(f"hidden.{kind}", start, end)
    topic: Topic | None = None
    for view in (letters, *((reading.lowered(),) if reading else ())):
        tries: Counter[str] = Counter()
        for match in _matches(view.text):
            tries[match.rule] += 1
            if match.rule in found or tries[match.rule] > _MOST_TRIES:
                continue
            if view is not letters and match.rule in _AS_WRITTEN:
                continue
            topic = topic or Topic(text, headings)
            start, end = view.span(match.start, match.end)
            kind = view.disguise_within(start, end)
            is_hidden = kind not in (None, "joined")
            if _is_given(text, match._replace(start=start, end=end), topic, is_hidden=is_hidden):
                add(match.rule, start, end)
                if is_hidden:
                    add(f"hidden.{kind}", start, end)
    return list(found.values())


def _telling_disguises(text: str, letters: Reading, reading: Reading | None) -> Iterator[tuple[str, int, int]]:
    """Yield disguises that no honest text has, whatever it says: encoded sentences to somebody, masked words."""
    for one in letters.disguises:
        if one.kind in _HIDDEN_ALONE:
            yield one.kind, one.start, one.end
    for kind in ("zero-width", "look-alike-letters"):
        found = [one for one in letters.disguises if one.kind == kind and _is_masked(text[one.start : one.end], kind)]
        if len(found) >= _FEW_MASKS:
            yield kind, found[0].start, found[-1].end
    for one in reading.disguises if reading else ():
        plain = reading.plain_of(one).lower() if reading and one.kind in ("encoded", "spaced-letters") else ""
        if len(plain.split()) >= _FEW_WORDS and _FILE["addresses"].search(plain):
            yield one.kind, one.start, one.end


def _is_masked(word: str, kind: str) -> bool:
    """Return whether a word is masked. Greek letters in Latin words are mostly mathematics; a short word is a slip."""
    return kind == "zero-width" or (len(word) > _SLIP and any("\u0400" <= letter <= "\u04ff" for letter in word))


def _is_given(text: str, match: Command, topic: Topic, *, is_hidden: bool) -> bool:
    is_mark = match.rule.startswith(("role-mark.", "tool-call."))
    if is_mark and (is_fenced(text, match.start) or is_quoted(text, match.start, match.end)):
        return False
    return not is_mentioned(text, match.start, match.end, topic, is_hidden=is_hidden)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern over normalised text."""

    name: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    """Every text that the pattern matches has one of these, or of `words`; without any the pattern is tried on all."""
    words: frozenset[str]
    is_command: bool
    """Whether the match has to begin a clause: "ignore the rules above", not "to ignore the rules above"."""


def _matches(text: str) -> Iterator[Command]:
    """Yield the matches of every rule in a normalised text, whether it gives the command or quotes it."""
    words = set(WORD.findall(text))
    for start, end, language in find_discarding(text):
        if language != "en" or _begins_clause(text, start):
            yield Command(f"override.{language}", start, end)
    for name, start, end in find_marks(text):
        yield Command(name, start, end)
    for rule in _rules():
        has_words = not rule.words.isdisjoint(words) or not (rule.words or rule.hints)
        if not has_words and not any(hint in text for hint in rule.hints):
            continue
        for found in rule.pattern.finditer(text):
            if not rule.is_command or _begins_clause(text, found.start()):
                yield Command(rule.name, *found.span())


def _begins_clause(text: str, start: int) -> bool:
    before = text[max(0, start - 60) : start]
    if before.endswith((" /", "`/")):  # the name of a command, as chats have them
        return False
    return not before.strip() or (bool(_FILE["clause"].search(before)) and not _FILE["third_person"].search(before))


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(
        _Rule(
            one["name"],
            _FILE.compiled(one["pattern"]),
            tuple(one.get("hints", ())),
            frozenset(one.get("words", "").split()),
            one.get("is_command", False),
        )
        for one in _FILE.tables["rules"]
    )
