"""Importing any module opens no socket, starts no thread, loads no model and writes no file."""

from __future__ import annotations

import re
import subprocess
import sys
from graphlib import TopologicalSorter

import grimp

from tests.support.repository import REPOSITORY

SCRIPT = """
import importlib, pkgutil, sys, threading

touched = []
FORBIDDEN = ("socket.connect", "socket.bind", "subprocess.Popen", "sqlite3.connect")

def watch(event, arguments):
    if event in FORBIDDEN:
        touched.append((event, str(arguments)[:120]))
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        if not str(arguments[0]).endswith("null"):
            touched.append((event, str(arguments)[:120]))

names = []
import sluice

names += [m.name for m in pkgutil.walk_packages(sluice.__path__, "sluice.") if not m.name.endswith("__main__")]
sys.addaudithook(watch)
for name in names:
    importlib.import_module(name)
print(len(names), touched, [t.name for t in threading.enumerate()][1:], "torch" in sys.modules)
"""


def test_importing_everything_touches_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", SCRIPT],
        cwd=REPOSITORY,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    count, rest = done.stdout.strip().split(" ", 1)
    assert int(count) > 150
    assert rest == "[] [] False"


def test_chunking_imports_no_extraction() -> None:
    """A document is extracted once, in its handler; what splits it knows only the type of the extracted text."""
    script = "import sys, sluice.ingest.chunk.chunk; print([n for n in ('lxml', 'trafilatura', 'pypdfium2') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_what_tests_share_is_in_a_module_of_its_own() -> None:
    """No module imports a conftest or a module of tests, but for whole suites that run on another engine too."""
    imported = re.compile(r"^\s*(?:from|import) tests\.(?:\w+\.)*(?:conftest|test_\w+)\b(?! import \*).*", re.MULTILINE)
    found = {str(path): imported.findall(path.read_text()) for path in (REPOSITORY / "tests").rglob("*.py")}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Imports for type checkers alone count too: who reads one module of a circle has to read them all."""
    graph = grimp.build_graph("sluice", cache_dir=None)
    modules = set(graph.modules)
    imported = {name: graph.find_modules_directly_imported_by(name) & modules for name in modules}
    TopologicalSorter(imported).prepare()  # raises CycleError, which names them
