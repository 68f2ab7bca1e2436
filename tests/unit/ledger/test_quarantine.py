"""The quarantine and the negative list in the ledger, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from sluice.contracts.base import BlobRef
from sluice.contracts.errors import Conflict, NotFound
from sluice.contracts.operations.forget import Selection
from sluice.contracts.operations.quarantine import QuarantinePage
from sluice.contracts.trust import Finding
from sluice.ledger.ledger import Ledger
from sluice.ledger.trust.forgotten import FEW_ENTRIES, Named
from sluice.ledger.trust.quarantine import HeldChunk

NOON = datetime(2031, 5, 6, 12, tzinfo=UTC)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with Ledger(ledger_url, clock=NOON.timestamp) as opened:
        yield opened


def held(document_id: str = "d\x001", checksum: str = "a" * 64, **more: object) -> HeldChunk:
    facts = {
        "corpus": "docs",
        "document_id": document_id,
        "document_sha256": "d" * 64,
        "chunk_id": "c1",
        "checksum": checksum,
        "url": "https://example.org/100%_sure/page",
        "file_path": None,
        "origin": "crawled",
        "submitted_by": None,
        "findings": (Finding(rule="override.en", start=1, end=5, score=0.5),),
        "inspected_by": "1",
        "run_id": "run_1",
        "fetched_at": NOON,
        "blob": BlobRef(sha256="b" * 64, size_bytes=7),
        "source_sha256": "e" * 64,
    }
    return HeldChunk(**{**facts, **more})  # type: ignore[arg-type]


def test_a_chunk_is_held_once_with_its_latest_version_and_never_an_older_one(ledger: Ledger) -> None:
    newer = held(fetched_at=NOON + timedelta(hours=1), run_id="run_2", blob=BlobRef(sha256="f" * 64, size_bytes=9))
    assert ledger.quarantine.hold([held()]) == (held(),)
    assert ledger.quarantine.hold([newer]) == ()
    assert ledger.quarantine.hold([held()]) == ()
    [one] = ledger.quarantine.list()
    chunk, blob, actions = ledger.quarantine.show(one.id)
    assert (chunk.run_id, blob, list(actions)) == ("run_2", newer.blob, [])
    assert chunk.findings == newer.findings
    assert ledger.quarantine.count() == 1


@pytest.mark.parametrize(
    ("wanted", "is_found"),
    [
        ({"rule": "override.en"}, True),
        ({"rule": "override"}, False),
        ({"rule": "%"}, False),
        ({"url_prefix": "https://example.org/100%_"}, True),
        ({"url_prefix": "https://example.org/%"}, False),
        ({"corpora": ("docs", "other")}, True),
        ({"corpora": ()}, False),
        ({"document_id": "d\x001", "run_id": "run_1"}, True),
        ({"state": "released"}, False),
    ],
)
def test_a_list_has_what_meets_every_filter(ledger: Ledger, wanted: dict[str, object], is_found: bool) -> None:
    ledger.quarantine.hold([held()])
    assert bool(ledger.quarantine.list(QuarantinePage.model_validate(wanted))) == is_found


def test_what_was_decided_stands_and_is_told_to_the_inspection(ledger: Ledger) -> None:
    ledger.quarantine.hold([held(), held(checksum="9" * 64)])
    ids = {one.checksum: one.id for one in ledger.quarantine.list()}
    ledger.quarantine.release(ids["a" * 64], "ada", "a manual")
    assert ledger.quarantine.purge(ids["9" * 64], "ada", "spam", None) == ("b" * 64, "e" * 64)
    assert ledger.quarantine.purge(ids["9" * 64], "ada", "again, after a crash", None) == ("b" * 64, "e" * 64)
    ledger.quarantine.emptied(ids["9" * 64])
    assert ledger.quarantine.decisions("docs", "d\x001") == {"a" * 64: "released", "9" * 64: "purged"}
    assert ledger.quarantine.decisions("other", "d\x001") == {}
    for act in (ledger.quarantine.release, lambda *facts: ledger.quarantine.purge(*facts, None)):
        for held_id in ids.values():
            with pytest.raises(Conflict):
                act(held_id, "bob", "")
    with pytest.raises(NotFound):
        ledger.quarantine.release("qtn_none", "bob", "")
    assert [one.action for one in ledger.quarantine.show(ids["9" * 64])[2]] == ["purge"]


def test_what_is_forgotten_leaves_the_quarantine_by_id_url_run_and_key(ledger: Ledger) -> None:
    ledger.quarantine.hold([held("d1"), held("d2", url="https://example.com/", submitted_by="key_1", run_id="run_2")])
    by = {one.document_id: one.id for one in ledger.quarantine.list()}
    for selection, name in (
        (Selection(document_id="x"), "d1"),
        (Selection(url_prefix="https://example.com"), "d2"),
        (Selection(submitted_by="key_1"), "d2"),
        (Selection(run_id="run_1"), "d1"),
    ):
        ids = ["d1"] if selection.document_id else []
        assert set(ledger.quarantine.of("docs", ids, selection)) == {by[name]}
    ledger.quarantine.forget([by["d1"]])
    assert [one.document_id for one in ledger.quarantine.list()] == ["d2"]


@pytest.mark.parametrize("others", [0, FEW_ENTRIES + 5])
def test_the_negative_list_names_documents_by_any_of_its_kinds(ledger: Ledger, others: int) -> None:
    more = [("document_id", f"other-{number}") for number in range(others)]
    listed = [
        ("url", "https://a/\x00"),
        ("url_prefix", "https://b/"),
        ("submitted_by", "key_1"),
        ("checksum", "c" * 64),
    ]
    ledger.forgotten.add("docs", [*more, *listed], "ada", "")  # type: ignore[list-item]
    documents = {
        "url": Named(url="https://a/\x00"),
        "url_prefix": Named(url="https://b/c"),
        "submitted_by": Named(submitted_by="key_1"),
        "checksum": Named(checksum="c" * 64),
    }
    harmless = Named(url="https://bb/", document_id="d", run_id="run_1", submitted_by="key_2", checksum="e" * 64)
    found = ledger.forgotten.about("docs", [*documents.values(), harmless])
    assert {kind: found.names(document) for kind, document in documents.items()} == {kind: kind for kind in documents}
    assert found.names(harmless) is None
    assert ledger.forgotten.about("other", list(documents.values())).names(documents["url"]) is None


def test_an_entry_is_added_once_and_lifted_once(ledger: Ledger) -> None:
    for note in ("first", "second"):
        ledger.forgotten.add("docs", [("url", "https://a/")], "ada", note)
    [entry] = ledger.forgotten.list()
    assert (entry.note, entry.at) == ("first", NOON)
    ledger.forgotten.lift(entry.id, "bob", "")
    with pytest.raises(NotFound):
        ledger.forgotten.lift(entry.id, "bob", "")
    assert ledger.forgotten.list() == []
