"""Applies memory's own rules to one text, alone or combined with a guard and a mask.

Hidden characters are removed first, then marks, then commands to the reader.
"""

from __future__ import annotations

import re
from collections import Counter

from sluice.memory.block_marks import cut_blocks, remove_marks
from sluice.memory.ports import FindCommands, MaskPrivate, Sanitise, Sanitised
from sluice.memory.sanitise.characters import make_visible
from sluice.memory.sanitise.harmful import find_harmful
from sluice.memory.sanitise.likely_harm import find_likely_harm
from sluice.memory.sanitise.markup import take_out_markup
from sluice.memory.sanitise.override import find_overrides
from sluice.memory.sanitise.sentences import cut_sentences, tidy
from sluice.text.readings import decoded, normalise

_WORD = re.compile(r"\w")


def sanitize_learning_text(text: str) -> Sanitised:
    """Return `text` without hidden characters, role markers, fences, tool calls, commands to a model, harmful advice.

    A command goes with its whole sentence. `blocked`: nothing is left, or the text held an encoded command.
    """
    cut: Counter[str] = Counter()
    text = take_out_markup(_without_blocks(make_visible(text, cut), cut), cut)
    read = normalise(text)
    spans: list[tuple[int, int]] = []
    for rule, start, end in _commands(read.text) or find_likely_harm(read.text):
        cut[rule] += 1
        spans.append(read.span(start, end))
    if (within := decoded(text)) and _commands(within.lowered().text):
        cut["hidden.encoded"] += 1
        return Sanitised("", dict(cut), blocked=True)
    text = tidy(cut_sentences(text, spans)) if cut else text.strip()
    return Sanitised(text, dict(cut), blocked=bool(cut) and not _WORD.search(text))


def _commands(read: str) -> list[tuple[str, int, int]]:
    return [*find_overrides(read), *find_harmful(read)]


def _without_blocks(text: str, cut: Counter[str]) -> str:
    """Remove blocks that memory printed into a prompt, and marks that could end such a block."""
    text, blocks = cut_blocks(text)
    text, marks = remove_marks(text)
    if blocks + marks:
        cut["mark.prompt-block"] += blocks + marks
    return text


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
        return Sanitised(kept, dict(cut), blocked=blocked or own.blocked or not kept)

    return sanitise


_TAKEN_OUT_BY_OWN_RULES = frozenset(("role-mark.token", "tool-call.markup"))
"""Findings of the guard that are marks alone: own rules tell a mentioned mark from one that opens a turn."""


def _guarded(text: str, guard: FindCommands, cut: Counter[str]) -> tuple[str, bool]:
    found = [span for span in guard(text) if span.rule not in _TAKEN_OUT_BY_OWN_RULES]
    if not found:
        return text, False
    cut.update(dict.fromkeys({span.rule for span in found}, 1))
    return cut_sentences(text, [(span.start, span.end) for span in found]), any(span.blocks for span in found)
