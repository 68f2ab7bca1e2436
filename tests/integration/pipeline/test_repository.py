"""Repositories as documents: what changed is read, what went is removed, and code is judged before it is run."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from sluice.contracts.api import DocumentsRequest, GateRequest
from sluice.contracts.errors import InvalidInput, PolicyRefused
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.gate.decide import explain
from sluice.gate.profile import choose_profile
from sluice.ingest.repository.git import GitRepository
from tests.support.git_checkout import git, ingests, write
from tests.support.in_process import Instance, MakeInstance

STAGES = ("chunk", "embed", "index", "index")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "parcel"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    write(
        folder,
        {
            "src/parcel/leases.py": 'def renew_lease(holder: str) -> int:\n    """Renew the lease of a holder; gives the seconds that are left."""\n    return 30\n',
            "src/parcel/cleanup.py": "import shutil\n\n\ndef drop_cache(folder: str) -> None:\n    # TODO: ask first\n    shutil.rmtree(folder)\n",
            "requirements.txt": "requests==1.2.3\npytest>=7\n",
            "README.md": "# Parcel\n\nParcel hands out leases.\n",
        },
    )
    return folder


def asks(instance: Instance, question: str, **fields: object) -> str:
    run = instance.service.ask(GateRequest.model_validate({"query": question, "corpus": "docs", **fields}))
    instance.works("query", "gate", "query")
    return run.run_id


def test_a_second_reading_takes_only_what_changed_and_removes_what_went(
    make_instance: MakeInstance, checkout: Path
) -> None:
    instance = make_instance()
    first, _ = ingests(instance, checkout)
    assert "parcel/src/parcel/leases.py" in first
    assert ingests(instance, checkout) == ([], [])
    (checkout / "src/parcel/cleanup.py").unlink()
    commit = write(checkout, {"README.md": "# Parcel\n\nParcel hands out leases for parcels.\n"})
    second, removed = ingests(instance, checkout)
    assert (second, len(removed)) == (["parcel/README.md"], 1)
    facts = {one.file_path: one for one in instance.context.readers.reader("docs").all_facts()}
    assert set(facts) == {
        "parcel/README.md",
        "parcel/src/parcel/leases.py",
        "parcel/requirements.txt",
        "parcel/DEPENDENCIES",
    }
    provenance = facts["parcel/README.md"].provenance
    assert (provenance.commit, provenance.branch, provenance.repository) == (commit, "main", str(checkout))
    assert facts["parcel/src/parcel/leases.py"].provenance.commit != commit


def test_what_is_not_committed_is_not_read(make_instance: MakeInstance, checkout: Path) -> None:
    (checkout / "secret.txt").write_text("untracked")
    (checkout / "README.md").write_text("changed and not committed")
    instance = make_instance()
    paths, _ = ingests(instance, checkout)
    assert "parcel/secret.txt" not in paths
    texts = instance.context.readers.reader("docs").chunks(
        next(
            one.document_id
            for one in instance.context.readers.reader("docs").all_facts()
            if one.file_path == "parcel/README.md"
        )
    )
    assert "hands out leases" in texts[0].text


def test_another_repository_of_the_same_name_is_refused_and_not_mixed(
    make_instance: MakeInstance, checkout: Path, tmp_path: Path
) -> None:
    instance = make_instance()
    ingests(instance, checkout)
    other = tmp_path / "elsewhere" / "parcel"
    other.mkdir(parents=True)
    git(other, "init", "-q")
    write(other, {"a.py": "x = 1\n"})
    with pytest.raises(InvalidInput, match="has a repository parcel from"):
        ingests(instance, other)


def test_a_repository_over_plain_http_is_refused_before_anything_is_asked(make_instance: MakeInstance) -> None:
    with pytest.raises(PolicyRefused, match="plain HTTP"):
        ingests(make_instance(), "http://127.0.0.1:9/a/b")


def test_an_answer_of_the_code_profile_says_what_a_tool_may_run(make_instance: MakeInstance, checkout: Path) -> None:
    instance = make_instance()
    ingests(instance, checkout)
    run_id = asks(instance, "what does drop_cache do with the folder", profile="code", plan="retrieve", prompt="rag")
    view = instance.context.ledger.run(run_id)
    assert view.answer
    [cited] = [one for one in view.answer.citations if "cleanup.py" in one.source]
    assert cited.code
    assert (cited.code.executed, cited.code.policy) == (False, "needs_approval")
    assert "deletes_files: shutil.rmtree" in cited.code.why
    assert any("Code: not executed. Policy for running it: needs approval" in one.content for one in view.prompt)
    plain = instance.context.ledger.run(asks(instance, "what does drop_cache do with the folder", plan="retrieve"))
    assert plain.answer
    assert all(one.code is None for one in plain.answer.citations)


def test_a_dependency_a_major_release_behind_speaks_for_searching(make_instance: MakeInstance, checkout: Path) -> None:
    instance = make_instance()
    ingests(instance, checkout)
    told = "Requests release history\n\nRequests 2.32.0 was released. Sessions now verify certificates."
    instance.service.add_documents(
        DocumentsRequest.model_validate({"documents": [{"text": told, "id": "n"}], "corpus": "docs"})
    )
    instance.works(*STAGES)
    run_id = asks(instance, "how does requests verify certificates in sessions", profile="code")
    ledger = instance.context.ledger
    decision = ledger.events_of_kind(run_id, GateDecided.kind)[0].body_as(GateDecided)
    drift = {one.feature: one for one in decision.contributions}["dependency_drift"]
    assert (drift.value, drift.raw) == (
        1.0, "requests 1.2.3 in parcel/requirements.txt, the newest indexed release is 2.32.0",
    )  # fmt: skip
    request = ledger.events_of_kind(run_id, GateRequested.kind)[0].body_as(GateRequested)
    probed = ledger.events_of_kind(run_id, CoverageProbed.kind)[0].body_as(CoverageProbed)
    again = explain(request, probed, decision, choose_profile(instance.context.profiles, "code"))
    assert again.model_dump_json() == decision.model_dump_json()


def test_a_path_that_is_not_utf_8_is_left_out_by_name_and_no_other(checkout: Path) -> None:
    (checkout / os.fsdecode(b"odd-\xff.md")).write_text("An odd name.")
    write(checkout, {"plain.md": "A plain name."})
    skipped: list[str] = []
    opened = GitRepository(checkout)
    files = opened.files(opened.commit(), lambda path, reason: skipped.append(f"{path}: {reason}"))
    assert "plain.md" in [file.path for file in files]
    assert skipped == ["odd-\\xff.md: its path is not UTF-8"]


def test_the_list_of_a_tree_bomb_is_bounded(checkout: Path) -> None:
    """Eight levels of ten times the same tree: 100,000,000 files in nine objects."""

    def made(*command: str, entries: str) -> str:
        asked = ["git", "-C", str(checkout), *command]
        return subprocess.run(asked, input=entries, check=True, capture_output=True, text=True).stdout.strip()

    inner = made("hash-object", "-w", "--stdin", entries="a text")
    entry = "100644 blob"
    for _ in range(8):
        inner = made("mktree", entries="".join(f"{entry} {inner}\tn{number}\n" for number in range(10)))
        entry = "040000 tree"
    commit = git(checkout, "commit-tree", inner, "-m", "bomb").strip()
    opened = GitRepository(checkout)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidInput, match="git ls-tree writes more than"):
        opened.files(opened.commit(commit), lambda *_: None)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
