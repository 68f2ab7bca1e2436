"""The guard over a document's chunks: hidden channels, rules, then the model on windows that might command."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from sluice.contracts.document import ChunkedDocument
from sluice.contracts.trust import Finding, Verdict
from sluice.trust.guard.mention import (
    Topic,
    is_about_attacks,
    is_fenced,
    is_mentioned,
    is_mentioned_to_model,
    is_quoted,
)
from sluice.trust.guard.model import WEIGHTS_FILE, Embed, find_by_model, load_model
from sluice.trust.guard.normalise import Reading, normalise, texts_within
from sluice.trust.guard.rules import Match, decide, find_matches
from sluice.trust.guard.windows import is_candidate

_HIDDEN_ALONE = frozenset(("tag-characters", "variation-selectors"))
"""Characters whose only use is to hide a text."""
_MOST_TRIES = 50
"""Most matches of one rule that are examined in a text, which may consist of nothing else."""
_FEW_WORDS = 6
_FEW_MASKS = 3
_SLIP = 3


@dataclass(frozen=True, slots=True)
class Judgement:
    """Verdict of the guard on one chunk."""

    verdict: Verdict
    findings: tuple[Finding, ...]


class RuleGuard:
    """The rules alone. Safe for threads."""

    name: ClassVar = "rules"

    @property
    def version(self) -> str:
        """Hash that changes with every change of the rules, the features or the weights."""
        return f"{self.name}-{_hash_of_sources()}"

    def judge(self, document: ChunkedDocument, embed: Embed) -> tuple[Judgement, ...]:
        """Return a judgement for each chunk, in their order. `embed` returns unit vectors of texts, one row each."""
        del embed
        return _judged(document, {})


class ModelGuard(RuleGuard):
    """The rules and the model. Safe for threads."""

    name = "guard"

    def judge(self, document: ChunkedDocument, embed: Embed) -> tuple[Judgement, ...]:
        """Return judgements, as `RuleGuard.judge` does. Raises the errors of `embed`."""
        return _judged(document, find_by_model(document, load_model(), embed))


def _judged(document: ChunkedDocument, by_model: Mapping[int, Finding]) -> tuple[Judgement, ...]:
    headings = _headings(document)
    around = find_by_rule(_facts(document), headings)
    whole = tuple(finding.model_copy(update={"start": 0, "end": 0}) for finding in around)
    submitted = document.provenance.origin == "submitted"
    judgements: list[Judgement] = []
    for number, chunk in enumerate(document.chunks):
        findings = (*find_by_rule(chunk.text, headings), *whole)
        if (scored := by_model.get(number)) and not is_example(document, number, scored.start, scored.end):
            findings = (*findings, scored)
        if not findings:
            judgements.append(Judgement(Verdict.PASSED, ()))
            continue
        about_attacks = is_about_attacks(f"{headings}\n{chunk.text}")
        judgements.append(Judgement(decide(findings, submitted=submitted, about_attacks=about_attacks), findings))
    return tuple(judgements)


def is_example(document: ChunkedDocument, number: int, start: int, end: int) -> bool:
    """Return whether a window of chunk `number` that the model finds is an example in a text about attacks."""
    text = document.chunks[number].text
    return is_mentioned_to_model(text, start, end, Topic(text, _headings(document)))


def _facts(document: ChunkedDocument) -> str:
    """Return the parts of a document, beside its text, that an answer shows: they may hold a command as well."""
    said = (document.title, document.provenance.author, *document.metadata.values())
    return "\n\n".join(fact for fact in said if isinstance(fact, str))


def find_by_rule(text: str, headings: str = "") -> tuple[Finding, ...]:
    """Find the commands that a text gives, and not merely mentions, by the rules; the first match of each rule.

    `headings` are the page's title and headings, which show its subject.
    """
    reading = normalise(text)
    findings: dict[str, Finding] = {}
    for disguise in reading.disguises:
        if disguise.kind in _HIDDEN_ALONE:
            rule = f"hidden.{disguise.kind}"
            findings.setdefault(rule, Finding(rule=rule, start=disguise.start, end=disguise.end))
    within = tuple(texts_within(text, reading))
    topic: Topic | None = None
    for told, (start, end) in _telling_disguises(text, reading, within):
        findings.setdefault(f"hidden.{told}", Finding(rule=f"hidden.{told}", start=start, end=end))
    for view in (reading, *within):
        tries: Counter[str] = Counter()
        for match in find_matches(view):
            tries[match.rule.name] += 1
            if match.rule.name in findings or tries[match.rule.name] > _MOST_TRIES:
                continue
            topic = topic or Topic(text, headings)
            start, end = view.span(match.start, match.end)
            kind = view.disguise_within(start, end)
            if _is_said(text, start, end, match, topic):
                findings.setdefault(match.rule.name, Finding(rule=match.rule.name, start=start, end=end))
                if kind:
                    findings.setdefault(f"hidden.{kind}", Finding(rule=f"hidden.{kind}", start=start, end=end))
    return tuple(findings.values())


def _telling_disguises(text: str, reading: Reading, within: Sequence[Reading]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield disguises that no honest text has, whatever it says: encoded sentences to somebody, masked words."""
    for view in within:
        if len(view.text.split()) >= _FEW_WORDS and is_candidate(view.text):
            yield view.disguises[0].kind, view.span(0, len(view.text))
    for kind in ("zero-width", "look-alike-letters"):
        found = [one for one in reading.disguises if one.kind == kind and _is_masked(text[one.start : one.end], kind)]
        if len(found) >= _FEW_MASKS:
            yield kind, (found[0].start, found[-1].end)


def _is_masked(word: str, kind: str) -> bool:
    """Return whether a word is masked. Greek letters in Latin words are mostly mathematics; a short word is a slip."""
    return kind == "zero-width" or (len(word) > _SLIP and any("\u0400" <= letter <= "\u04ff" for letter in word))


def _is_said(text: str, start: int, end: int, match: Match, topic: Topic) -> bool:
    if match.rule.group in ("role-mark", "tool-call") and (is_fenced(text, start) or is_quoted(text, start, end)):
        return False
    return not is_mentioned(text, start, end, topic)


def _headings(document: ChunkedDocument) -> str:
    paths = dict.fromkeys(part for chunk in document.chunks for part in chunk.section_path)
    return "\n".join((document.title or "", *paths))


@cache
def _hash_of_sources() -> str:
    """Return a hash of this package, its rules and weights: a change of any of them makes another version."""
    digest = hashlib.sha256()
    for path in sorted((*Path(__file__).parent.glob("*.py"), *Path(__file__).parent.glob("*.toml"), WEIGHTS_FILE)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
