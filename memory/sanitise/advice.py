"""Decides whether a sentence advises a thing, forbids it, or reports that it happened.

"Run `git push --force` to publish" advises; "never run …" forbids; "`git push --force` in the release job dropped two
commits" is an observation, and one worth keeping.
"""

from __future__ import annotations

from pathlib import Path

from sluice.text.pattern_file import PatternFile

_PATTERNS = PatternFile(Path(__file__).with_name("advice.toml"))
_SUBJECTS = frozenset(("i", "we", "they", "who", "which", "did", "does", "would", "people", "that"))
_FAR = 120
"""So far behind a command it may still be praised: its own arguments stand between."""


def is_advised(sentence: str, start: int, end: int) -> bool:
    """Whether a sentence, in small letters, advises its reader to run what `sentence[start:end]` says."""
    before, after = sentence[:start], sentence[end:]
    if _is_forbidden(before):
        return False
    if (
        _is_told_to_do(before, after)
        or _PATTERNS["label"].search(before)
        or _PATTERNS["praised"].search(before)
        or _is_endorsed(after)
    ):
        return True
    happened = (
        _PATTERNS["happened"].search(before)
        or _PATTERNS["happened"].search(after)
        or _PATTERNS["forbids"].search(after[:60])
    )
    return not happened and bool(_PATTERNS["lead"].search(before))


def is_urged(sentence: str, start: int, end: int) -> bool:
    """As `is_advised`, of a span that begins with its verb: "disable the tests", not "tried to disable the tests"."""
    before, after = sentence[:start], sentence[end:]
    if _is_forbidden(before):
        return False
    if _PATTERNS["praised"].search(before) or _is_endorsed(after):
        return True
    is_gerund = sentence[start:end].split(None, 1)[0].endswith("ing")
    return not is_gerund and bool(_PATTERNS["clause"].search(before)) and not _PATTERNS["is_noun"].match(after)


def _is_forbidden(before: str) -> bool:
    return bool(_PATTERNS["forbids"].search(_PATTERNS["no_ban"].sub(" ", before)))


def _is_told_to_do(before: str, after: str) -> bool:
    """Whether a verb in its plain form stands right before, and not as somebody's deed: "the scripts run …"."""
    found = _PATTERNS["done"].search(before)
    if not found:
        return False
    if found["verb"] in ("set", "put") and _PATTERNS["happened"].search(after):
        return False
    if found["before"] == "to":
        return not _PATTERNS["tried"].search(before)
    if any(mark in found["gap"] for mark in ":,;(>.") or not found["before"]:
        return True
    if found["before"] in _SUBJECTS or found["before"].endswith("s"):
        return found["before"] in ("always", "this", "tests") or bool(_PATTERNS["opens"].search(before))
    return True


def _is_endorsed(after: str) -> bool:
    """Whether what follows says that it helps: "… fixes it", "… is the way to go"."""
    found = _PATTERNS["endorses"].match(after)
    if not found:
        helps = _PATTERNS["helps"].search(after[:_FAR])
        if helps is None or _PATTERNS["forbids"].search(after[:_FAR]):
            return False
        return not _PATTERNS["happened"].search(after[: helps.start()])
    if found["verb"] in ("is", "are", "was"):
        head = after[: found.end() + 30]
        return bool(_PATTERNS["praise"].search(head)) and not _PATTERNS["forbids"].search(head)
    return not (found["verb"].startswith("to ") and _PATTERNS["happened"].search(after))
