"""Which parts of a page its own styles hide: `<style>` elements and style attributes, as a browser adds them up.

Heeded are selectors of elements, classes, ids and attributes, alone, combined and in lists; the four combinators;
nested rules; importance, specificity and order; `@media` for a screen of `SCREEN_PIXELS`; `@supports` and `@layer`.
Inherited are visibility, the size of a font, and the colours of text and ground: text whose contrast to its ground is
less than `LEAST_CONTRAST` is not read by anyone. A colour or ground that is computed, painted by an image or left
to a style sheet elsewhere is not known, and nothing is concluded from it. Pseudo-classes, `@import` and
style sheets elsewhere are not followed.

Costs nothing for a page without such styles; a page that asks for more than `MOST_STEPS` comparisons is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from tinycss2 import color4

from contracts.errors import InvalidInput
from ingest.extraction.inline_style import WATCHED, declarations, is_unreadable, takes_away
from ingest.extraction.kept import kept_if_short
from ingest.extraction.nodes import Nodes

SCREEN_PIXELS = 1_280
LEAST_CONTRAST = 1.1
"""Of text to its ground (WCAG 2.2, "contrast ratio": 1 to 21); 3 is the least that is called readable."""
MOST_STEPS = 20_000_000
"""Comparisons of selectors with elements: some seconds. A large page with a large style sheet takes a tenth."""
MOST_CSS_CHARS = 2_000_000
"""Of all style elements together."""

_MENTIONS = re.compile(
    r"display|visibility|opacity|font|indent|clip|color|transform|translate|scale|position|width|height|margin|filter|inset|\\",
    re.IGNORECASE,
)
_PIECE = re.compile(
    r"([^{}\"'/\\]*+)\{([^{}\"'/\\]*+)\}|([^{}\"'/\\]++)|"
    r"\"(?:\\.|[^\"\\\n])*+\"?|'(?:\\.|[^'\\\n])*+'?|/\*.*?(?:\*/|\Z)|\\.|.",
    re.DOTALL,
)
"""A whole rule of the usual kind, other text, a string, a comment, an escape, or one sign."""
_STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?", re.DOTALL)
_SELECTOR_PART = re.compile(r"(\s*[>+~]\s*|\s+)|((?:\\.|\[[^\]]*\]|[^\s>+~\[\\])+)|(.)", re.DOTALL)
_SIMPLE = re.compile(
    r"([.#])((?:\\.|[\w-]|[^\x00-\x7f])+)|\[\s*([\w-]+)\s*(?:([~|^$*]?=)\s*(.*?)\s*)?(?:\s[is])?\]|(:root)|(.)"
)
_PLAIN = re.compile(r"[\w\s>+~.#*-]+", re.ASCII)
_COMBINATORS = re.compile(r"[\s>+~]+")
_IDS = re.compile(r"#([\w-]+)", re.ASCII)
_TAG = re.compile(r"(?:[a-zA-Z][\w-]*|\*)")
_FEATURE = re.compile(r"\(\s*(min|max)-width\s*:\s*([\d.]+)(px|em|rem)\s*\)")
_AT_TAKEN = ("@supports", "@layer", "@container", "@scope", "@starting-style")
_RELATIVE_SIZE = re.compile(r"(?:[\d.]+(?:em|%|ex|ch)|smaller|larger|inherit|unset)$")
_MOST_PAIRS = 10_000
_MOST_SELECTOR_CHARS = 1_000
_MOST_NAMES = 300
"""Of all elements around one that are kept: a page has some fifty."""
_MOST_KEPT_CHARS = 100_000
"""Of styles whose rules are kept, which take some twenty times as many bytes."""
_ANYWHERE = [""]
_COLOURS = ("color", "background", "background-color")
_WHITE, _BLACK = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
_Colour = tuple[float, float, float]
_Style = Mapping[str, str]
_Name = tuple[str, str | None, str | None]
"""Tag, class as it is written, and id where a rule asks for it."""
_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Compound:
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
        return f".{self.classes[0]}" if self.classes else self.tag


@dataclass(frozen=True, slots=True)
class _Selector:
    """The parts of a selector. `above` is what must be found around an element for it to hold."""

    compounds: tuple[_Compound, ...]
    above: frozenset[str]
    specificity: tuple[int, int, int]
    goes_by_names: bool
    """Whether it holds for an element by its name and by the names of those around it, and nothing else."""


@dataclass(frozen=True, slots=True)
class _Declared:
    """What one selector declares, as it is written, and its place: most are for elements that the page has not."""

    selector: str
    style: tuple[tuple[str, str, bool], ...]
    place: int


@dataclass(frozen=True, slots=True)
class _Rule:
    """What one selector declares; `rank` is its specificity and its place."""

    selector: _Selector
    style: tuple[tuple[str, str, bool], ...]
    rank: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Look:
    """What an element hands down to what is in it. Colours are None where they are not known."""

    is_invisible: bool = False
    is_tiny: bool = False
    is_clear: bool = False
    is_filled_clear: bool = False
    ink: _Colour | None = None
    ground: _Colour | None = None

    def hides_text(self) -> bool:
        if self.is_invisible or self.is_tiny or self.is_clear or self.is_filled_clear:
            return True
        return self.ink is not None and self.ground is not None and _contrast(self.ink, self.ground) < LEAST_CONTRAST


@dataclass(slots=True)
class _Place:
    """Elements that are named alike, below elements that are named alike: a page of a thousand has some fifty."""

    look: _Look
    hides_text: bool
    is_hidden: bool = False
    names: frozenset[str] | None = frozenset()
    """What the element and those around it have that a selector may ask for; None where that is too much to keep."""
    below: dict[_Key, _Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The rules of a page that matter, by what their last part asks for, and the ids that any part of them names."""

    rules: Mapping[str, Sequence[_Declared]]
    ids: frozenset[str]
    is_needed: bool


class Cascade:
    """The styles of one page. `hides` is to be asked in the order of the page, and of nothing within what is hidden."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        styles = (attributes.get("style") for attributes in nodes.attributes if attributes)
        inline = frozenset(style for style in styles if style)
        sheet = _prepared(tuple(_sheets_of(nodes)), inline)
        self._rules, self._ids, self.is_needed = sheet.rules, sheet.ids, sheet.is_needed
        self._steps = 0
        self._candidates: dict[_Name, tuple[list[_Rule], bool]] = {}
        self._keys: dict[_Name, frozenset[str]] = {}
        self._classes: dict[str, frozenset[str]] = {}
        self._siblings: list[int] | None = None
        first = _Look() if _is_styled_elsewhere(nodes) else _Look(ink=_BLACK, ground=_WHITE)
        self._first = _Place(first, hides_text=False)
        self._places: list[_Place] = [self._first] * (len(nodes) if self.is_needed else 0)

    def hides(self, node: int) -> bool:
        """Whether an element takes what is in it out of sight, or a text cannot be read.

        Raises InvalidInput after more than `MOST_STEPS` comparisons.
        """
        parent = self._nodes.parents[node]
        around = self._places[parent] if parent >= 0 else self._first
        tag = self._nodes.tags[node]
        if not tag:
            return around.hides_text
        get = self._nodes.attributes[node].get
        identity, own = get("id"), get("style")
        name = (tag, get("class"), identity if identity in self._ids else None)
        place = around.below.get((name, own))
        if place is None:
            place = self._place(node, around, name, own)
        self._places[node] = place
        return place.is_hidden

    def _place(self, node: int, around: _Place, name: _Name, own: str | None) -> _Place:
        """The place of an element: a known one where only its name could tell, else one for the rules that hold."""
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

    def _matching(self, node: int, candidates: Sequence[_Rule], names: frozenset[str] | None) -> Sequence[_Rule]:
        """Those that hold for an element among such `names`, the weightiest last."""
        self._step(len(candidates))
        found = [
            rule
            for rule in candidates
            if (names is None or rule.selector.above <= names)
            and self._matches(node, rule.selector.compounds, len(rule.selector.compounds) - 1)
        ]
        return sorted(found, key=lambda rule: rule.rank) if len(found) > 1 else found

    def _candidates_of(self, name: _Name) -> tuple[list[_Rule], bool]:
        """The rules whose last part asks for nothing but what `name` says, and whether names settle them all."""
        found = self._candidates.get(name)
        if found is None:
            keys = self._keys_of(name)
            declared = [one for key in ("", *keys) for one in self._rules.get(key, ())]
            self._step(len(declared))
            rules = [rule for one in declared if (rule := _rule(one)) and _has(keys, rule.selector.compounds[-1])]
            found = self._candidates[name] = rules, all(rule.selector.goes_by_names for rule in rules)
        return found

    def _keys_of(self, name: _Name) -> frozenset[str]:
        """What an element of that name has that a selector may ask for."""
        found = self._keys.get(name)
        if found is None:
            tag, written, identity = name
            keys = {tag, *(f".{part}" for part in self._names_in(written or ""))}
            found = self._keys[name] = frozenset(keys | {f"#{identity}"} if identity else keys)
        return found

    def _step(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise InvalidInput("body", "its style sheets ask for too many comparisons", "send the page without them")

    def _matches(self, node: int, compounds: tuple[_Compound, ...], last: int) -> bool:
        """From right to left, the nearest candidate first; only a descendant's ancestor may be tried again."""
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

    def _is(self, node: int, compound: _Compound) -> bool:
        if compound.tag and self._nodes.tags[node] != compound.tag:
            return False
        attributes = self._nodes.attributes[node]
        if compound.ids and any(attributes.get("id") != identity for identity in compound.ids):
            return False
        if compound.classes and not self._names_in(attributes.get("class") or "").issuperset(compound.classes):
            return False
        return all(_holds(attributes.get(name), sign, value) for name, sign, value in compound.attributes)

    def _names_in(self, written: str) -> frozenset[str]:
        if written not in self._classes:
            self._classes[written] = frozenset(written.split())
        return self._classes[written]

    def _sibling(self, node: int) -> int:
        """The element before `node` in its parent; -1 for the first."""
        if self._siblings is None:
            last: dict[int, int] = {}
            self._siblings = []
            for number, tag in enumerate(self._nodes.tags):
                parent = self._nodes.parents[number]
                self._siblings.append(last.get(parent, -1))
                if tag:
                    last[parent] = number
        return self._siblings[node]


def _is_styled_elsewhere(nodes: Nodes) -> bool:
    return any(
        tag == "link" and "stylesheet" in (nodes.attributes[node].get("rel") or "").lower()
        for node, tag in enumerate(nodes.tags)
    )


def _sheets_of(nodes: Nodes) -> Iterator[str]:
    """The style sheets within the page that could hide something."""
    room = MOST_CSS_CHARS
    for node, tag in enumerate(nodes.tags):
        if tag != "style" or "print" in (nodes.attributes[node].get("media") or ""):
            continue
        sheet = "".join(nodes.texts[node : nodes.ends[node]])[:room]
        room -= len(sheet)
        if _MENTIONS.search(sheet):
            yield sheet


def _prepared(sheets: tuple[str, ...], inline: frozenset[str]) -> _Sheet:
    """What the sheets of a page with these style attributes come to.

    Kept for some pages, as those of a site are styled alike and come one after the other.
    """
    is_short = sum(map(len, sheets)) + sum(map(len, inline)) <= _MOST_KEPT_CHARS
    return _kept_sheet(sheets, inline) if is_short else _sheet(tuple(_rules_of(sheets)), inline)


@lru_cache(maxsize=16)
def _kept_sheet(sheets: tuple[str, ...], inline: frozenset[str]) -> _Sheet:
    return _sheet(_kept_rules(sheets), inline)


@lru_cache(maxsize=16)
def _kept_rules(sheets: tuple[str, ...]) -> tuple[_Declared, ...]:
    return tuple(_rules_of(sheets))


def _sheet(rules: Sequence[_Declared], inline: frozenset[str]) -> _Sheet:
    hiding = _hiding_names(rules, inline) if rules or inline else frozenset()
    by_key: dict[str, list[_Declared]] = {}
    ids: set[str] = set()
    for rule in rules:
        style = tuple(declared for declared in rule.style if declared[0] in hiding)
        if style and (named := _named(rule.selector)):
            key, of_selector = named
            by_key.setdefault(key, []).append(_Declared(rule.selector, style, rule.place))
            ids.update(of_selector)
    return _Sheet(by_key, frozenset(ids), bool(hiding))


def _rules_of(sheets: Iterable[str]) -> Iterator[_Declared]:
    place = 0
    for sheet in sheets:
        for selectors, body in _blocks(sheet):
            plain = _STRING.sub('""', body) if '"' in body or "'" in body else body
            style = tuple(found for found in declarations(plain) if found[0] in WATCHED)
            if not style:
                continue
            for selector in selectors:
                place += 1
                yield _Declared(selector[:_MOST_SELECTOR_CHARS], style, place)


def _rule(declared: _Declared) -> _Rule | None:
    """None where its selector holds what is not followed."""
    selector = _selector(declared.selector)
    return _Rule(selector, declared.style, (*selector.specificity, declared.place)) if selector else None


def _named(selector: str) -> tuple[str, Sequence[str]] | None:
    """What an element must have for a selector to hold, and the ids in it; None where it holds what is not followed.

    Those of plain names are not taken apart for that.
    """
    if _PLAIN.fullmatch(selector):
        last = next(filter(None, reversed(_COMBINATORS.split(selector))), "")
        if "#" in selector:
            ids = _IDS.findall(selector)
            return (f"#{ids[-last.count('#')]}" if "#" in last else _class_or_tag(last)), ids
        return _class_or_tag(last), ()
    parsed = _selector(selector)
    if parsed is None:
        return None
    return parsed.compounds[-1].key(), [one for part in parsed.compounds for one in part.ids]


def _class_or_tag(compound: str) -> str:
    tag, dot, classes = compound.partition(".")
    return f".{classes.partition('.')[0]}" if dot else tag.lower().replace("*", "")


@kept_if_short(4_096)
def _selector(written: str) -> _Selector | None:
    compounds = _compounds(written)
    if compounds is None:
        return None
    around = (one for one, inner in pairwise(compounds) if inner.relation in (" ", ">"))
    by_names = all(not compound.attributes and compound.relation in (" ", ">") for compound in compounds)
    return _Selector(compounds, frozenset(one.key() for one in around) - {""}, _specificity(compounds), by_names)


def _has(keys: frozenset[str], compound: _Compound) -> bool:
    """Whether an element that has these `keys` is what `compound` asks for, attributes aside."""
    if compound.tag and compound.tag not in keys:
        return False
    return all(f".{one}" in keys for one in compound.classes) and all(f"#{one}" in keys for one in compound.ids)


def _hiding_names(rules: Sequence[_Declared], inline: Iterable[str]) -> frozenset[str]:
    """The properties that hide somewhere on the page; those of colour only where two of them look alike."""
    declared = {(name, value) for rule in rules for name, value, _ in rule.style}
    declared.update((name, value) for style in inline for name, value, _ in declarations(style) if name in WATCHED)
    hiding = {name for name, value in declared if _hides(name, value)}
    if "color" in hiding or _some_look_alike(declared):
        hiding.update(_COLOURS)
    if "font" in hiding or "font-size" in hiding:
        hiding.update(("font", "font-size"))
    return frozenset(hiding)


def _style(rules: Sequence[_Rule], own: str | None) -> _Style:
    """What `rules`, the weightiest last, and a style attribute come to."""
    if not rules:
        return _inline(own) if own else {}
    found: dict[str, str] = {}
    important: dict[str, str] = {}
    for rule in rules:
        for name, value, is_important in rule.style:
            (important if is_important else found)[name] = value
    found.update(_inline(own) if own else ())
    return found | important


def _placed(around: _Place, style: _Style, tag: str) -> _Place:
    if not style:
        return _Place(around.look, around.hides_text)
    styled = _styled(around.look, tuple(style.items()), tag in ("html", "body"))
    return _Place(around.look, hides_text=True, is_hidden=True) if styled is None else _Place(*styled)


def _styled(look: _Look, style: tuple[tuple[str, str], ...], is_body: bool) -> tuple[_Look, bool] | None:
    """An element's look and whether it hides text; None where the element is out of sight with all that is in it."""
    if not is_body and any(takes_away(name, value) for name, value in style):
        return None
    changed = _changed(look, dict(style), is_body=is_body)
    return changed, changed.hides_text()


@kept_if_short(8_192)
def _hides(name: str, value: str) -> bool:
    return takes_away(name, value) or is_unreadable(name, value)


def _some_look_alike(declared: Iterable[tuple[str, str]]) -> bool:
    """Whether any ink could stand on a ground of the page, or on white, and not be told from it."""
    inks: set[_Colour] = {_BLACK}
    grounds: set[_Colour] = {_WHITE}
    for name, value in declared:
        if name in _COLOURS:
            colours = {colour for word in _words(value) if (colour := _colour(word)) is not None}
            (inks if name == "color" else grounds).update(colours)
    if len(inks) * len(grounds) > _MOST_PAIRS:
        return True
    return any(_contrast(ink, ground) < LEAST_CONTRAST for ink in inks for ground in grounds)


def _blocks(sheet: str) -> Iterator[tuple[list[str], str]]:
    """(selectors, declarations) of every rule that holds on a screen."""
    within: list[list[str] | None] = [_ANYWHERE]
    pieces: list[str] = []
    for found in _PIECE.finditer(sheet):
        prelude, rule, text = found.groups()
        mark = found[0] if rule is None else "{"
        if text is not None:
            pieces.append(text)
        elif mark == "{":
            written = "".join((*pieces, prelude or ""))
            pieces.clear()
            body, _, selectors = written.rpartition(";")
            if (around := within[-1]) and around != _ANYWHERE and body.strip():
                yield around, body
            entered = _entered(selectors.strip(), around)
            if rule is None:
                within.append(entered)
            elif entered and entered != _ANYWHERE:
                yield entered, rule
        elif mark == "}":
            if len(within) > 1 and (ended := within.pop()) and ended != _ANYWHERE:
                yield ended, "".join(pieces)
            pieces.clear()
        else:
            pieces.append(" " if mark.startswith("/*") else mark)
    if (open_at_end := within[-1]) and open_at_end != _ANYWHERE:
        yield open_at_end, "".join(pieces)


def _entered(prelude: str, around: list[str] | None) -> list[str] | None:
    """The selectors that hold within a block; None where nothing in it does."""
    if around is None:
        return None
    if prelude.startswith("@"):
        name = prelude.split(None, 1)[0].lower().partition("(")[0]
        taken = name in _AT_TAKEN or (name == "@media" and _is_for_screen(prelude[6:].lower()))
        return around if taken else None
    own = [selector.strip() for selector in prelude.split(",") if selector.strip()]
    if around == _ANYWHERE:
        return own
    return [
        inner.replace("&", outer) if "&" in inner else f"{outer} {inner}" for outer in around[:20] for inner in own[:50]
    ][:100]


def _is_for_screen(query: str) -> bool:
    return any(_one_is_for_screen(part.strip()) for part in query.split(","))


def _one_is_for_screen(query: str) -> bool:
    for part in query.split(" and "):
        part = part.strip().removeprefix("only ").strip()
        width = _FEATURE.fullmatch(part)
        if width:
            pixels = (
                float(width[2].strip(".") or 0) * (1 if width[3] == "px" else 16) if width[2].count(".") < 2 else 0.0
            )
            if (pixels > SCREEN_PIXELS) if width[1] == "min" else (pixels < SCREEN_PIXELS):
                return False
        elif part not in ("screen", "all", ""):
            return False
    return True


def _compounds(selector: str) -> tuple[_Compound, ...] | None:
    """The parts of a selector; None where it holds what is not followed."""
    found: list[_Compound] = []
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


def _compound(written: str, relation: str) -> _Compound | None:
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
    return _Compound(name, tuple(ids), tuple(classes), tuple(attributes), relation)


def _specificity(compounds: tuple[_Compound, ...]) -> tuple[int, int, int]:
    """Selectors Level 4, section 17."""
    ids = sum(len(compound.ids) for compound in compounds)
    classes = sum(len(compound.classes) + len(compound.attributes) for compound in compounds)
    return ids, classes, sum(bool(compound.tag) for compound in compounds)


def _holds(actual: str | None, sign: str, wanted: str) -> bool:
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


def _inline(style: str) -> _Style:
    """A style attribute by property; of two values the one that hides, as a page may give us another than a browser."""
    found: dict[str, str] = {}
    for name, value, _ in declarations(style):
        kept = found.get(name)
        if name in WATCHED and not (kept is not None and (takes_away(name, kept) or is_unreadable(name, kept))):
            found[name] = value
    return found


def _changed(look: _Look, style: _Style, *, is_body: bool) -> _Look:
    if (visibility := style.get("visibility")) and not is_body:
        look = replace(look, is_invisible=is_unreadable("visibility", visibility))
    for name in ("font", "font-size"):
        if size := style.get(name):
            if is_unreadable(name, size):
                look = replace(look, is_tiny=True)
            elif not _RELATIVE_SIZE.match(size):
                look = replace(look, is_tiny=False)
    if fill := style.get("-webkit-text-fill-color"):
        look = replace(look, is_filled_clear=is_unreadable("color", fill))
    if (ink := style.get("color")) and ink not in ("inherit", "unset", "currentcolor"):
        look = replace(look, ink=_colour(ink), is_clear=is_unreadable("color", ink))
    for name in ("background", "background-color"):
        if ground := style.get(name):
            look = _grounded(look, ground)
    return look


def _grounded(look: _Look, value: str) -> _Look:
    """`look` on another ground. An image or a gradient is a ground that is not known."""
    if value in ("none", "transparent", "inherit", "initial", "unset", "0", "0 0"):
        return look
    if "url(" in value or "gradient" in value or "image" in value:
        return replace(look, ground=None)
    colours = [colour for word in _words(value) if (colour := _colour(word)) is not None]
    return replace(look, ground=colours[0] if len(colours) == 1 else None)


def _words(value: str) -> list[str]:
    """The parts of a value, functions whole."""
    return re.findall(r"[\w-]+\([^()]*\)|[^\s()]+", value)


@kept_if_short(4_096)
def _colour(value: str) -> _Colour | None:
    """Red, green and blue in [0, 1]; None for what is not opaque or not a plain colour."""
    try:
        colour = color4.parse_color(value[:100])
        if colour is None or isinstance(colour, str) or colour.alpha < 1:
            return None
        red, green, blue = colour.to("srgb").coordinates
    except (NotImplementedError, ValueError, TypeError, ZeroDivisionError):
        return None
    return red, green, blue


@lru_cache(maxsize=4_096)
def _contrast(one: _Colour, other: _Colour) -> float:
    """WCAG 2.2: (L1 + 0.05) / (L2 + 0.05), of the relative luminances, where the hues are as near; else 21."""
    if any(abs(a - b) > 0.2 for a, b in zip(one, other, strict=True)):
        return 21.0
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: _Colour) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
