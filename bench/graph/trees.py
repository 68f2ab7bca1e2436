"""Trees of files that the bench reads: two to choose on, the others to check on.

Of each a part, as embedding costs a core some minutes for a megabyte. What is not on this machine is skipped.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from sluice.contracts.document import Document, Provenance, document_id_for
from sluice.workers.service.contents import read_content
from tests.support.repository import REPOSITORY

_SITE_PACKAGES, _LIBRARY = Path(sysconfig.get_paths()["purelib"]), Path(sysconfig.get_paths()["stdlib"])
_PYTHON_DOCS = Path("/usr/share/doc/python3.11/html")
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOST_BYTES = 200_000
"""Of a file: what is longer is a table or made by a program."""


class Tree(NamedTuple):
    """Files below `root`: those below one of `parts`, or named by it; their paths begin with `prefix`."""

    name: str
    root: Path
    parts: tuple[str, ...]
    suffixes: tuple[str, ...] = (".py",)
    prefix: str = ""
    is_chosen_on: bool = False

    def paths(self) -> list[Path]:
        """The files, in the order of their names."""
        found: set[Path] = set()
        for part in self.parts:
            found.update(self.root.glob(part) if "*" in part else [self.root / part])
        files = {below for path in found for below in ([path] if path.is_file() else path.rglob("*"))}
        return sorted(path for path in files if self._is_read(path))

    def documents(self) -> Iterator[Document]:
        """The files as `sluice ingest` reads them."""
        for path in self.paths():
            file_path = self.prefix + path.relative_to(self.root).as_posix()
            content, _ = read_content(path.read_bytes(), file_path)
            if content:
                provenance = Provenance(source="file", fetched_at=_NOW)
                yield Document(id=document_id_for(file_path), file_path=file_path, provenance=provenance, **content)

    def _is_read(self, path: Path) -> bool:
        return (
            path.is_file()
            and path.suffix in self.suffixes
            and not {"__pycache__", "testdata"}.intersection(path.parts)
            and 0 < path.stat().st_size <= MOST_BYTES
        )


TREES = (
    Tree(
        "sluice",
        REPOSITORY,
        (
            "index",
            "gate",
            "trust",
            "ledger",
            "contracts",
            "tests/unit/index",
            "tests/unit/gate",
            "tests/unit/trust",
            "tests/unit/ledger",
            "docs/*.md",
            "docs/decisions",
            "README.md",
            "ARCHITECTURE.md",
        ),
        (".py", ".md"),
        "sluice/",
        is_chosen_on=True,
    ),
    Tree(
        "stdlib",
        _LIBRARY,
        (
            "json",
            "email",
            "http",
            "logging",
            "concurrent",
            "html",
            "tomllib",
            "wsgiref",
            "[a-d]*.py",
            "queue.py",
            "sched.py",
            "shelve.py",
            "textwrap.py",
            "tempfile.py",
            "zipapp.py",
            "test/test_json",
            "test/test_tomllib",
            "test/test_bdb.py",
            "test/test_calendar.py",
            "test/test_cmd.py",
            "test/test_code.py",
            "test/test_copy.py",
            "test/test_dataclasses.py",
            "test/test_configparser.py",
            "test/test_queue.py",
            "test/test_sched.py",
            "test/test_shelve.py",
            "test/test_textwrap.py",
            "test/test_tempfile.py",
            "test/test_zipapp.py",
            "test/test_wsgiref.py",
            "test/test_httpservers.py",
            "test/test_dis.py",
            "test/test_bisect.py",
            "test/test_base64.py",
            "test/test_csv.py",
            "test/test_cgi.py",
            "test/test_contextlib.py",
        ),
        is_chosen_on=True,
    ),
    Tree("joblib", _SITE_PACKAGES, ("joblib",)),
    Tree("jsonschema", _SITE_PACKAGES, ("jsonschema", "referencing", "jsonschema_specifications", "attr", "attrs")),
    Tree("fsspec", _SITE_PACKAGES, ("fsspec",)),
    Tree("scikit-learn", _SITE_PACKAGES, ("sklearn/linear_model",)),
    Tree("fastapi", _SITE_PACKAGES, ("fastapi", "starlette")),
    Tree("celery", _SITE_PACKAGES, ("celery",)),
    Tree("rich", _SITE_PACKAGES, ("rich",)),
    Tree("sqlalchemy", _SITE_PACKAGES, ("sqlalchemy/engine", "sqlalchemy/pool", "sqlalchemy/event", "sqlalchemy/util")),
    Tree("python-doc", _PYTHON_DOCS, ("howto", "library/[ab]*.html"), (".html",)),
)
"""A tree of Debian's python3.11-doc for links of pages; every other is code, three of them with their tests."""


def tree_named(name: str) -> Tree:
    """The tree of that name."""
    return next(tree for tree in TREES if tree.name == name)
