"""Parses selectors into conditions on an element and its surroundings; ingest/extract/css/cascade.py matches them.

Supported are tags, classes, ids and attributes, alone, combined by the four combinators, and the pseudo-classes of a
static page. A selector with anything else, such as a state caused by a reader's action, parses as None: it is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from sluice.ingest.extract.css.bounded_cache import kept_if_short
from sluice.ingest.extract.css.colours import split_at_commas
from sluice.ingest.extract.css.visibility import ESCAPE, unescaped

LISTS = frozenset(("is", "where", "matches", "-webkit-any", "-moz-any"))
AS_ATTRIBUTE = {"checked": "checked", "disabled": "disabled", "open": "open", "required": "required"}
"""Pseudo-classes that hold if the element has an attribute."""
ALWAYS = frozenset(("lang", "dir", "defined", "read-only"))
"""Pseudo-classes that hold, or may hold, for text that a person reads."""
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
    """Place `step`·n + `offset` for some n from 0 on, among all siblings or those of one tag, from either end."""

    step: int
    offset: int
    from_end: bool
    of_type: bool

    def holds(self, place: int) -> bool:
        """Return whether the `place`-th sibling, counted from 1, matches."""
        ahead = place - self.offset
        return ahead == 0 if self.step == 0 else ahead % self.step == 0 and ahead // self.step >= 0


def positions_of(name: str, argument: str) -> tuple[Position, ...] | None:
    """Return a pseudo-class's conditions on the place among siblings; None if it tests something else."""
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


_BRACKETS = r"\((?>(?:[^()]++|\((?>(?:[^()]++|\([^()]*+\))*)\))*)\)"
_MOST_BRACKETS = 16
_SELECTOR_PART = re.compile(rf"(\s*[>+~]\s*|\s+)|((?:\\.|\[[^\]]*\]|{_BRACKETS}|[^\s>+~\[\\()])+)|(.)", re.DOTALL)
_SIMPLE = re.compile(
    r"([.#])((?:\\.|[\w-]|[^\x00-\x7f])+)|\[\s*([\w-]+)\s*(?:([~|^$*]?=)\s*(.*?)\s*)?(\s[is])?\s*\]"
    rf"|(:[\w-]+)({_BRACKETS})?|(.)",
    re.DOTALL,
)
_NAMESPACE = re.compile(r"[\w*-]*\|(?!=)")
_MAY_HOLD = re.compile(rf":(?:{'|'.join(sorted(ALWAYS))})\b")
_MOST_ALTERNATIVES, _MOST_NESTED = 20, 4
_PLAIN = re.compile(r"[\w\s>+~.#*-]+", re.ASCII)
_COMBINATORS = re.compile(r"[\s>+~]+")
_IDS = re.compile(r"#([\w-]+)", re.ASCII)
_TAG = re.compile(r"(?:[a-zA-Z][\w-]*|\*)")


@dataclass(frozen=True, slots=True)
class Test:
    """Test of a pseudo-class: place among siblings, emptiness, or `alternatives`: one, none, or one inside matches."""

    kind: Literal["position", "empty", "is", "not", "has"]
    position: Position | None = None
    alternatives: tuple[Compound, ...] = ()


@dataclass(frozen=True, slots=True)
class Compound:
    """Conditions on one element; `relation` is the combinator to the one before: descendant, `>`, `+` or `~`."""

    tag: str = ""
    ids: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str, str], ...] = ()
    relation: str = " "
    tests: tuple[Test, ...] = ()
    weight: tuple[int, int, int] = (0, 0, 0)
    """The specificity that `tests` add."""

    def key(self) -> str:
        """Return a key that an element must have, so that others are skipped: `#id`, `.class`, `[attribute` or tag."""
        if self.ids:
            return f"#{self.ids[0]}"
        if self.classes:
            return f".{self.classes[0]}"
        return f"[{self.attributes[0][0]}" if self.attributes else self.tag


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector. `above` holds keys that the element's ancestors must have."""

    compounds: tuple[Compound, ...]
    above: frozenset[str]
    specificity: tuple[int, int, int]
    goes_by_names: bool
    """Whether tags, ids and classes of an element and its ancestors alone decide the match."""


class Asked(NamedTuple):
    """Requirements of a selector: the `key` that an element needs, and the ids and attributes that its parts name."""

    key: str
    ids: Sequence[str] = ()
    attributes: Sequence[str] = ()


@kept_if_short(4_096)
def selector_of(written: str) -> Selector | None:
    """Parse a selector; None if it has unsupported parts."""
    compounds = _compounds(written)
    if compounds is None:
        return None
    around = (one for one, inner in pairwise(compounds) if inner.relation in (" ", ">"))
    by_names = all(one.relation in (" ", ">") and not one.attributes and not one.tests for one in compounds)
    return Selector(compounds, frozenset(one.key() for one in around) - {""}, _specificity(compounds), by_names)


def asked_by(selector: str) -> Asked | None:
    """Return a selector's requirements; None if parts are unsupported. Selectors of plain names are not parsed."""
    if _PLAIN.fullmatch(selector):
        last = next(filter(None, reversed(_COMBINATORS.split(selector))), "")
        if "#" not in selector:
            return Asked(_class_or_tag(last))
        ids = _IDS.findall(last)
        return Asked(f"#{ids[0]}" if ids else _class_or_tag(last), _IDS.findall(selector))
    parsed = selector_of(selector)
    if parsed is None:
        return None
    ids = [one for part in parsed.compounds for one in part.ids]
    return Asked(parsed.compounds[-1].key(), ids, [name for part in parsed.compounds for name, _, _ in part.attributes])


def fits(keys: frozenset[str], compound: Compound) -> bool:
    """Return whether an element with these `keys` satisfies `compound`, attributes aside."""
    if compound.tag and compound.tag not in keys:
        return False
    return all(f".{one}" in keys for one in compound.classes) and all(f"#{one}" in keys for one in compound.ids)


def attribute_holds(actual: str | None, sign: str, wanted: str) -> bool:
    """Return whether an attribute satisfies `sign` and `wanted`; `actual` is None if the element lacks it."""
    if actual is None or not sign:
        return actual is not None
    if sign.endswith("i"):
        return attribute_holds(actual.lower(), sign[:-1], wanted.lower())
    match sign:
        case "=":
            return actual == wanted
        case "~=":
            return wanted in actual.split()
        case "|=":
            return actual == wanted or actual.startswith(f"{wanted}-")
        case "^=":
            return bool(wanted) and actual.startswith(wanted)
        case "$=":
            return bool(wanted) and actual.endswith(wanted)
        case _:
            return bool(wanted) and wanted in actual


def _class_or_tag(compound: str) -> str:
    tag, dot, classes = compound.partition(".")
    return f".{classes.partition('.')[0]}" if dot else tag.lower().replace("*", "")


def _compounds(selector: str) -> tuple[Compound, ...] | None:
    """Return the parts of a selector; None if some are unsupported."""
    if selector.count("(") > _MOST_BRACKETS:
        return None
    found: list[Compound] = []
    relation = " "
    for combinator, written, other in _SELECTOR_PART.findall(selector.strip()):
        if other:
            return None
        if combinator:
            relation = combinator.strip() or " "
            continue
        compound = _compound(written, relation)
        if compound is None:
            return None
        found.append(compound)
        relation = " "
    return tuple(found) if 0 < len(found) <= 12 else None


def _compound(written: str, relation: str, nested: int = 0) -> Compound | None:
    written = _NAMESPACE.sub("", written, count=1) if "|" in written.partition("[")[0] else written
    tag = _TAG.match(written)
    ids: list[str] = []
    classes: list[str] = []
    attributes: list[tuple[str, str, str]] = []
    tests: list[Test] = []
    weights: list[tuple[int, int, int]] = []
    name = tag[0].lower() if tag and tag[0] != "*" else ""
    for kind, value, attribute, sign, wanted, flag, pseudo, argument, other in _SIMPLE.findall(
        written[tag.end() if tag else 0 :]
    ):
        if other:
            return None
        if kind:
            (ids if kind == "#" else classes).append(ESCAPE.sub(unescaped, value))
        elif attribute:
            signed = sign and sign + flag.strip().replace("s", "")
            attributes.append((attribute.lower(), signed, wanted.strip("\"'")))
        elif pseudo in (":root", ":scope"):
            if name not in ("", "html"):
                return None
            name = "html"
        elif pseudo in (":link", ":any-link"):
            name = name or "a"
            attributes.append(("href", "", ""))
        elif pseudo[1:] in AS_ATTRIBUTE:
            attributes.append((AS_ATTRIBUTE[pseudo[1:]], "", ""))
        else:
            found = _tests_of(pseudo[1:].lower(), argument[1:-1].strip(), nested)
            if found is None:
                return None
            tests += found[0]
            weights.append(found[1])
    weight = (sum(one[0] for one in weights), sum(one[1] for one in weights), sum(one[2] for one in weights))
    return Compound(name, tuple(ids), tuple(classes), tuple(attributes), relation, tuple(tests), weight)


def _tests_of(name: str, argument: str, nested: int) -> tuple[list[Test], tuple[int, int, int]] | None:
    """Return the tests of a pseudo-class, and its weight; None if it never holds or is not supported."""
    if (positions := positions_of(name, argument)) is not None:
        return [Test("position", position) for position in positions], (0, 1, 0)
    if name == "empty":
        return [Test("empty")], (0, 1, 0)
    if name in ALWAYS:
        return [], (0, 1, 0)
    if nested >= _MOST_NESTED or not (name in LISTS or name in ("not", "has")):
        return None
    alternatives: list[Compound] = []
    for one in split_at_commas(argument)[:_MOST_ALTERNATIVES]:
        if name == "not" and _MAY_HOLD.search(one):
            continue
        relation = ">" if name == "has" and one.startswith(">") else " "
        parts = _SELECTOR_PART.findall(one.removeprefix(">").strip())
        compound = _compound(parts[0][1], relation, nested + 1) if len(parts) == 1 and parts[0][1] else None
        if compound is not None:
            alternatives.append(compound)
    if name == "not":
        return ([Test("not", alternatives=tuple(alternatives))] if alternatives else []), _heaviest(alternatives)
    if not alternatives:
        return None
    weight = (0, 0, 0) if name == "where" else _heaviest(alternatives)
    return [Test("has" if name == "has" else "is", alternatives=tuple(alternatives))], weight


def _heaviest(compounds: Sequence[Compound]) -> tuple[int, int, int]:
    return max((_specificity((compound,)) for compound in compounds), default=(0, 0, 0))


def _specificity(compounds: tuple[Compound, ...]) -> tuple[int, int, int]:
    """Return the specificity (Selectors Level 4, section 17)."""
    ids = sum(len(compound.ids) + compound.weight[0] for compound in compounds)
    classes = sum(len(compound.classes) + len(compound.attributes) + compound.weight[1] for compound in compounds)
    return ids, classes, sum(bool(compound.tag) + compound.weight[2] for compound in compounds)
