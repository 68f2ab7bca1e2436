"""The guard over a document's chunks: hidden channels, rules, then the model on windows that might command."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

from sluice.contracts.document import Chunk, ChunkedDocument
from sluice.contracts.trust import Finding, Verdict
from sluice.text import commands, mention, orders, passage, readings, role_marks
from sluice.text.commands import Command, find_commands, find_in_readings
from sluice.text.mention import Topic, is_about_attacks, is_mentioned_to_model
from sluice.text.passage import shown_names
from sluice.text.readings import Reading, decoded
from sluice.trust.guard.model import WEIGHTS_FILE, Embed, find_by_model, load_model

_EDGE = 12
"""Most characters between two codes, or between a code and the edge of its chunk, that belong together."""
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
        by_rule = find_in_readings(chunk.text, headings, decodings.get(number))
        findings = (*_as_findings(by_rule), *_findings_before(document, chunk, headings), *around, *scored)
        begins_until, ends_from = _encoded_edges(chunk.text, decodings.get(number))
        if begins_until:
            findings += tuple(one.model_copy(update={"start": 0, "end": begins_until}) for one in going_on)
        is_open = ends_from is not None and any(one.rule.startswith("hidden.") for one in findings)
        going_on = tuple(one for one in findings if one.end >= (ends_from or 0)) if is_open else ()
        about_attacks = bool(findings) and is_about_attacks(f"{headings}\n{chunk.text}")
        verdict = _decide(findings, submitted=submitted, about_attacks=about_attacks)
        judgements.append(Judgement(verdict, findings))
    return tuple(judgements)


_COMMANDS = frozenset(("override", "role-mark", "exfiltrate", "conceal", "tool-call", "address"))


def _reason(rule: str) -> str:
    """Return the kind of reason of a rule: `override.en` and `persona` are one reason, not two."""
    head = rule.split(".", 1)[0]
    return "override" if head == "persona" else head


def _decide(findings: Sequence[Finding], *, submitted: bool, about_attacks: bool) -> Verdict:
    """Return the verdict on a chunk (docs/decisions/0017-guard.md).

    Blocked: a rule's command, and a second reason of another kind: another command, a hidden channel, the model, or the
    submission by a caller of a text with an override command. A text about attacks is warned, never blocked.
    """
    reasons = {_reason(finding.rule) for finding in findings}
    if not reasons:
        return Verdict.PASSED
    commands = reasons & _COMMANDS
    second = len(reasons) > 1 or (submitted and "override" in commands)
    return Verdict.BLOCKED if commands and second and not about_attacks else Verdict.WARNED


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
    found = _as_findings(find_commands(facts, headings))
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
    found = find_commands(together, headings)
    return tuple(
        Finding(rule=one.rule, start=0, end=max(0, one.end - len(head) - 1)) for one in found if one.start < len(head)
    )


def _as_findings(found: Iterable[Command]) -> list[Finding]:
    return [Finding(rule=rule, start=start, end=end) for rule, start, end in found]


def is_example(document: ChunkedDocument, number: int, start: int, end: int) -> bool:
    """Return whether a window of chunk `number` that the model finds is an example in a text about attacks."""
    text = document.chunks[number].text
    return is_mentioned_to_model(text, start, end, Topic(text, _headings(document)))


def _headings(document: ChunkedDocument) -> str:
    paths = dict.fromkeys(part for chunk in document.chunks for part in chunk.section_path)
    return "\n".join((document.title or "", *paths))


@cache
def _hash_of_sources() -> str:
    """Return a hash of this package, the readings of a text, their data and the weights: any change is a version."""
    own = Path(__file__).parent
    sources = [*own.glob("*.py"), *own.glob("*.toml"), WEIGHTS_FILE]
    for module in (commands, mention, orders, passage, readings, role_marks):
        path = Path(module.__file__ or "")
        sources += (one for one in (path, path.with_suffix(".toml")) if one.exists())
    digest = hashlib.sha256()
    for source in sorted(set(sources)):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]
