"""The strict rules: texts that command a language model, on any page. The patterns are in `rules.toml`.

A match names its rule and a span. `mention` decides whether the text *gives* a command or speaks *about* it. One reason
warns, two independent reasons block (`decide`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.trust import Finding, Verdict
from sluice.text.orders import find_discarding
from sluice.text.pattern_file import PatternFile
from sluice.text.readings import Reading
from sluice.text.role_marks import find_marks
from sluice.text.words import WORD


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern over normalised text. `group` is the kind of reason: two rules of a group count as one reason."""

    name: str
    group: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    """Every text that the pattern matches has one of these, or of `words`; without any the pattern is tried on all."""
    words: frozenset[str] = frozenset()
    is_command: bool = False
    """Whether the match has to begin a clause: "ignore the rules above", not "to ignore the rules above"."""


@dataclass(frozen=True, slots=True)
class Match:
    """Place of a rule's match in a reading, with the rule's name and group."""

    rule: str
    group: str
    start: int
    end: int


def find_matches(reading: Reading) -> Iterator[Match]:
    """Yield the matches of every rule in a reading, whether the text gives the command or quotes it."""
    text = reading.text
    words = set(WORD.findall(text))
    for start, end, language in find_discarding(text):
        if language != "en" or _begins_clause(text, start):
            yield Match(f"override.{language}", "override", start, end)
    for name, start, end in find_marks(text):
        yield Match(name, name.split(".", 1)[0], start, end)
    for rule in RULES:
        has_words = not rule.words.isdisjoint(words) or not (rule.words or rule.hints)
        if not has_words and not any(hint in text for hint in rule.hints):
            continue
        for found in rule.pattern.finditer(text):
            if not rule.is_command or _begins_clause(text, found.start()):
                yield Match(rule.name, rule.group, found.start(), found.end())


def _begins_clause(text: str, start: int) -> bool:
    before = text[max(0, start - 60) : start]
    if before.endswith((" /", "`/")):  # the name of a command, as chats have them
        return False
    return not before.strip() or (bool(_CLAUSE.search(before)) and not _THIRD_PERSON.search(before))


def _read_rules(file: PatternFile) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            one["name"],
            one["group"],
            file.compiled(one["pattern"]),
            tuple(one.get("hints", ())),
            frozenset(one.get("words", "").split()),
            one.get("is_command", False),
        )
        for one in file.tables["rules"]
    )


_FILE = PatternFile(Path(__file__).with_name("rules.toml"))
_CLAUSE = _FILE.compiled(_FILE.tables["clause"]["begins"])
_THIRD_PERSON = _FILE.compiled(_FILE.tables["clause"]["third_person"])
RULES: tuple[Rule, ...] = _read_rules(_FILE)
"""Every rule, with its name; names appear in findings, and operators read them."""


MODEL = "model"
_COMMANDS = frozenset(("override", "role-mark", "exfiltrate", "conceal", "tool-call", "address"))


def reason(rule: str) -> str:
    """Return the kind of reason of a rule: `override.en` and `persona` are one reason, not two."""
    head = rule.split(".", 1)[0]
    return "override" if head == "persona" else head


def decide(findings: Sequence[Finding], *, submitted: bool, about_attacks: bool) -> Verdict:
    """Return the verdict on a chunk (docs/decisions/0017-guard.md).

    Blocked: a rule's command, and a second reason of another kind: another command, a hidden channel, the model, or the
    submission by a caller of a text with an override command. A text about attacks is warned, never blocked.
    """
    reasons = {reason(finding.rule) for finding in findings}
    if not reasons:
        return Verdict.PASSED
    commands = reasons & _COMMANDS
    second = len(reasons) > 1 or (submitted and "override" in commands)
    return Verdict.BLOCKED if commands and second and not about_attacks else Verdict.WARNED
