"""The guard over a document's chunks: hidden channels, rules, then the model on windows that might command."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

from sluice.contracts.document import Chunk, ChunkedDocument
from sluice.contracts.trust import Finding, Verdict
from sluice.text import orders, passage, readings, role_marks
from sluice.text.passage import shown_names
from sluice.text.readings import Reading, decoded, normalise
from sluice.trust.guard.mention import (
    Topic,
    is_about_attacks,
    is_fenced,
    is_mentioned,
    is_mentioned_to_model,
    is_quoted,
)
from sluice.trust.guard.model import WEIGHTS_FILE, Embed, find_by_model, load_model
from sluice.trust.guard.rules import Match, decide, find_matches
from sluice.trust.guard.windows import is_candidate

_HIDDEN_ALONE = frozenset(("tag-characters", "variation-selectors"))
"""Characters whose only use is to hide a text."""
_AS_WRITTEN = frozenset(("exfiltrate.image",))
"""Rules about addresses, in which escapes are no disguise."""
_EDGE = 12
"""Most characters between two codes, or between a code and the edge of its chunk, that belong together."""
_MOST_TRIES = 50
"""Most matches of one rule that are examined in a text, which may consist of nothing else."""
_FEW_WORDS = 6
_FEW_MASKS = 3
_SLIP = 3
_LONGEST_FACT = 2_000
_LONGEST_END = 150
"""Characters of a text in which a command may end that begins in the passage's head."""


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
        return _judged(document, lambda _: {})


class ModelGuard(RuleGuard):
    """The rules and the model. Safe for threads."""

    name = "guard"

    def judge(self, document: ChunkedDocument, embed: Embed) -> tuple[Judgement, ...]:
        """Return judgements, as `RuleGuard.judge` does. Raises the errors of `embed`."""
        return _judged(document, partial(find_by_model, model=load_model(), embed=embed))


FindByModel = Callable[[ChunkedDocument], Mapping[int, Finding]]
"""Returns what a model finds in a document, by the number of the chunk."""


def _judged(document: ChunkedDocument, find: FindByModel) -> tuple[Judgement, ...]:
    headings = _headings(document)
    decodings = {number: found for number, one in enumerate(document.chunks) if (found := decoded(one.text))}
    around = _findings_around(document, headings, find)
    by_model = _without_examples(document, find)
    by_model_decoded = _decoded_by_model(document, decodings, find)
    submitted = document.provenance.source == "submission"
    judgements: list[Judgement] = []
    going_on: tuple[Finding, ...] = ()
    for number, chunk in enumerate(document.chunks):
        scored = (found[number] for found in (by_model, by_model_decoded) if number in found)
        by_rule = _find_by_rule(chunk.text, headings, decodings.get(number))
        findings = (*by_rule, *_findings_before(document, chunk, headings), *around, *scored)
        begins_until, ends_from = _encoded_edges(chunk.text, decodings.get(number))
        if begins_until:
            findings += tuple(one.model_copy(update={"start": 0, "end": begins_until}) for one in going_on)
        is_open = ends_from is not None and any(one.rule.startswith("hidden.") for one in findings)
        going_on = tuple(one for one in findings if one.end >= (ends_from or 0)) if is_open else ()
        about_attacks = bool(findings) and is_about_attacks(f"{headings}\n{chunk.text}")
        verdict = decide(findings, submitted=submitted, about_attacks=about_attacks)
        judgements.append(Judgement(verdict, findings))
    return tuple(judgements)


def _encoded_edges(text: str, reading: Reading | None) -> tuple[int, int | None]:
    """Return where what is encoded at the beginning of a chunk ends, or 0, and where that at its end begins, or None.

    A long code is cut into chunks: what goes on from a chunk with a hidden command is a part of that command.
    """
    spans = sorted((one.start, one.end) for one in reading.disguises if one.kind == "encoded") if reading else []
    begins_until, ends_from = 0, None
    for start, end in spans:
        if start <= begins_until + _EDGE:
            begins_until = max(begins_until, end)
    for start, end in reversed(spans):
        if end >= (len(text) if ends_from is None else ends_from) - _EDGE:
            ends_from = start
    return begins_until, ends_from


def _without_examples(document: ChunkedDocument, find: FindByModel) -> dict[int, Finding]:
    return {
        number: found
        for number, found in find(document).items()
        if not is_example(document, number, found.start, found.end)
    }


def _decoded_by_model(
    document: ChunkedDocument, decodings: Mapping[int, Reading], find: FindByModel
) -> dict[int, Finding]:
    """Find commands by the model in what is encoded in the chunks; names joined as in source code are left out."""
    numbers = [number for number, one in decodings.items() if any(found.kind != "joined" for found in one.disguises)]
    if not numbers:
        return {}
    chunks = (document.chunks[number].model_copy(update={"text": decodings[number].text}) for number in numbers)
    found: dict[int, Finding] = {}
    for place, one in _without_examples(document.model_copy(update={"chunks": tuple(chunks)}), find).items():
        start, end = decodings[numbers[place]].span(one.start, one.end)
        found[numbers[place]] = one.model_copy(update={"start": start, "end": end})
    return found


def _findings_around(document: ChunkedDocument, headings: str, find: FindByModel) -> tuple[Finding, ...]:
    """Find commands in what is shown of a document beside its texts. They are findings of each of its chunks."""
    facts = "\n\n".join(_facts(document))
    found = [*find_by_rule(facts, headings)]
    if document.chunks:
        chunk = document.chunks[0].model_copy(update={"text": facts, "section_path": (), "symbol_path": None})
        found += _without_examples(document.model_copy(update={"title": None, "chunks": (chunk,)}), find).values()
    return tuple(one.model_copy(update={"start": 0, "end": 0}) for one in found)


def _facts(document: ChunkedDocument) -> Iterator[str]:
    """Yield the texts beside its chunks that an answer, or a framework, shows of a document."""
    provenance = document.provenance
    sources = (document.title, *_sources(document), provenance.repository)
    for said in (*sources, provenance.author, provenance.branch, *document.metadata, *document.metadata.values()):
        if isinstance(said, str):
            yield said[:_LONGEST_FACT]


def _sources(document: ChunkedDocument) -> tuple[str | None, ...]:
    """Return address, path and id. Escapes are usual in an address, and no disguise."""
    return unquote(document.url or ""), document.file_path, document.document_id


def _findings_before(document: ChunkedDocument, chunk: Chunk, headings: str) -> tuple[Finding, ...]:
    """Find commands that begin in the head of a passage, as it is shown, and may end in its text."""
    head = "\n".join(shown_names((*_sources(document), document.title, *chunk.section_path, chunk.symbol_path)))
    together = f"{head}\n{chunk.text[:_LONGEST_END]}"
    found = find_by_rule(together, headings)
    return tuple(
        one.model_copy(update={"start": 0, "end": max(0, one.end - len(head) - 1)})
        for one in found
        if one.start < len(head)
    )


def is_example(document: ChunkedDocument, number: int, start: int, end: int) -> bool:
    """Return whether a window of chunk `number` that the model finds is an example in a text about attacks."""
    text = document.chunks[number].text
    return is_mentioned_to_model(text, start, end, Topic(text, _headings(document)))


def find_by_rule(text: str, headings: str = "") -> tuple[Finding, ...]:
    """Find the commands that a text gives, and not merely mentions, by the rules; the first match of each rule.

    `headings` are the page's title and headings, which show its subject.
    """
    return _find_by_rule(text, headings, decoded(text))


def _find_by_rule(text: str, headings: str, reading: Reading | None) -> tuple[Finding, ...]:
    """Find commands in a text and in `reading`, which is what is encoded in it."""
    letters = normalise(text)
    findings: dict[str, Finding] = {}

    def add(rule: str, start: int, end: int) -> None:
        findings.setdefault(rule, Finding(rule=rule, start=start, end=end))

    for kind, start, end in _telling_disguises(text, letters, reading):
        add(f"hidden.{kind}", start, end)
    topic: Topic | None = None
    for view in (letters, *((reading.lowered(),) if reading else ())):
        tries: Counter[str] = Counter()
        for match in find_matches(view):
            tries[match.rule] += 1
            if match.rule in findings or tries[match.rule] > _MOST_TRIES:
                continue
            if view is not letters and match.rule in _AS_WRITTEN:
                continue
            topic = topic or Topic(text, headings)
            start, end = view.span(match.start, match.end)
            kind = view.disguise_within(start, end)
            is_hidden = kind not in (None, "joined")
            if _is_said(text, start, end, match, topic, is_hidden=is_hidden):
                add(match.rule, start, end)
                if is_hidden:
                    add(f"hidden.{kind}", start, end)
    return tuple(findings.values())


def _telling_disguises(text: str, letters: Reading, reading: Reading | None) -> Iterator[tuple[str, int, int]]:
    """Yield disguises that no honest text has, whatever it says: encoded sentences to somebody, masked words."""
    for one in letters.disguises:
        if one.kind in _HIDDEN_ALONE:
            yield one.kind, one.start, one.end
    for kind in ("zero-width", "look-alike-letters"):
        found = [one for one in letters.disguises if one.kind == kind and _is_masked(text[one.start : one.end], kind)]
        if len(found) >= _FEW_MASKS:
            yield kind, found[0].start, found[-1].end
    if reading:
        for one in reading.disguises:
            plain = reading.plain_of(one).lower() if one.kind in ("encoded", "spaced-letters") else ""
            if len(plain.split()) >= _FEW_WORDS and is_candidate(plain):
                yield one.kind, one.start, one.end


def _is_masked(word: str, kind: str) -> bool:
    """Return whether a word is masked. Greek letters in Latin words are mostly mathematics; a short word is a slip."""
    return kind == "zero-width" or (len(word) > _SLIP and any("\u0400" <= letter <= "\u04ff" for letter in word))


def _is_said(text: str, start: int, end: int, match: Match, topic: Topic, *, is_hidden: bool) -> bool:
    if match.group in ("role-mark", "tool-call") and (is_fenced(text, start) or is_quoted(text, start, end)):
        return False
    return not is_mentioned(text, start, end, topic, is_hidden=is_hidden)


def _headings(document: ChunkedDocument) -> str:
    paths = dict.fromkeys(part for chunk in document.chunks for part in chunk.section_path)
    return "\n".join((document.title or "", *paths))


@cache
def _hash_of_sources() -> str:
    """Return a hash of this package, the readings of a text, their data and the weights: any change is a version."""
    own = Path(__file__).parent
    sources = [*own.glob("*.py"), *own.glob("*.toml"), WEIGHTS_FILE]
    for module in (orders, passage, readings, role_marks):
        path = Path(module.__file__ or "")
        sources += (one for one in (path, path.with_suffix(".toml")) if one.exists())
    digest = hashlib.sha256()
    for source in sorted(set(sources)):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]
