"""Without the libraries of the extras `graph` and `cypher` everything imports, and what needs them says what to do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.repository import REPOSITORY

BLOCKED = """
import importlib, json, pkgutil, sys

MISSING = ("tree_sitter", "markdown_it", "ladybug", "antlr4", "antlr4_cypher")


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].startswith(MISSING):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocker())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.startswith(MISSING) else found(name, package)
"""


def told(script: str) -> object:
    """What a script prints as JSON in an interpreter that lacks these libraries."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", BLOCKED + script],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_module_is_imported_without_them() -> None:
    assert (
        told("""
import sluice
names = [one.name for one in pkgutil.walk_packages(sluice.__path__, "sluice.") if not one.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(json.dumps([name for name in sys.modules if name.startswith(MISSING)]))
""")
        == []
    )


def test_source_code_has_no_grammar_and_is_ingested_by_lines() -> None:
    assert told("""
from sluice.text.grammar import has_grammar
print(json.dumps([has_grammar("python"), has_grammar("go"), has_grammar("prose")]))
""") == [False, False, False]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "from sluice.graph.extract.extract import parser_version; call = parser_version",
            "tree_sitter is not installed: pip install 'sluice[graph]' brings it",
        ),
        (
            "from sluice.graph.cypher.parse import parse; call = lambda: parse('RETURN 1')",
            "antlr4_cypher is not installed: pip install 'sluice[cypher]' brings it",
        ),
    ],
)
def test_what_needs_them_names_the_library_and_the_command(script: str, said: str) -> None:
    assert (
        told(f"""
{script}
from sluice.contracts.errors import NotInstalled
try:
    call()
except NotInstalled as error:
    print(json.dumps(str(error)))
""")
        == said
    )


def test_what_is_indexed_directs_nothing_to_the_graph() -> None:
    assert (
        told("""
from sluice.contracts.index import DocumentIndexed
from sluice.graph.settings import GraphSettings
from sluice.workers.wiring.graphs import graph_directives
indexed = DocumentIndexed(document_ids=("doc_1",), chunk_count=1, journal_offset=1)
print(json.dumps(len(list(graph_directives("docs", indexed, GraphSettings())))))
""")
        == 0
    )
