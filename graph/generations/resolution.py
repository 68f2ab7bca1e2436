"""Resolves the references of a corpus to the definitions that they can mean, each with its likelihood.

A name is looked up in this order: exactly as it is written; as an alias (`from x import y` makes `m.y` mean `x.y`);
among the members that its class inherits; by the end of a module's path (`workers.handlers` for
`main/workers/handlers.py`, where `main` is no package), where those count that share most of the referring file's
path; by the name of a class alone (`Context.invoke`); in subclasses; and, for a member of a known class, by its bare
name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sluice.contracts.graph.model import DECORATED, RESULT, UNKNOWN, DocumentRow, EdgeType, NodeLabel, Origin
from sluice.graph.generations.definitions import (
    CLASS,
    METHOD,
    MODULE,
    Bond,
    Definition,
    Found,
    How,
    definitions_of,
    folder_of,
    is_unknown,
    nearest,
    shared_parts,
)

_NEAR_SHARE = 0.8
"""For a name with an unknown receiver: the likelihood, together, of the candidates in the same document or in one that
it imports from. It is a guess: the callee is more often near than far."""
_OVERRIDE_SHARE = 0.2
"""For a method that subclasses replace: the share of the replacements together. A guess too."""
_SURE = frozenset({Origin.SCOPE, Origin.IMPORT, Origin.SELF})
_NAMED = (NodeLabel.SYMBOL, NodeLabel.TOOL)


class Meaning(NamedTuple):
    """One definition that a reference can mean, by its place in `Resolver.definitions`; shares add up to 1."""

    definition: int
    how: How
    share: float


class Resolver:
    """Resolves the references of a corpus. Equal rows in equal order give equal results. Not safe for threads."""

    def __init__(self, documents: Sequence[DocumentRow]) -> None:
        self._documents = documents
        self.definitions: list[Definition] = []
        further: list[tuple[str, Definition]] = []
        for place, row in enumerate(documents):
            found, also = definitions_of(place, row.edges)
            self.definitions += sorted(set(found))
            further += also
        order = {definition: place for place, definition in enumerate(self.definitions)}
        self._folders = [folder_of(row.path) for row in documents]
        self._defined: dict[str, list[int]] = {}
        self._modules: dict[str, list[str]] = {}
        self._packages: set[str] = set()
        for place, definition in enumerate(self.definitions):
            self._defined.setdefault(definition.key, []).append(place)
            if definition.kind == MODULE and definition.label is NodeLabel.SYMBOL:
                self._add_module(definition, documents[definition.document].path)
        for key, place in sorted({(key, order[definition]) for key, definition in further}):
            held = self._defined.setdefault(key, [])  # further keys of definitions, like `python:?.save`
            if place not in held[-64:]:
                held.append(place)
        self._drop_inner_modules()
        self._aliases = self._bonds(EdgeType.ALIAS_OF)
        self._bases = self._bonds(EdgeType.INHERITS, EdgeType.HAS_TYPE)
        self._at: dict[str, dict[int, None]] = {}
        """Documents by their addresses."""
        for place, row in enumerate(documents):
            for edge in row.edges:
                if edge.type is EdgeType.RESOLVES_TO:
                    self._at.setdefault(edge.source.key, {})[place] = None
        self._near: dict[int, frozenset[int]] = {}
        self._spent = 0
        self._asked: set[str] = set()
        """Keys in progress: aliases that form a cycle lead to nothing."""
        self._known: dict[str, tuple[tuple[Found, str], ...]] = {}
        self._resolved: dict[tuple[str, str], tuple[Found, ...]] = {}
        self._ancestors: dict[str, tuple[str, ...]] = {}
        self._base_keys: dict[str, list[str]] = {}
        self._subclasses: dict[str, list[str]] | None = None

    def found(self, key: str, document: int) -> tuple[Found, ...]:
        """Return a symbol's or tool's possible meanings in a document (its place); empty: not in the corpus."""
        return self._resolve(key, self._folders[document])

    def meanings(self, found: Sequence[Found], document: int, least_share: float = 0.0) -> list[Meaning]:
        """Return the likelihood of each found definition for a reference in the document, from `least_share` up."""
        if not found or found[0].how is not How.NAME or len(found) == 1:
            return [one for one in _shared_out(found) if one.share >= least_share]
        near = self._near_documents(document)
        inner = [entry for entry in found if self.definitions[entry.definition].document in near]
        outer_count = len(found) - len(inner)
        inner_share = (_NEAR_SHARE if outer_count else 1.0) / max(1, len(inner))
        outer_share = ((1 - _NEAR_SHARE) if inner else 1.0) / max(1, outer_count)
        weighed = [Meaning(place, how, inner_share) for place, how in inner] if inner_share >= least_share else []
        if outer_share >= least_share:
            held = {entry.definition for entry in inner}
            weighed += [Meaning(place, how, outer_share) for place, how in found if place not in held]
        return weighed

    def addressed(self, key: str, document: int) -> tuple[int, ...]:
        """Return the documents (their places) that an address can mean where `document` links to it.

        Of several paths those count that share most folders with the document's own.
        """
        found = tuple(self._at.get(key, ()))
        if len(found) < 2 or not key.startswith("path:"):
            return found
        own = _folders(self._documents[document].path)
        shared = [shared_parts(own, _folders(self._documents[place].path)) for place in found]
        return tuple(place for place, share in zip(found, shared, strict=True) if share == max(shared))

    def _near_documents(self, document: int) -> frozenset[int]:
        """Return the document itself, and those that define its imports."""
        known = self._near.get(document)
        if known is None:
            imported = {
                self.definitions[place].document
                for edge in self._documents[document].edges
                if edge.type is EdgeType.REFERS_TO and edge.origin in _SURE and edge.target.label in _NAMED
                for place, how in self.found(edge.target.key, document)
                if how is not How.NAME
            }
            known = self._near[document] = frozenset({document, *imported})
        return known

    def _bonds(self, *kinds: EdgeType) -> dict[str, list[Bond]]:
        """Return the bonds of these types by the name that they begin at."""
        bonds: dict[str, list[Bond]] = {}
        for place, row in enumerate(self._documents):
            for edge in row.edges:
                if edge.type in kinds:
                    bonds.setdefault(edge.source.key, []).append(Bond(edge.target.key, place))
        return bonds

    def _resolve(self, key: str, folder: str) -> tuple[Found, ...]:
        known = self._resolved.get((key, folder))
        if known is not None:
            return known
        found = self._known.get(key)
        if found is None:
            self._spent = self._spent + 1 if self._asked else 1
            if key in self._asked or len(self._asked) >= _DEEPEST or self._spent > _MOST_NAMES:
                return ()
            self._asked.add(key)
            found = self._known[key] = self._look_up(key)
            self._asked.discard(key)
        resolved = self._resolved[key, folder] = nearest(found, folder, key)
        return resolved

    def _look_up(self, key: str) -> tuple[tuple[Found, str], ...]:
        """Return all meanings of the key, each with the folder that its module counts from ('' unless by suffix)."""
        exact = self._defined.get(key)
        if exact:
            how = How.NAME if is_unknown(key) else How.EXACT
            found = [*(Found(place, how) for place in exact), *self._in_place_of(key), *self._overriding(key)]
            return tuple((entry, "") for entry in dict.fromkeys(found))
        language, _, name = key.partition(":")
        if not name or name.startswith(f"{UNKNOWN}."):
            return ()
        segments = name.split(".")
        if segments[-1] == RESULT:
            return tuple((entry, "") for entry in self._given(key.removesuffix(f".{RESULT}")))
        stated = self._by_bonds(language, segments)
        if stated:
            return tuple((found, "") for found in stated)
        ends = self._by_suffix(language, segments)
        if not ends and segments[-1] == "__call__":  # a call of a function's result
            ends = tuple((found, "") for found in self._given(key.removesuffix(".__call__")))
        ends = ends or self._by_tail(language, segments)
        return ends or tuple((found, "") for found in self._by_class(language, segments))

    def _by_tail(self, language: str, segments: list[str]) -> tuple[tuple[Found, str], ...]:
        """Find members by their class's name alone, as prose writes them: `Context.invoke` of `click.core.Context`."""
        first, rest = segments[0], "".join(f".{segment}" for segment in segments[1:])
        named = [self.definitions[place] for place in self._defined.get(f"{language}:{UNKNOWN}.{first}", ())]
        classes = dict.fromkeys(one.key for one in named if one.kind == CLASS) if rest else ()
        found = [one for key in classes for one in self._resolve(key + rest, "") if one.how is not How.NAME]
        return tuple((Found(place, max(how, How.SUFFIX)), "") for place, how in dict.fromkeys(found))

    def _by_bonds(self, language: str, segments: list[str]) -> tuple[Found, ...]:
        """Find definitions by aliases and bases, those of the longest part of the name first."""
        for end in range(len(segments), 0, -1):
            head = f"{language}:{'.'.join(segments[:end])}"
            rest = "".join(f".{segment}" for segment in segments[end:])
            aliases = self._aliases.get(head, [])
            if rest and not aliases:
                aliases = self._starred(head, segments[end])
            found = [
                Found(place, max(how, How.ALIAS))
                for alias in aliases
                for place, how in self._resolve(alias.target + rest, self._folders[alias.document])
            ]
            if not found and len(segments) - end == 1 and head in self._bases:
                found = self._inherited(head, rest)
            if found:
                return tuple(dict.fromkeys(found))
        return ()

    def _in_place_of(self, key: str) -> list[Found]:
        """Return the originals of an alias, as in `native_str = to_unicode`, and the wrappers of decorators."""
        return [
            Found(place, How.ALIAS if source is key else How.OVERRIDE)
            for source in (key, f"{key}.{DECORATED}")
            for alias in self._aliases.get(source, ())
            for place, how in self._resolve(alias.target, self._folders[alias.document])
            if how is not How.NAME and self.definitions[place].key != key
        ]

    def _given(self, called: str) -> Iterator[Found]:
        """Yield the callables that a call of `called` returns. For a decorator this is its wrapper."""
        for place, how in self._resolve(called, ""):
            own = self.definitions[place].key
            if how is How.NAME:
                continue
            for alias in self._aliases.get(f"{own}.{RESULT}", ()):
                yield from self._resolve(alias.target, self._folders[alias.document])
            if f"{own}.{RESULT}" not in self._aliases:
                for base in self._bases_of(own):
                    yield from self._resolve(f"{base}.{RESULT}", "")

    def _starred(self, module: str, name: str) -> list[Bond]:
        """Return the modules with the name that `module` star-imports (`from x import *`), as aliases of `module`."""
        if f"{module}.*" not in self._aliases or f"{module}.{name}" in self._defined:
            return []
        queue, seen, found = [module], {module}, []
        for entry in queue:
            for star in self._aliases.get(f"{entry}.*", ()):
                for target in self._modules_named(star.target.removesuffix(".*")):
                    if target not in seen:
                        seen.add(target)
                        queue.append(target)
                        if f"{target}.{name}" in self._defined or f"{target}.{name}" in self._aliases:
                            found.append(Bond(target, star.document))
        return found

    def _modules_named(self, key: str) -> list[str]:
        if key in self._defined:
            return [key]
        return [f"{key.partition(':')[0]}:{module}" for module in self._modules.get(key, ())]

    def _inherited(self, holder: str, rest: str) -> list[Found]:
        for ancestor in self._lines_of(holder)[1:]:
            held = self._defined.get(ancestor + rest)
            if held:
                found = [*(Found(place, How.INHERITED) for place in held), *self._in_place_of(ancestor + rest)]
                is_class = any(self.definitions[place].kind == CLASS for place in self._defined.get(holder, ()))
                for named in [holder] if is_class else self._bases_of(holder):
                    found += self._overriding(named + rest)
                return found
        return []

    def _overriding(self, key: str) -> list[Found]:
        """Return the methods by which subclasses replace that of a class, those of the nearest subclasses first."""
        holder, _, member = key.rpartition(".")
        found: list[Found] = []
        if member in _CONSTRUCTORS:
            return found
        for subclass in self._below(holder):
            held = self._defined.get(f"{subclass}.{member}", ())
            found += [Found(place, How.OVERRIDE) for place in held if self.definitions[place].kind == METHOD]
            if len(found) >= _MOST_OVERRIDES:
                break
        return found

    def _lines_of(self, holder: str, depth: int = 0) -> tuple[str, ...]:
        """Return the class and its ancestors: depth first, each after all that inherit from it, as Python's order is.

        That is C3 (Barrett et al., 1996) wherever C3 finds an order but in rare lattices.
        """
        if holder not in self._ancestors:
            self._ancestors[holder] = (holder,)  # for classes that name each other as bases
            order = [holder]
            for base in self._bases_of(holder) if depth < _MOST_LEVELS else ():
                order += self._lines_of(base, depth + 1)
            self._ancestors[holder] = (holder, *list(dict.fromkeys(reversed(order[1:])))[::-1])
        return self._ancestors[holder]

    def _bases_of(self, holder: str) -> list[str]:
        known = self._base_keys.get(holder)
        if known is not None:
            return known
        keys: list[str] = []
        for bond in self._bases.get(holder, ()):
            found = self._resolve(bond.target, self._folders[bond.document])
            keys += [self.definitions[place].key for place, _ in found] or [bond.target]
        self._base_keys[holder] = keys
        return keys

    def _by_suffix(self, language: str, segments: list[str]) -> tuple[tuple[Found, str], ...]:
        for end in range(len(segments), 0, -1):
            head = ".".join(segments[:end])
            rest = "".join(f".{segment}" for segment in segments[end:])
            found: list[tuple[Found, str]] = []
            for module in self._modules.get(f"{language}:{head}", ())[:_MOST_MODULES]:
                root = module.removesuffix(head).removesuffix(".")
                whole = f"{language}:{module}{rest}"
                path = root.replace(".", "/")
                found += [
                    (Found(place, max(how, How.SUFFIX)), path)
                    for place, how in self._resolve(whole, path)
                    if how is not How.NAME
                ]
            if found:
                return tuple(dict.fromkeys(found))
        return ()

    def _by_class(self, language: str, segments: list[str]) -> list[Found]:
        """Find a member that a known class neither has nor inherits: in its subclasses, or else by its bare name.

        Applies also to a known function or variable, as the type of its result is not stated.
        """
        if len(segments) < 2:
            return []
        holder, member = f"{language}:{'.'.join(segments[:-1])}", segments[-1]
        if holder not in self._bases and not self._is_value(holder):
            return []
        below = [
            Found(place, How.INHERITED)
            for subclass in self._below(holder)
            for place in self._defined.get(f"{subclass}.{member}", ())
        ]
        return below or [Found(place, How.NAME) for place in self._defined.get(f"{language}:{UNKNOWN}.{member}", ())]

    def _is_value(self, holder: str) -> bool:
        """Return whether the name means something of the corpus that may have members by other names than its own."""
        return any(self.definitions[place].kind != MODULE for place, _ in self._resolve(holder, ""))

    def _below(self, holder: str) -> list[str]:
        if self._subclasses is None:
            self._subclasses = {}
            asked, spent = self._asked, self._spent
            for name in sorted(self._bases):
                self._asked, self._spent = set(), 0  # each base is resolved afresh, whatever is in progress
                for base in self._bases_of(name):
                    self._subclasses.setdefault(base, []).append(name)
            self._asked, self._spent = asked, spent
        below = [holder]
        seen = {holder}
        for name in below:
            new = [entry for entry in self._subclasses.get(name, ()) if entry not in seen]
            seen.update(new)
            below += new
            if len(below) > _MOST_SUBCLASSES:
                break
        return below[1 : _MOST_SUBCLASSES + 1]

    def _add_module(self, definition: Definition, path: str | None) -> None:
        language, _, name = definition.key.partition(":")
        if path is not None and path.rpartition("/")[2].partition(".")[0] == "__init__":
            self._packages.add(name)
        segments = name.split(".")
        for start in range(1, len(segments)):
            self._modules.setdefault(f"{language}:{'.'.join(segments[start:])}", []).append(name)

    def _drop_inner_modules(self) -> None:
        """Drop ends of module paths that begin inside a package: nothing imports `package.json` as `json`."""
        for end, modules in list(self._modules.items()):
            name = end.partition(":")[2]
            outer = [module for module in modules if module.removesuffix(name).removesuffix(".") not in self._packages]
            if outer:
                self._modules[end] = sorted(set(outer))
            else:
                del self._modules[end]


def _shared_out(found: Sequence[Found]) -> list[Meaning]:
    """Share equally among all possible meanings; the methods of subclasses get a smaller share among them."""
    overrides = sum(entry.how is How.OVERRIDE for entry in found)
    others = len(found) - overrides
    each = (1 - _OVERRIDE_SHARE if overrides else 1.0) / max(1, others)
    override = (_OVERRIDE_SHARE if others else 1.0) / max(1, overrides)
    return [Meaning(place, how, override if how is How.OVERRIDE else each) for place, how in found]


def _folders(path: str | None) -> list[str]:
    return (path or "").split("/")[:-1]


_DEEPEST = 12
"""Aliases of aliases: the longest chain in the standard library has 4."""
_MOST_NAMES = 500
"""Names looked up for one. Aliases that hold each other (`a` for `a.b`) would go on without end."""
_MOST_MODULES = 64
"""Most modules examined whose paths end alike."""
_CONSTRUCTORS = frozenset({"__init__", "__new__"})
"""A reference to one of them means that class's own: `super().__init__()` reaches no subclass."""
_MOST_OVERRIDES = 64
"""Most replacements of one method: the nearest ones."""
_MOST_SUBCLASSES = 256
"""Most subclasses of one base: a corpus may be full of them."""
_MOST_LEVELS = 50
"""Levels of inheritance that are followed."""
