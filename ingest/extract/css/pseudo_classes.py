"""Pseudo-classes: which of them say something of a page that lies still, and what of them asks what of an element."""

from __future__ import annotations

import re
from typing import NamedTuple

LISTS = frozenset(("is", "where", "matches", "-webkit-any", "-moz-any"))
AS_ATTRIBUTE = {"checked": "checked", "disabled": "disabled", "open": "open", "required": "required"}
"""Those that hold where the element has an attribute."""
ALWAYS = frozenset(("lang", "dir", "defined", "read-only"))
"""Those that hold, or may hold, for what a person reads."""
_NTH = {
    "first-child": (0, 1, False, False),
    "last-child": (0, 1, True, False),
    "first-of-type": (0, 1, False, True),
    "last-of-type": (0, 1, True, True),
}
_NTH_FUNCTIONS = {
    "nth-child": (False, False),
    "nth-last-child": (True, False),
    "nth-of-type": (False, True),
    "nth-last-of-type": (True, True),
}
_FORMULA = re.compile(r"(?:([+-]?\d*)n)?\s*([+-]?\s*\d+)?")


class Position(NamedTuple):
    """`step`·n + `offset` for some n from 0 on, among siblings, or those of the same tag; from the end or the start."""

    step: int
    offset: int
    from_end: bool
    of_type: bool

    def holds(self, place: int) -> bool:
        """Whether it is the `place`-th, the first being 1."""
        ahead = place - self.offset
        return ahead == 0 if self.step == 0 else ahead % self.step == 0 and ahead // self.step >= 0


def positions_of(name: str, argument: str) -> tuple[Position, ...] | None:
    """What a pseudo-class asks of an element's place among its siblings; None where it asks for something else."""
    if name in _NTH:
        return (Position(*_NTH[name]),)
    if name in ("only-child", "only-of-type"):
        of_type = name == "only-of-type"
        return Position(0, 1, False, of_type), Position(0, 1, True, of_type)
    if name not in _NTH_FUNCTIONS:
        return None
    formula = argument.partition(" of ")[0].strip().lower()
    formula = {"odd": "2n+1", "even": "2n"}.get(formula, formula)
    found = _FORMULA.fullmatch(formula)
    if found is None or not formula:
        return None
    written, offset = found[1], (found[2] or "0").replace(" ", "")
    step = 0 if written is None else int(f"{written}1" if written in ("", "+", "-") else written)
    return (Position(step, int(offset), *_NTH_FUNCTIONS[name]),)
