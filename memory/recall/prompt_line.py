"""Lines of a prompt block, and the cleaning of all text that goes into one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sluice.memory.block_marks import remove_marks
from sluice.memory.ports import Sanitise


@dataclass(frozen=True, slots=True)
class PromptLine:
    """A line, and what of memory it tells."""

    text: str
    learning_ids: tuple[str, ...] = ()
    record_ids: tuple[str, ...] = ()
    agents_own: bool = False
    """Whether it is a decision of the agent: one that decides so again, and succeeds, echoes nothing."""


@dataclass(frozen=True, slots=True)
class PromptSection:
    """A heading and the lines below it, the most important first. `left_out` counts what was not made a line."""

    heading: str
    lines: tuple[PromptLine, ...]
    left_out: int = 0


class Quote:
    """Makes a text of memory a quotation: on one line, sanitised again as rules improve, without a block's marks.

    `withheld` counts what was taken out, by rule.
    """

    def __init__(self, sanitise: Sanitise) -> None:
        self._sanitise = sanitise
        self.withheld: Counter[str] = Counter()

    def __call__(self, text: str, characters: int) -> str | None:
        """The text in typographic quotes, at most `characters` of it; None where nothing of it may be printed."""
        cleaned = self._sanitise(text)
        self.withheld.update(cleaned.cut)
        if cleaned.blocked:
            self.withheld.update({} if cleaned.cut else {"blocked": 1})
            return None
        unmarked, marks = remove_marks(cleaned.text)
        self.withheld.update({"block_mark": marks} if marks else {})
        line = " ".join(unmarked.split()).translate(_INNER_QUOTES)
        if not line:
            return None
        return f"“{line if len(line) <= characters else line[: characters - 1].rstrip() + '…'}”"


_INNER_QUOTES = str.maketrans("“”", '""')
