"""Whether each name of Python files is bound in the scope that Python's own compiler binds it in.

`python -m bench.graph.names [--files 100] [--seed 1]` reads random files of the standard library, of this repository
and of installed packages, asks `symtable` about every name in them (loads, stores and deletions), and prints for each
group the share that is found and the share in the right scope, the slips, and the speed of the whole extraction.
"""

from __future__ import annotations

import argparse
import ast
import random
import symtable
import sys
import sysconfig
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tree_sitter import Node

from sluice.contracts.graph.model import GraphDocument
from sluice.graph.extract.python.edges import python_edges
from sluice.graph.extract.python.reading import Binding, Reading, Scope, ScopeKind, Value, chain_of, text
from sluice.text.grammar import parse

REPOSITORY = Path(__file__).parents[2]
_GLOBAL = "module"
_Place = tuple[int, int]
"""Line from 1 and byte column from 0."""


class Figures(NamedTuple):
    """What was counted over some files."""

    files: int
    names: int
    found: int
    right: int
    slips: Counter[str]
    seconds: float
    characters: int


class _Recorder(Reading):
    """Remembers where each name stands and in which scope."""

    def __init__(self, root: Node) -> None:
        self.places: dict[_Place, tuple[str, Scope]] = {}
        super().__init__(root, "m", "")

    def use(self, node: Node, scope: Scope, is_called: bool) -> None:
        super().use(node, scope, is_called)
        self._remember(chain_of(node)[0][-1], scope)

    def bind(self, scope: Scope, node: Node, binding: Binding) -> None:
        super().bind(scope, node, binding)
        self._remember(node, scope)

    def _store(self, node: Node, scope: Scope, value: Value) -> None:
        super()._store(node, scope, value)
        self._remember(chain_of(node)[0][-1], scope)

    def _remember(self, node: Node, scope: Scope) -> None:
        if node.type == "identifier":
            self.places[node.start_point.row + 1, node.start_point.column] = text(node), scope


def ours(source: str) -> dict[_Place, tuple[str, str]]:
    """Each name's place, the name, and the scope that binds it: kind and line, or `module`."""
    tree = parse("python", source.encode())
    if tree is None:
        return {}
    found: dict[_Place, tuple[str, str]] = {}
    for place, (name, scope) in _Recorder(tree.root_node).places.items():
        holder = scope.holder(name)
        if holder is None or holder.kind is ScopeKind.MODULE:
            found[place] = name, _GLOBAL
        else:
            found[place] = name, f"{_kind(holder)}:{holder.node.start_point.row + 1}"
    return found


def _kind(scope: Scope) -> str:
    if scope.kind is ScopeKind.CLASS:
        return "class"
    return "function"


def theirs(source: str) -> Iterator[tuple[_Place, str, str]]:
    """The same by `ast` and `symtable`; a name that is not bound counts as the module's."""
    tables = symtable.symtable(source, "m", "exec")
    work: list[tuple[ast.AST, list[symtable.SymbolTable]]] = [(ast.parse(source), [tables])]
    children: dict[int, list[symtable.SymbolTable]] = {}
    while work:
        node, chain = work.pop()
        if isinstance(node, ast.Name):
            yield (node.lineno, node.col_offset), node.id, _bound(node.id, chain)
            continue
        work.extend(reversed(list(_below(node, chain, children))))


def _below(
    node: ast.AST, chain: list[symtable.SymbolTable], used: dict[int, list[symtable.SymbolTable]]
) -> Iterator[tuple[ast.AST, list[symtable.SymbolTable]]]:
    """The parts of a node, each with the tables that it stands in, the innermost last."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        inner = [*chain, _table(chain[-1], node, used)]
        inside = node.body if isinstance(node.body, list) else [node.body]
        arguments = node.args
        outside: list[ast.AST | None] = [*arguments.defaults, *arguments.kw_defaults]
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        outside += [argument.annotation for argument in named if argument is not None]
        if not isinstance(node, ast.Lambda):
            outside += [*node.decorator_list, node.returns]
        yield from ((part, inner) for part in inside)
        yield from ((part, chain) for part in outside if part is not None)
    elif isinstance(node, ast.ClassDef):
        inner = [*chain, _table(chain[-1], node, used)]
        yield from ((part, inner) for part in node.body)
        yield from ((part, chain) for part in (*node.bases, *node.keywords, *node.decorator_list))
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        inner = [*chain, _table(chain[-1], node, used)]
        yield node.generators[0].iter, chain
        yield node.generators[0].target, inner
        yield from ((part, inner) for part in node.generators[0].ifs)
        yield from ((part, inner) for part in node.generators[1:])
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        yield from ((part, inner) for part in elements)
    else:
        yield from ((part, chain) for part in ast.iter_child_nodes(node))


_TABLE_NAMES = {"Lambda": "lambda", "ListComp": "listcomp", "SetComp": "setcomp", "DictComp": "dictcomp"}


def _table(
    within: symtable.SymbolTable, node: ast.AST, used: dict[int, list[symtable.SymbolTable]]
) -> symtable.SymbolTable:
    """The table of a node: of its name, on its line, and not taken by another node."""
    name = getattr(node, "name", None) or _TABLE_NAMES.get(type(node).__name__, "genexpr")
    taken = used.setdefault(within.get_id(), [])
    line = getattr(node, "lineno", 0)
    left = [table for table in within.get_children() if table.get_name() == name and table not in taken]
    exact = [table for table in left if table.get_lineno() == line]
    inside = (exact or left)[0]
    taken.append(inside)
    return inside


def _bound(name: str, chain: list[symtable.SymbolTable]) -> str:
    name = _mangled(name, chain)
    try:
        own = chain[-1].lookup(name)
    except KeyError:  # in an annotation that is never evaluated: by the rules of scope
        holders = [chain[-1], *(table for table in reversed(chain[:-1]) if table.get_type() == "function")]
        return next((_scope(table) for table in holders if _is_local(name, table)), _GLOBAL)
    if own.is_local() and not own.is_global():
        return _scope(chain[-1])
    if own.is_free():
        outer = [table for table in reversed(chain[:-1]) if table.get_type() == "function"]
        return next((_scope(table) for table in outer if _is_local(name, table)), _GLOBAL)
    return _GLOBAL


def _is_local(name: str, table: symtable.SymbolTable) -> bool:
    return name in table.get_identifiers() and table.lookup(name).is_local()


def _mangled(name: str, chain: list[symtable.SymbolTable]) -> str:
    """`_Cart__size` for `__size` in a class (language reference, section 6.2.1)."""
    holder = next((table for table in reversed(chain) if table.get_type() == "class"), None)
    if holder is None or not name.startswith("__") or name.endswith("__"):
        return name
    return f"_{holder.get_name().lstrip('_')}{name}"


def _scope(table: symtable.SymbolTable) -> str:
    kind = str(table.get_type())
    return _GLOBAL if kind == "module" else f"{kind}:{table.get_lineno()}"


def measure(paths: list[Path]) -> Figures:
    """Compare the names of all files, and time the extraction of their edges."""
    names = found = right = characters = files = 0
    slips: Counter[str] = Counter()
    seconds = 0.0
    for path in paths:
        try:
            source = path.read_text("utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                truth = list(theirs(source))
        except (SyntaxError, UnicodeDecodeError, RecursionError, ValueError, KeyError, IndexError) as problem:
            slips[f"file left out: {type(problem).__name__}"] += 1
            continue
        mine = ours(source)
        files += 1
        characters += len(source)
        for place, name, scope in truth:
            names += 1
            held = mine.get(place)
            if held is None:
                slips["not found"] += 1
                continue
            found += 1
            if held == (name, scope) or _is_decorated(held[1], scope):
                right += 1
            else:
                slips[f"{scope.partition(':')[0]} read as {held[1].partition(':')[0]}"] += 1
        document = GraphDocument(path.name, "/".join(path.parts[-3:]), None, None, "python", source, {})
        begun = time.process_time()
        list(python_edges(document))
        seconds += time.process_time() - begun
    return Figures(files, names, found, right, slips, seconds, characters)


def _is_decorated(mine: str, other: str) -> bool:
    """`symtable` gives a decorated definition the line of its first decorator in some versions."""
    kind, _, line = mine.partition(":")
    other_kind, _, other_line = other.partition(":")
    return kind == other_kind and bool(line) and bool(other_line) and 0 < int(line) - int(other_line) < 30


def groups(files: int, seed: int) -> dict[str, list[Path]]:
    """Random files of each group."""
    standard = Path(sysconfig.get_paths()["stdlib"])
    installed = Path(sysconfig.get_paths()["purelib"])
    trees = {
        "standard library": [path for path in standard.rglob("*.py") if "site-packages" not in path.parts],
        "this repository": [path for path in REPOSITORY.rglob("*.py") if ".venv" not in path.parts],
        "installed packages": list(installed.rglob("*.py")),
    }
    chosen = random.Random(seed)
    return {name: chosen.sample(sorted(paths), min(files, len(paths))) for name, paths in trees.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.setrecursionlimit(10_000)
    print("| | files | names | found | right scope | files/s | MB/s |\n|---|---|---|---|---|---|---|")
    told: dict[str, Counter[str]] = {}
    for name, paths in groups(options.files, options.seed).items():
        figures = measure(paths)
        told[name] = figures.slips
        print(
            f"| {name} | {figures.files} | {figures.names:,} | {figures.found / figures.names:.4f} | "
            f"{figures.right / figures.names:.4f} | {figures.files / figures.seconds:.0f} | "
            f"{figures.characters / figures.seconds / 1e6:.1f} |"
        )
    for name, slips in told.items():
        print(f"{name}: {', '.join(f'{kind} {count}' for kind, count in slips.most_common())}")


if __name__ == "__main__":
    main()
