"""Applies a page's own styles as a browser does, to find the parts that they hide.

It applies the rules of the page's sheets (ingest/extract/css/style_sheet.py) to the elements that their selectors
(ingest/extract/css/selectors.py) match, by importance, specificity and order, and inheritance
(ingest/extract/css/computed_style.py). States such as `:hover` and style sheets elsewhere are not followed.

Costs nothing for a page without such styles; a page that needs more than `MOST_STEPS` comparisons is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract.css.computed_style import BLACK_ON_WHITE, Look, Style, styled
from sluice.ingest.extract.css.selectors import Compound, Position, Test, attribute_holds, fits
from sluice.ingest.extract.css.style_sheet import Rule, rule_of, sheet_of
from sluice.ingest.extract.css.visibility import declarations, is_unreadable, takes_away
from sluice.ingest.extract.html.nodes import Nodes

MOST_STEPS = 20_000_000
"""Comparisons of selectors with elements: some seconds. A large page with a large style sheet takes a tenth."""
_MOST_NAMES = 300
"""Most names of surrounding elements that are kept: a page has some fifty."""
_Name = tuple[str, str | None, str | None, tuple[str, ...]]
"""Tag, class as written, and the id and attributes that a rule tests."""
_Key = tuple[object, ...]


@dataclass(slots=True)
class _Place:
    """Elements with equal names below elements with equal names: a page of a thousand elements has some fifty."""

    look: Look
    hides_text: bool
    is_hidden: bool = False
    names: frozenset[str] | None = frozenset()
    """Keys of the element and its ancestors that selectors may test; None if they are too many to keep."""
    below: dict[_Key, _Place] = field(default_factory=dict)


class Cascade:
    """The styles of one page. Call `hides` in page order, and never for nodes within a hidden element."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        sheet = sheet_of(nodes)
        self._rules, self._ids, self._attributes, self.is_needed = sheet
        self._steps = 0
        self._candidates: dict[_Name, tuple[list[Rule], bool]] = {}
        self._keys: dict[_Name, frozenset[str]] = {}
        self._classes: dict[str, frozenset[str]] = {}
        self._siblings: list[int] | None = None
        self._positions: dict[tuple[bool, bool], list[int]] | None = None
        first = Look() if _is_styled_elsewhere(nodes) else BLACK_ON_WHITE
        self._first = _Place(first, hides_text=False)
        self._places: list[_Place] = [self._first] * (len(nodes) if self.is_needed else 0)

    def hides(self, node: int) -> bool:
        """Return whether an element hides all in it or a text is unreadable. Raises InvalidInput past `MOST_STEPS`."""
        parent = self._nodes.parents[node]
        around = self._places[parent] if parent >= 0 else self._first
        tag = self._nodes.tags[node]
        if not tag:
            return around.hides_text
        attributes = self._nodes.attributes[node]
        get = attributes.get
        identity, own = get("id"), get("style")
        asked = self._asked_of(attributes) if self._attributes else ()
        name = (tag, get("class"), identity if identity in self._ids else None, asked)
        place = around.below.get((name, own))
        if place is None:
            place = self._place(node, around, name, own)
        self._places[node] = place
        return place.is_hidden

    def _asked_of(self, attributes: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(sorted(self._attributes.intersection(attributes))) if attributes else ()

    def _place(self, node: int, around: _Place, name: _Name, own: str | None) -> _Place:
        """Return an element's place: a known one if its name alone settles it, else one for its matching rules."""
        candidates, go_by_names = self._candidates_of(name)
        rules = self._matching(node, candidates, around.names)
        key: _Key = (name, own) if go_by_names else (name, own, tuple(rule.rank for rule in rules))
        place = around.below.get(key)
        if place is None:
            place = around.below[key] = _placed(around, _style(rules, own), name[0])
            if around.names is None or len(around.names) > _MOST_NAMES:
                place.names = None
            else:
                place.names = around.names.union(self._keys_of(name))
        return place

    def _matching(self, node: int, candidates: Sequence[Rule], names: frozenset[str] | None) -> Sequence[Rule]:
        """Return the rules that match an element with these ancestor `names`, the weightiest last."""
        self._step(len(candidates))
        found = [
            rule
            for rule in candidates
            if (names is None or rule.selector.above <= names)
            and self._matches(node, rule.selector.compounds, len(rule.selector.compounds) - 1)
        ]
        return sorted(found, key=lambda rule: rule.rank) if len(found) > 1 else found

    def _candidates_of(self, name: _Name) -> tuple[list[Rule], bool]:
        """Return the rules whose last part `name` satisfies, and whether names settle them all."""
        found = self._candidates.get(name)
        if found is None:
            keys = self._keys_of(name)
            declared = [one for key in ("", *keys) for one in self._rules.get(key, ())]
            self._step(len(declared))
            rules = [rule for one in declared if (rule := rule_of(one)) and fits(keys, rule.selector.compounds[-1])]
            found = self._candidates[name] = rules, all(rule.selector.goes_by_names for rule in rules)
        return found

    def _keys_of(self, name: _Name) -> frozenset[str]:
        """Return the keys of an element of that name that a selector may test."""
        found = self._keys.get(name)
        if found is None:
            tag, written, identity, asked = name
            keys = {tag, *(f".{part}" for part in self._names_in(written or "")), *(f"[{one}" for one in asked)}
            found = self._keys[name] = frozenset(keys | {f"#{identity}"} if identity else keys)
        return found

    def _step(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise InvalidInput("body", "its style sheets ask for too many comparisons", "send the page without them")

    def _matches(self, node: int, compounds: tuple[Compound, ...], last: int) -> bool:
        """Match from right to left, the nearest candidate first; only a descendant's ancestor may be tried again."""
        self._step(1)
        compound = compounds[last]
        if not self._is(node, compound):
            return False
        if last == 0:
            return True
        if compound.relation == ">":
            parent = self._nodes.parents[node]
            return parent >= 0 and self._matches(parent, compounds, last - 1)
        if compound.relation == "+":
            before = self._sibling(node)
            return before >= 0 and self._matches(before, compounds, last - 1)
        step = self._sibling if compound.relation == "~" else self._nodes.parents.__getitem__
        candidate = step(node)
        while candidate >= 0:
            if self._matches(candidate, compounds, last - 1):
                return True
            candidate = step(candidate)
        return False

    def _is(self, node: int, compound: Compound) -> bool:
        if compound.tag and self._nodes.tags[node] != compound.tag:
            return False
        attributes = self._nodes.attributes[node]
        for name, sign, value in compound.attributes:
            if not attribute_holds(attributes.get(name), sign, value):
                return False
        for identity in compound.ids:
            if attributes.get("id") != identity:
                return False
        if compound.classes and not self._names_in(attributes.get("class") or "").issuperset(compound.classes):
            return False
        return all(self._passes(node, test) for test in compound.tests)

    def _passes(self, node: int, test: Test) -> bool:
        nodes = self._nodes
        self._step(len(test.alternatives))
        match test.kind:
            case "position":
                return test.position is not None and test.position.holds(self._place_among(node, test.position))
            case "empty":
                return nodes.ends[node] == node + 1
            case "has":
                self._step(nodes.ends[node] - node)
                return any(
                    nodes.tags[within]
                    and (one.relation == " " or nodes.parents[within] == node)
                    and self._is(within, one)
                    for within in range(node + 1, nodes.ends[node])
                    for one in test.alternatives
                )
        return any(self._is(node, one) for one in test.alternatives) == (test.kind == "is")

    def _place_among(self, node: int, position: Position) -> int:
        """Return the 1-based place of an element among its siblings."""
        if self._positions is None:
            self._positions = _positions_of(self._nodes)
        return self._positions[position.of_type, position.from_end][node]

    def _names_in(self, written: str) -> frozenset[str]:
        if written not in self._classes:
            self._classes[written] = frozenset(written.split())
        return self._classes[written]

    def _sibling(self, node: int) -> int:
        """Return the element before `node` in its parent; -1 for the first."""
        if self._siblings is None:
            last: dict[int, int] = {}
            self._siblings = []
            for number, tag in enumerate(self._nodes.tags):
                parent = self._nodes.parents[number]
                self._siblings.append(last.get(parent, -1))
                if tag:
                    last[parent] = number
        return self._siblings[node]


def _positions_of(nodes: Nodes) -> dict[tuple[bool, bool], list[int]]:
    """Return the places of elements among their siblings, by (of the same tag, counted from the end)."""
    found: dict[tuple[bool, bool], list[int]] = {}
    for of_type in (False, True):
        counts: dict[tuple[int, str], int] = {}
        places = [0] * len(nodes)
        for node, tag in enumerate(nodes.tags):
            if tag:
                group = nodes.parents[node], tag if of_type else ""
                counts[group] = places[node] = counts.get(group, 0) + 1
        found[of_type, False] = places
        found[of_type, True] = [
            counts[nodes.parents[node], tag if of_type else ""] + 1 - places[node] if tag else 0
            for node, tag in enumerate(nodes.tags)
        ]
    return found


def _is_styled_elsewhere(nodes: Nodes) -> bool:
    return any(
        tag == "link" and "stylesheet" in (nodes.attributes[node].get("rel") or "").lower()
        for node, tag in enumerate(nodes.tags)
    )


def _style(rules: Sequence[Rule], own: str | None) -> Style:
    """Combine `rules`, the weightiest last, and a style attribute."""
    if not rules:
        return _inline(own) if own else {}
    found: dict[str, str] = {}
    important: dict[str, str] = {}
    for rule in rules:
        for name, value, is_important in rule.style:
            (important if is_important else found)[name] = value
    found.update(_inline(own) if own else ())
    return found | important


def _inline(style: str) -> Style:
    """Return a style attribute by property; of two values the hiding one, as a page may serve us a different one."""
    found: dict[str, str] = {}
    for name, value, _ in declarations(style):
        kept = found.get(name)
        if kept is None or not (takes_away(name, kept) or is_unreadable(name, kept)):
            found[name] = value
    return found


def _placed(around: _Place, style: Style, tag: str) -> _Place:
    if not style:
        return _Place(around.look, around.hides_text)
    found = styled(around.look, tuple(style.items()), tag in ("html", "body"))
    return _Place(around.look, hides_text=True, is_hidden=True) if found is None else _Place(*found)
