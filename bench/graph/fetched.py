"""Trees that are not on this machine by themselves: source distributions, unpacked below `FETCHED` by their names.

    pip download --no-deps --no-binary :all: werkzeug networkx sphinx click scrapy django flask
    npm pack @tanstack/query-core zod            (tanstack-query-core, zod)

Go's library and npm's manual come with Debian's golang-src and npm. What is missing is skipped.
"""

from __future__ import annotations

import os
from pathlib import Path

from bench.graph.trees import Tree

FETCHED = Path(os.environ.get("SLUICE_BENCH_TREES", "/tmp/sluice-bench-graph/trees"))
_GO = Path("/usr/lib/go-1.19/src")
_CODE_AND_PAGES = (".py", ".md", ".rst")
_SCRIPT = (".ts", ".tsx")

ASKED_TREES = (
    Tree("werkzeug", FETCHED / "werkzeug", ("src", "tests", "docs"), _CODE_AND_PAGES, is_chosen_on=True),
    Tree(
        "networkx",
        FETCHED / "networkx",
        (
            "networkx/classes",
            "networkx/utils",
            "networkx/*.py",
            "networkx/tests/test_*.py",
            "networkx/algorithms/[a-c]*.py",
        ),
        is_chosen_on=True,
    ),
    Tree(
        "sphinx-doc",
        FETCHED / "sphinx/doc",
        ("usage", "development", "extdev", "tutorial", "*.rst"),
        (".rst",),
        is_chosen_on=True,
    ),
    Tree("npm-doc", Path("/usr/lib/node_modules/npm/docs/content"), (".",), (".md",), is_chosen_on=True),
    Tree("query-core", FETCHED / "tanstack-query-core/src", (".",), _SCRIPT, is_chosen_on=True),
    Tree(
        "go-tools",
        _GO,
        ("text", "go/ast", "go/parser", "go/printer", "go/scanner", "go/format", "go/doc"),
        (".go",),
        is_chosen_on=True,
    ),
    Tree("click", FETCHED / "click", ("src", "tests", "docs"), _CODE_AND_PAGES),
    Tree(
        "scrapy",
        FETCHED / "scrapy",
        (
            "scrapy/utils",
            "scrapy/http",
            "scrapy/downloadermiddlewares",
            "scrapy/spidermiddlewares",
            "scrapy/extensions",
            "scrapy/*.py",
            "tests/test_utils*.py",
            "tests/test_downloadermiddleware_*.py",
            "docs/topics/[a-l]*.rst",
            "docs/intro",
        ),
        (".py", ".rst"),
    ),
    Tree(
        "django",
        FETCHED / "django",
        (
            "django/forms",
            "django/utils",
            "django/core/cache",
            "django/core/*.py",
            "tests/utils_tests",
            "docs/topics/forms",
            "docs/topics/[a-i]*.txt",
            "docs/ref/forms",
            "docs/ref/utils.txt",
        ),
        (".py", ".txt"),
    ),
    Tree("flask", FETCHED / "flask", ("src", "tests", "docs"), _CODE_AND_PAGES),
    Tree("zod", FETCHED / "zod/src/v4", ("core/*.ts", "classic/*.ts", "classic/tests/[a-d]*.ts"), _SCRIPT),
    Tree(
        "go-net",
        _GO,
        (
            "net/textproto",
            "net/mail",
            "net/url",
            "mime",
            "encoding/json",
            "encoding/csv",
            "encoding/xml",
            "archive/zip",
        ),
        (".go",),
    ),
)
"""The first six to choose on, the others to check on. No setting of the graph had seen one of them."""
