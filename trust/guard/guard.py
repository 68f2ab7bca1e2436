"""The guard over a document's chunks: hidden channels, rules, then the model on windows that might command."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contracts.document import Chunk, ChunkedDocument
from contracts.trust import Finding, Verdict
from trust.guard.decode import texts_within
from trust.guard.mention import Topic, is_about_attacks, is_fenced, is_mentioned, is_quoted
from trust.guard.normalise import normalise
from trust.guard.rules import Match, find_matches
from trust.guard.verdict import decide

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]
"""Texts to unit vectors, one row each."""

_HIDDEN_ALONE = frozenset(("tag-characters", "variation-selectors"))
"""Characters that have no other use than to hide a text."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the guard says of one chunk."""

    verdict: Verdict
    findings: tuple[Finding, ...]


class RuleGuard:
    """The rules alone. Safe for threads."""

    @property
    def version(self) -> str:
        """Changes with every change of the rules."""
        return f"rules-{_rules_hash()}"

    def judge(self, document: ChunkedDocument, embed: Embed) -> tuple[Judgement, ...]:
        """A judgement for each chunk, in their order."""
        del embed
        headings = _headings(document)
        submitted = document.provenance.origin == "submitted"
        return tuple(_judge(chunk, (), submitted, headings) for chunk in document.chunks)


def _judge(chunk: Chunk, model: Sequence[Finding], submitted: bool, headings: str) -> Judgement:
    findings = (*find_by_rule(chunk.text, headings), *model)
    if not findings:
        return Judgement(Verdict.PASSED, ())
    about_attacks = is_about_attacks(f"{headings}\n{chunk.text}")
    return Judgement(decide(findings, submitted=submitted, about_attacks=about_attacks), findings)


def find_by_rule(text: str, headings: str = "") -> tuple[Finding, ...]:
    """What the rules find said, and not merely spoken about, in a text; the first of each rule.

    `headings`: the page's title and headings, which tell what it is about.
    """
    reading = normalise(text)
    findings: dict[str, Finding] = {}
    for disguise in reading.disguises:
        if disguise.kind in _HIDDEN_ALONE:
            rule = f"hidden.{disguise.kind}"
            findings.setdefault(rule, Finding(rule=rule, start=disguise.start, end=disguise.end))
    topic = Topic(text, headings)
    for view in (reading, *texts_within(text, reading)):
        for match in find_matches(view):
            start, end = view.span(match.start, match.end)
            kind = view.disguise_within(start, end)
            if _is_said(text, start, end, match, topic):
                findings.setdefault(match.rule.name, Finding(rule=match.rule.name, start=start, end=end))
                if kind:
                    findings.setdefault(f"hidden.{kind}", Finding(rule=f"hidden.{kind}", start=start, end=end))
    return tuple(findings.values())


def _is_said(text: str, start: int, end: int, match: Match, topic: Topic) -> bool:
    if match.rule.group in ("role-mark", "tool-call") and (is_fenced(text, start) or is_quoted(text, start, end)):
        return False
    return not is_mentioned(text, start, end, topic)


def _headings(document: ChunkedDocument) -> str:
    paths = dict.fromkeys(part for chunk in document.chunks for part in chunk.section_path)
    return "\n".join((document.title or "", *paths))


def _rules_hash() -> str:
    """Of the source of this package: a changed rule is another version, without a number to be kept in step."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
