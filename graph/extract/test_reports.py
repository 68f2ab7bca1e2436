"""The failing tests that a test report names: what ingest makes of JUnit's XML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Origin, document_node, symbol
from sluice.graph.extract.addresses import path_address

FACTS_KEY, TESTS = "repository_facts", "tests"
"""As ingest marks such a document (`ingest.repository.facts`)."""
_FAILED = re.compile(r"FAILED (?P<path>[^\s:]+)(?P<names>(?:::\S*)?)")
_PARAMETERS = re.compile(r"\[.*\Z", re.DOTALL)
_DETAIL = "failing test"
_LANGUAGES = {
    ".py": "python",
    **dict.fromkeys((".js", ".ts", ".tsx"), "javascript"),
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
}


def is_test_report(document: GraphDocument) -> bool:
    """Whether the document is one of failing tests."""
    return document.metadata.get(FACTS_KEY) == TESTS


def failing_test_edges(document: GraphDocument) -> Iterator[Edge]:
    """Of each failing test REFERS_TO the symbol of the test, and LINKS_TO its file."""
    source = document_node(document.document_id)
    for number, line in enumerate(document.text.split("\n"), 1):
        found = _FAILED.match(line)
        if found is None:
            continue
        path, names = found["path"].strip("/"), _PARAMETERS.sub("", found["names"]).split("::")
        suffix = next((suffix for suffix in _LANGUAGES if path.endswith(suffix)), "")
        module = path.removesuffix(suffix).replace("/", ".")
        name = ".".join(part for part in (module, *names) if part)
        test = symbol(_LANGUAGES.get(suffix, "python"), name)
        yield Edge(EdgeType.REFERS_TO, source, test, Origin.TEST, (number,), _DETAIL)
        yield Edge(EdgeType.LINKS_TO, source, path_address(_file(path, suffix)), Origin.TEST, (number,), _DETAIL)


def _file(path: str, suffix: str) -> str:
    """The file of a test; a report that tells no files has the dotted name of a module, and maybe of a class in it."""
    if suffix:
        return path
    parts = path.split("/")
    while len(parts) > 1 and parts[-1][:1].isupper():
        parts.pop()
    return "/".join(parts) + ".py"
