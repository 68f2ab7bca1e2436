"""Sentences that an agent marks as lessons itself: "Lesson: …", "Note for next time: …"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.contracts.memory.learning import LearningSource
from sluice.contracts.memory.model import IterationRecord
from sluice.memory.learning.candidate import Candidate
from sluice.memory.learning.wording import fit, is_about_excluded_files

_LABEL = (
    r"(?:key |main |important )?(?:lessons?(?: learn(?:ed|t))?|learn(?:ed|ing|ings|t)|what i learn(?:ed|t)|take-?aways?|gotchas?|remember|"
    r"notes? (?:for|to) (?:the )?(?:next time|next iteration|future(?: iterations| me| self)?|self)|for (?:the )?next (?:time|iteration))"
)
_LESSON = re.compile(
    rf"(?:^|\n|(?<=[.!?]\s))[ \t>]*(?:[-*+•]\s+|\d+[.)]\s+)?[*_#]*\s?{_LABEL}[*_]*\s*(?::|–|—| - )[*_]*[ \t]*(?P<said>[^\n]*(?:\n[ \t]*(?:[-*+•]|\d+[.)])[ \t]+[^\n]+)*)",
    re.IGNORECASE,
)
_ITEM = re.compile(r"^[ \t]*(?:[-*+•]|\d+[.)])[ \t]+", re.MULTILINE)
_MOST = 10
_SHORTEST = 12
"""Fewer characters say nothing that is understandable alone."""


def find_statements(record: IterationRecord) -> Iterator[Candidate]:
    """The lessons that the summary and the decisions of an iteration state; each item of a list by itself."""
    told = 0
    texts = (
        record.summary,
        *(one.description for one in record.decisions),
        *(one.rationale or "" for one in record.decisions),
    )
    for said in dict.fromkeys(one for text in texts for one in lessons(text)):
        if told == _MOST:
            return
        if not is_about_excluded_files(said):
            told += 1
            reason = f"stated as a lesson in iteration {record.iteration_number}"
            yield Candidate(fit(said), reason, LearningSource.AGENT, record.iteration_number, record.task_id or None)


def lessons(text: str) -> Iterator[str]:
    """What stands behind each label, without it."""
    for found in _LESSON.finditer(text):
        head, *items = _ITEM.split(found["said"])
        for one in (head, *items):
            said = one.strip(" \t*_\n")
            if len(said) >= _SHORTEST:
                yield said[0].upper() + said[1:]
