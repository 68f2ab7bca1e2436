"""F18: two projects may have a feature of the same name, and never share a collection, a point or a result."""

from __future__ import annotations

from sluice.memory.qdrant_schema import collection_name, document_of_learning, document_of_record, orphan_collections
from tests.support.memory.facts import learning, record


def test_f18_two_projects_with_the_same_feature_have_two_collections() -> None:
    assert collection_name("/home/a/shop", "auth") != collection_name("/home/b/shop", "auth")
    assert collection_name("/home/a/shop", "auth") != collection_name("/home/a/shop", "payments")


def test_f18_the_same_iteration_of_two_projects_has_two_points() -> None:
    documents = [document_of_record(record(1), "mem_1", project) for project in ("/a", "/b")]
    documents += [document_of_learning(learning("use X"), project) for project in ("/a", "/b")]
    assert len({document.chunks[0].chunk_id for document in documents}) == 4
    assert [document.metadata["project_path"] for document in documents] == ["/a", "/b", "/a", "/b"]


def test_f18_the_collections_of_another_project_are_no_orphans() -> None:
    assert orphan_collections([collection_name("/b", "auth")], "/a", []) == ()
