"""Are the pages linked to a failing test those that are about what it exercises? `python -m bench.graph.linked TREE …`.

A TREE is a folder with a package, its tests and its documentation, and beside it TREE.calls.json, written by
`bench.graph.record` while its tests ran. One test at a time fails: a report names it. It is asked for by the module
whose code it called. A page is right where its text names, by a role of Sphinx or in a block of code, what the test
called in that module: read by regular expressions from the text alone. A name that more pages have counts less.
Printed are nDCG@10 of the pages and how often the first one is right; and the same of all documents together.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import NamedTuple
from unittest.mock import patch

from bench.graph.recorder import CallPair
from bench.graph.trees import Tree
from sluice.contracts.graph.model import DocumentRow, NodeLabel
from sluice.graph.extract.extract import extract_edges
from sluice.graph.generations.fold import fold
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.linked import linked
from sluice.graph.walk.nodes import Kind
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.tokens import shared_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings
from sluice.workers.wiring.graph_documents import graph_document

QUESTIONS = 150
PAGES = (".rst", ".md", ".txt")
_ROLE = re.compile(r"(?::(?:py:)?|\{(?:py:)?)(?:class|meth|func|mod|attr|exc|data|obj)(?::|\})`([^`]+)`")
_DIRECTIVE = re.compile(
    r"^\s*(?:\.\. |```\{)(?:py:)?(?:auto)?(?:class|function|method|exception|module)(?:::|\})\s*([\w.]+)", re.M
)
_FENCED = re.compile(r"```\w*\n(.*?)```", re.S)
_INDENTED = re.compile(r"(?:::|code-block:: \w+|code:: \w+)[^\n]*\n((?:[ \t]*\n|[ \t]+[^\n]*\n)+)")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class Called(NamedTuple):
    """A test, and what it called in one module: qualified names."""

    test: str
    path: str
    module: str
    names: frozenset[str]


def names_in(text: str) -> Counter[str]:
    """The names that a page has in roles, in directives that document a symbol, and in blocks of code."""
    found: Counter[str] = Counter()
    for match in _ROLE.finditer(text):
        told = match[1].partition("<")[2].rstrip(">") or match[1]
        found[told.lstrip("~!.").rstrip("()")] += 1
    for match in _DIRECTIVE.finditer(text):
        found[match[1]] += 1
    for block in (*_FENCED.findall(text), *_INDENTED.findall(text), *re.findall(r"^\s*>>> .*$", text, re.M)):
        if "import" in block or ">>>" in block or "@" in block:
            found.update(_NAME.findall(block))
    return found


def is_named(name: str, names: Counter[str]) -> int:
    """How often a page names `Context.invoke` or `echo`: a method together with its class, all others alone."""
    parts = name.split(".")
    tail = ".".join(parts[-2:])
    return sum(count for one, count in names.items() if one == tail or one.endswith(f".{tail}"))


def calls_of(root: Path) -> list[Called]:
    """What each test of a tree called, by the module that defines it."""
    read = json.loads(root.with_suffix(".calls.json").read_text())
    base = Path(read["root"])
    tests: dict[str, list[tuple[int, int, str]]] = {}
    called: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for pair in (CallPair(*one) for one in read["pairs"]):
        caller, file = (Path(one).relative_to(base).as_posix() for one in (pair.caller_file, pair.file))
        if not caller.startswith("tests/") or file.startswith("tests/"):
            continue
        if caller not in tests:
            tests[caller] = list(_tests(ast.parse((base / caller).read_text()), ""))
        owner = next((name for first, last, name in tests[caller] if first <= pair.first <= last), None)
        if owner:
            names = [one for one in pair.qualified_name.split(".") if one not in ("__init__", "__call__", "__new__")]
            called[owner, caller, file].add(".".join(names))
    return [Called(test, path, file, frozenset(names)) for (test, path, file), names in sorted(called.items())]


def _tests(tree: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            yield node.lineno, node.end_lineno or node.lineno, f"{prefix}{node.name}"
        elif isinstance(node, ast.ClassDef):
            yield from _tests(node, f"{prefix}{node.name}.")


def judge(view: GraphView, root: Path, kind: Kind | None, most: int = QUESTIONS) -> list[tuple[float, bool]]:
    """nDCG@10 of the pages, and whether the first document is right, for each question."""
    pages = {
        path.relative_to(root).as_posix(): names_in(path.read_text(errors="replace"))
        for path in sorted(root.rglob("*"))
        if path.suffix in PAGES
    }
    questions = []
    for one in calls_of(root):
        gains: Counter[str] = Counter()
        for name in one.names:
            having = {page: count for page, names in pages.items() if (count := is_named(name, names))}
            for page, count in having.items():
                gains[page] += (1 + math.log(count)) * math.log((1 + len(pages)) / len(having))
        if gains:
            questions.append((one, gains))
    random.Random(3).shuffle(questions)
    judged = []
    for one, gains in questions[:most]:
        listed = _linked_to(view, root.name, one, kind)
        gained = sum(gains.get(page, 0) / math.log2(place + 2) for place, page in enumerate(listed))
        best = sum(gain / math.log2(place + 2) for place, (_, gain) in enumerate(gains.most_common(10)))
        judged.append((gained / best, bool(listed) and listed[0] in gains))
    return judged


def _linked_to(view: GraphView, name: str, one: Called, kind: Kind | None) -> list[str]:
    key = f"{name}/{one.path.removesuffix('.py')}".replace("/", ".") + f".{one.test}"
    node = view.find(NodeLabel.SYMBOL, f"python:{key}")
    failing = set(view.definitions_of(node)) if node is not None else set()

    def reports(view: GraphView, vertex: int) -> set[int | None]:
        return {None} if vertex in failing else set()

    with patch("sluice.graph.walk.linked._reports", reports):
        found = linked(view, f"{name}/{one.module}", failing_only=True, top_k=10, kind=kind)
    return [(entry.document.path or "").partition("/")[2] for entry in found.documents]


def read_view(root: Path) -> GraphView:
    """The graph of a tree whose paths begin with its folder, as a checkout has them."""
    tree = Tree(root.name, root, (".",), (".py", *PAGES), prefix=f"{root.name}/")
    rows = []
    for document in tree.documents():
        chunked = chunk_document(document, extract_document(document), ChunkSettings(), shared_tokenizer())
        read = graph_document(chunked, chunked.chunks)
        rows.append(DocumentRow(document.id, document.file_path, None, read.title, extract_edges(read)))
    return GraphView(fold(rows, ()), "bench", 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.graph.linked", description=__doc__)
    parser.add_argument("trees", nargs="+", type=Path)
    for root in parser.parse_args().trees:
        view = read_view(root)
        for kind in (Kind.PAGE, None):
            found = judge(view, root, kind)
            ndcg, first = (fmean(float(one[place]) for one in found) for place in (0, 1))
            told = kind.value if kind else "all"
            print(f"{root.name:<14}{told:<6}{len(found):>5} nDCG@10 {ndcg:.3f}  first right {first:.3f}", flush=True)


if __name__ == "__main__":
    main()
