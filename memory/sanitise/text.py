"""Applies memory's own rules to one text, alone or combined with a guard and a mask.

Hidden characters are removed first, then marks, then commands to the reader. Harmful advice stays, and is marked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from sluice.memory.block_marks import cut_blocks, remove_marks
from sluice.memory.ports import FindCommands, MaskPrivate, Sanitise, Sanitised
from sluice.memory.sanitise.characters import make_visible
from sluice.memory.sanitise.harm import looks_harmful
from sluice.memory.sanitise.markup import take_out_markup
from sluice.memory.sanitise.override import find_overrides
from sluice.text.readings import decoded, normalise

_WORD = re.compile(r"\w")


def sanitize_learning_text(text: str) -> Sanitised:
    """Return `text` without hidden characters, role markers, fences, tool calls and commands to a model.

    A command goes with its whole sentence. `blocked`: nothing is left, or the text held an encoded command.
    """
    cut: Counter[str] = Counter()
    text = take_out_markup(_without_blocks(make_visible(text, cut), cut), cut)
    read = normalise(text)
    spans: list[tuple[int, int]] = []
    for rule, start, end in find_overrides(read.text):
        cut[rule] += 1
        spans.append(read.span(start, end))
    if within := decoded(text):
        plain = within.lowered().text
        is_encoded = any(one.kind == "encoded" for one in within.disguises)
        if any(find_overrides(plain)) or (is_encoded and looks_harmful(plain) and not looks_harmful(read.text)):
            cut["hidden.encoded"] += 1
            return Sanitised("", dict(cut), blocked=True)
    text = tidy(cut_sentences(text, spans)) if cut else text.strip()
    is_harmful = looks_harmful(normalise(text).text)
    return Sanitised(text, dict(cut), blocked=bool(cut) and not _WORD.search(text), is_harmful=is_harmful)


def _without_blocks(text: str, cut: Counter[str]) -> str:
    """Remove blocks that memory printed into a prompt, and marks that could end such a block."""
    text, blocks = cut_blocks(text)
    text, marks = remove_marks(text)
    if blocks + marks:
        cut["mark.prompt-block"] += blocks + marks
    return text


_END = re.compile(r"[.!?。！？;](?=[\s\"'`)\]]|$)[\"'`)\]]*\s*|\n+")
_BLANKS = re.compile(r"[ \t]{2,}")
_LINES = re.compile(r"[ \t]*\n\s*")


def sentences(text: str) -> list[tuple[int, int]]:
    """Return start and end of each sentence or line, in order; a full stop within a file's name ends none."""
    ends = [*(found.end() for found in _END.finditer(text)), len(text)]
    return [(start, end) for start, end in zip([0, *ends], ends, strict=False) if start < end]


def cut_sentences(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return `text` without every sentence that one of the spans touches."""
    spans = list(spans)
    if not spans:
        return text
    return "".join(
        text[start:end]
        for start, end in sentences(text)
        if not any(start < last and first < end for first, last in spans)
    )


def tidy(text: str) -> str:
    """Return `text` without blanks at its ends, several in a row, or blank lines."""
    return _LINES.sub("\n", _BLANKS.sub(" ", text)).strip()


def build_sanitise(guard: FindCommands, mask: MaskPrivate) -> Sanitise:
    """Build a `Sanitise` from memory's own rules, `guard` (the sentences that it finds are cut) and `mask`.

    The guard sees the original text, whose hidden characters are findings too, and again the rest if own rules cut it.
    """

    def sanitise(text: str) -> Sanitised:
        if not text.strip():
            return Sanitised(text.strip())
        cut: Counter[str] = Counter()
        guarded, blocked = _guarded(text, guard, cut)
        own = sanitize_learning_text(guarded)
        cut.update(own.cut)
        kept = own.text
        if own.cut and not blocked:
            kept, blocked = _guarded(kept, guard, cut)
        kept, masked = mask(kept)
        cut.update({f"private.{kind}": count for kind, count in masked.items()})
        if cut:
            kept = tidy(kept)
        return replace(own, text=kept, cut=dict(cut), blocked=blocked or own.blocked or not kept)

    return sanitise


_TAKEN_OUT_BY_OWN_RULES = frozenset(("role-mark.token", "tool-call.markup"))
"""Findings of the guard that are marks alone: own rules tell a mentioned mark from one that opens a turn."""


def _guarded(text: str, guard: FindCommands, cut: Counter[str]) -> tuple[str, bool]:
    found = [span for span in guard(text) if span.rule not in _TAKEN_OUT_BY_OWN_RULES]
    if not found:
        return text, False
    cut.update(dict.fromkeys({span.rule for span in found}, 1))
    return cut_sentences(text, [(span.start, span.end) for span in found]), any(span.blocks for span in found)
