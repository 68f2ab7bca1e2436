"""The code in a passage: the passage itself where it is of a file of code, else its fenced blocks."""

from __future__ import annotations

import re
from typing import Literal

from sluice.contracts.profiles.insights import CodeSample
from sluice.trust.code.policy import judge_code

_FENCE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,}) *(?P<info>[^\n`]*)\n(?P<code>.*?)(?:^ {0,3}(?P=fence)|\Z)", re.M | re.S
)
_STRICTNESS: tuple[Literal["allowed", "needs_approval", "denied"], ...] = ("allowed", "needs_approval", "denied")


def find_code(text: str, language: str | None, *, is_code: bool) -> CodeSample | None:
    """What a tool must know of the code in a passage; None where there is none.

    `language` is that of a file of code (`is_code`). Of several fenced blocks the strictest policy counts, with the
    reasons of all.
    """
    if is_code:
        return judge_code(text, language)
    blocks = [
        (match["info"].split()[0].strip("{}.").lower() if match["info"].strip() else None, match["code"])
        for match in _FENCE.finditer(text)
    ]
    judged = [sample for named, code in blocks if (sample := judge_code(code, named)) is not None]
    if not judged:
        return None
    strictest = max(judged, key=lambda sample: _STRICTNESS.index(sample.policy))
    return strictest.model_copy(update={"why": tuple(dict.fromkeys(why for sample in judged for why in sample.why))})
