"""Selectors: what each asks of an element and of those around it.

Read are tags, classes, ids and attributes, alone, combined by the four combinators, and `:root`. A selector that holds
anything else is not followed: it reads as None.

What matches them with elements is ingest/extract/css/cascade.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ingest.extract.css.bounded_cache import kept_if_short

_SELECTOR_PART = re.compile(r"(\s*[>+~]\s*|\s+)|((?:\\.|\[[^\]]*\]|[^\s>+~\[\\])+)|(.)", re.DOTALL)
_SIMPLE = re.compile(
    r"([.#])((?:\\.|[\w-]|[^\x00-\x7f])+)|\[\s*([\w-]+)\s*(?:([~|^$*]?=)\s*(.*?)\s*)?(?:\s[is])?\]|(:root)|(.)"
)
_PLAIN = re.compile(r"[\w\s>+~.#*-]+", re.ASCII)
_COMBINATORS = re.compile(r"[\s>+~]+")
_IDS = re.compile(r"#([\w-]+)", re.ASCII)
_TAG = re.compile(r"(?:[a-zA-Z][\w-]*|\*)")


@dataclass(frozen=True, slots=True)
class Compound:
    """Conditions on one element; `relation` is the combinator to the one before: descendant, `>`, `+` or `~`."""

    tag: str = ""
    ids: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str, str], ...] = ()
    relation: str = " "

    def key(self) -> str:
        """What an element must have, so that no other is looked at."""
        if self.ids:
            return f"#{self.ids[0]}"
        if self.classes:
            return f".{self.classes[0]}"
        return f"[{self.attributes[0][0]}" if self.attributes else self.tag


@dataclass(frozen=True, slots=True)
class Selector:
    """The parts of a selector. `above` is what must be found around an element for it to hold."""

    compounds: tuple[Compound, ...]
    above: frozenset[str]
    specificity: tuple[int, int, int]
    goes_by_names: bool
    """Whether it holds for an element by its name and by the names of those around it, and nothing else."""


class Asked(NamedTuple):
    """`key` is what an element must have for a selector to hold; ids and attributes are those of any part of it."""

    key: str
    ids: Sequence[str] = ()
    attributes: Sequence[str] = ()


@kept_if_short(4_096)
def selector_of(written: str) -> Selector | None:
    """A selector taken apart; None where it holds what is not followed."""
    compounds = _compounds(written)
    if compounds is None:
        return None
    around = (one for one, inner in pairwise(compounds) if inner.relation in (" ", ">"))
    by_names = all(not compound.attributes and compound.relation in (" ", ">") for compound in compounds)
    return Selector(compounds, frozenset(one.key() for one in around) - {""}, _specificity(compounds), by_names)


def asked_by(selector: str) -> Asked | None:
    """What a selector asks for; None where it holds what is not followed.

    Those of plain names are not taken apart for that.
    """
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
    """Whether an element that has these `keys` is what `compound` asks for, attributes aside."""
    if compound.tag and compound.tag not in keys:
        return False
    return all(f".{one}" in keys for one in compound.classes) and all(f"#{one}" in keys for one in compound.ids)


def attribute_holds(actual: str | None, sign: str, wanted: str) -> bool:
    """Whether an attribute is as `sign` and `wanted` ask; `actual` is None where the element has none."""
    if actual is None or not sign:
        return actual is not None
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
    """The parts of a selector; None where it holds what is not followed."""
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


def _compound(written: str, relation: str) -> Compound | None:
    tag = _TAG.match(written)
    ids: list[str] = []
    classes: list[str] = []
    attributes: list[tuple[str, str, str]] = []
    name = tag[0].lower() if tag and tag[0] != "*" else ""
    for kind, value, attribute, sign, wanted, root, other in _SIMPLE.findall(written[tag.end() if tag else 0 :]):
        if other or (root and name):
            return None
        if root:
            name = "html"
        elif kind:
            (ids if kind == "#" else classes).append(re.sub(r"\\(.)", r"\1", value))
        else:
            attributes.append((attribute.lower(), sign, wanted.strip("\"'")))
    return Compound(name, tuple(ids), tuple(classes), tuple(attributes), relation)


def _specificity(compounds: tuple[Compound, ...]) -> tuple[int, int, int]:
    """Selectors Level 4, section 17."""
    ids = sum(len(compound.ids) for compound in compounds)
    classes = sum(len(compound.classes) + len(compound.attributes) for compound in compounds)
    return ids, classes, sum(bool(compound.tag) for compound in compounds)
