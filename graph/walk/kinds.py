"""Tells tests, pages and other code apart by what their files are called."""

from __future__ import annotations

import re
from enum import Enum

from sluice.graph.generations.view import GraphView

_TEST_FILE = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)(?:test_[^/]*|conftest\.py)$|(?:_test|_spec|\.test|\.spec|Tests?)\.\w+$"
)
_PAGE_FILE = re.compile(r"\.(?:md|mdx|rst|txt|html?|adoc|ipynb|pdf)$", re.IGNORECASE)


class Kind(Enum):
    """What a document is: of tests, of prose, or other code."""

    TEST = "test"
    PAGE = "page"
    CODE = "code"


def kind_of(view: GraphView, vertex: int) -> Kind | None:
    """What the document is in which a vertex stands; None: it stands in none."""
    document = document_of(view, vertex)
    if document is None:
        return None
    path = view.path(document)
    if path is None or _PAGE_FILE.search(path):
        return Kind.PAGE
    return Kind.TEST if _TEST_FILE.search(path) else Kind.CODE


def document_of(view: GraphView, vertex: int) -> int | None:
    """The place of the document in which a vertex stands."""
    if vertex >= view.nodes:
        return view.definition(vertex).document
    return vertex if vertex < view.documents else None


def is_test(view: GraphView, vertex: int) -> bool:
    """Whether a vertex stands in a file of tests."""
    document = document_of(view, vertex)
    return document is not None and _TEST_FILE.search(view.path(document) or "") is not None
