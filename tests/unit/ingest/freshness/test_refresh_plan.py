"""A plan holds exactly what differs between two manifests, and each of its decisions is recorded for good."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sluice.disk.durable import append_lines
from sluice.ingest.freshness import (
    Counts,
    ManifestEntry,
    PlannedRefresh,
    compare,
    read_plan,
    record_command,
    record_plan,
    write_plan,
)

NOW = datetime(2031, 5, 6, 12, tzinfo=UTC)
CORPORA = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("123"))


def entries(pages: dict[str, str]) -> list[ManifestEntry]:
    found = (ManifestEntry(url=f"https://example.org/{name}", checksum=checksum) for name, checksum in pages.items())
    return sorted(found, key=lambda entry: entry.key)


@given(prior=CORPORA, current=CORPORA)
def test_the_plan_is_the_difference_and_nothing_else(prior: dict[str, str], current: dict[str, str]) -> None:
    planned = [one for one in compare(entries(prior), entries(current)) if one]
    told = {(one.url[-1], one.status, one.prior_checksum, one.checksum) for one in planned}
    expected = {(name, "new", None, current[name]) for name in current.keys() - prior.keys()}
    expected |= {(name, "deleted", prior[name], None) for name in prior.keys() - current.keys()}
    both = prior.keys() & current.keys()
    expected |= {(name, "changed", prior[name], current[name]) for name in both if prior[name] != current[name]}
    assert told == expected
    assert [one.url for one in planned] == sorted(one.url for one in planned)


def test_two_documents_of_one_address_are_told_apart() -> None:
    """What a search showed of a page, and the page itself."""
    page = ManifestEntry(url="https://a/", checksum="1")
    shown = ManifestEntry(url="https://a/", checksum="2", document_id="doc_snippet")
    both = sorted((page, shown), key=lambda entry: entry.key)
    [planned] = [one for one in compare(both, [page]) if one]
    assert (planned.status, planned.document_id) == ("deleted", "doc_snippet")


def test_a_page_named_by_its_address_alone_is_the_page_of_that_address() -> None:
    """So the manifest of another program is compared with one of ours."""
    from sluice.contracts.document import document_id_for

    ours = ManifestEntry(url="https://a/", checksum="1", document_id=document_id_for("https://a/"))
    assert list(compare([ManifestEntry(url="https://a/", checksum="1")], [ours])) == [None]


def test_the_same_manifests_give_the_same_bytes(tmp_path: Path) -> None:
    prior, current = entries({"a": "1", "b": "1", "c": "1"}), entries({"b": "2", "c": "1", "d": "1"})
    counts = write_plan(prior, current, tmp_path / "one.jsonl")
    assert counts == Counts(new=1, changed=1, deleted=1, unchanged=1)
    write_plan(prior, current, tmp_path / "two.jsonl")
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    assert [(one.url[-1], one.status) for one in read_plan(tmp_path / "one.jsonl")] == [
        ("a", "deleted"),
        ("b", "changed"),
        ("d", "new"),
    ]


def test_each_decision_is_a_line_of_its_own_and_lines_are_only_added(tmp_path: Path) -> None:
    record = tmp_path / "embedding_ledger.jsonl"
    plan = [
        PlannedRefresh(url="https://a/", status="changed", checksum="2", prior_checksum="1", why="its checksum"),
        PlannedRefresh(url="https://b/", status="deleted", prior_checksum="1", why="gone"),
    ]
    assert record_plan(plan, record, NOW) == 2
    first = record.read_bytes()
    record_command(record, NOW, "embed --all", 3, tmp_path / "plan.jsonl")
    assert record.read_bytes().startswith(first)
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [line["decision"] for line in lines] == ["embed", "forget", "exec"]
    assert {line["at"] for line in lines} == {NOW.isoformat()}
    assert lines[2]["exit_code"] == 3


def test_what_a_killed_process_left_half_written_spoils_no_other_line(tmp_path: Path) -> None:
    record = tmp_path / "embedding_ledger.jsonl"
    record.write_text('{"at": "2031", "deci')
    append_lines(record, [{"decision": "embed"}])
    assert json.loads(record.read_text().splitlines()[1]) == {"decision": "embed"}
