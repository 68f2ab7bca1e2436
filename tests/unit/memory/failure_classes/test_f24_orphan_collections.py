"""F24: a collection that no feature's journal stands behind is told, and removed when asked."""

from __future__ import annotations

from pathlib import Path

from sluice.memory.qdrant_schema import collection_name, expected_collections
from tests.support.memory.facts import record, state_of
from tests.support.memory.index import local_index


def test_f24_orphan_collections_are_told_and_removed(tmp_path: Path) -> None:
    index = local_index(tmp_path, None)
    for feature in ("auth", "payments"):
        index.follow(state_of(record(1, feature=feature), feature=feature))
    auth, payments = (collection_name("/p", feature) for feature in ("auth", "payments"))
    assert expected_collections("/p", ["auth"]) == {auth}
    health = index.health(("auth",))
    assert (health.collections, health.orphans) == ((auth,), (payments,))
    assert index.drop_orphans(("auth",)) == (payments,)
    assert index.health(("auth",)).orphans == ()
    assert len(index.search(auth, "attempt", 5).hits) == 1
    index.close()


def test_f24_another_projects_collections_are_never_removed(tmp_path: Path) -> None:
    other = local_index(tmp_path, None, project="/other")
    other.follow(state_of(record(1)))
    index = local_index(tmp_path, None)
    assert index.drop_orphans(()) == ()
    assert other.search(collection_name("/other", "auth"), "attempt", 5).hits
    other.close()
