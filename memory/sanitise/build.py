"""Memory's own rules, a guard and a mask as one."""

from __future__ import annotations

from collections import Counter

from sluice.memory.ports import FindCommands, MaskPrivate, Sanitise, Sanitised
from sluice.memory.sanitise.sentences import cut_sentences, tidy
from sluice.memory.sanitise.text import sanitize_learning_text


def build_sanitise(guard: FindCommands, mask: MaskPrivate) -> Sanitise:
    """A `Sanitise` of memory's own rules, of what `guard` finds (its sentences are cut), and of `mask`.

    The guard sees the text as it came, as hidden characters are findings of its own; and once more what own rules left,
    where these changed it.
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
"""Findings of the guard that are marks by themselves; own rules tell a mark that is spoken of from one that opens a turn."""


def _guarded(text: str, guard: FindCommands, cut: Counter[str]) -> tuple[str, bool]:
    found = [span for span in guard(text) if span.rule not in _TAKEN_OUT_BY_OWN_RULES]
    if not found:
        return text, False
    cut.update(dict.fromkeys({span.rule for span in found}, 1))
    return cut_sentences(text, [(span.start, span.end) for span in found]), any(span.blocks for span in found)
