"""`sluice freshness` on a real index: what changed between two jobs, what is recorded of it, and who gets the plan."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.contracts.document import ChunkedDocument, document_id_for
from sluice.index.local.working_set import WorkingSet
from sluice.index.local.writer import IndexWriter
from tests.support.index_corpus import Maker


@dataclass
class Job:
    """The command, and the corpus that it looks at."""

    data_dir: Path
    make: Maker

    def page(self, name: str, text: str) -> ChunkedDocument:
        url = f"https://example.org/{name}"
        return self.make.document(document_id_for(url), text, url=url, source="crawl")

    def holds(self, *pages: ChunkedDocument, removed: tuple[str, ...] = ()) -> None:
        with IndexWriter(self.data_dir / "index", "default") as writer:
            writer.append(*self.make.batch(pages))
            writer.remove([document_id_for(f"https://example.org/{name}") for name in removed])
            writer.publish()

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["freshness", *arguments], prog_name="sluice")

    def told(self, *arguments: str) -> dict[str, Any]:
        result = self.run("--json", *arguments)
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def lines(self, name: str) -> list[dict[str, Any]]:
        path = self.data_dir / "freshness" / "default" / name
        return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Maker) -> Job:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(tmp_path / "data"))
    job = Job(tmp_path / "data", make)
    job.holds(*(job.page(name, f"text of {name}") for name in "abc"))
    return job


Script = Callable[[str], str]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Makes the command line of a Python program."""

    def make(program: str) -> str:
        path = tmp_path / "hook.py"
        path.write_text(program)
        return f"{sys.executable} {path}"

    return make


def test_the_first_job_plans_everything_and_the_next_one_what_differs(job: Job) -> None:
    first = job.told()
    assert (first["new"], first["changed"], first["deleted"], first["unchanged"], first["prior"]) == (3, 0, 0, 0, None)
    assert [line["url"][-1] for line in job.lines("manifest.jsonl")] == ["a", "b", "c"]
    job.holds(job.page("b", "another text"), job.page("d", "text of d"), removed=("c",))
    second = job.told()
    assert (second["new"], second["changed"], second["deleted"], second["unchanged"]) == (1, 1, 1, 1)
    planned = [(line["url"][-1], line["status"]) for line in job.lines("refresh_plan.jsonl")]
    assert planned == [("b", "changed"), ("c", "deleted"), ("d", "new")]
    assert job.told()["unchanged"] == 3
    decided = [(line["decision"], line["url"][-1]) for line in job.lines("embedding_ledger.jsonl")]
    assert decided[3:] == [("embed", "b"), ("forget", "c"), ("embed", "d")]


def test_the_hash_of_the_corpus_follows_its_content(job: Job) -> None:
    first = job.told()["corpus_hash"]
    assert job.told()["corpus_hash"] == first
    job.holds(job.page("a", "another text"))
    assert job.told()["corpus_hash"] != first
    job.holds(job.page("a", "text of a"))
    assert job.told()["corpus_hash"] == first


def test_a_corpus_that_serves_something_else_than_was_published_is_told_of(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(WorkingSet, "id_set_hash", "ab" * 32)
        job.holds(job.page("d", "text of d"))
    result = job.run()
    assert result.exit_code == 1
    assert "serves something else" in result.output
    assert "sluice rebuild --corpus default --prove" in " ".join(result.output.split())


def test_two_manifests_of_any_origin_are_compared(job: Job, tmp_path: Path) -> None:
    for name, checksum in (("monday", "1"), ("tuesday", "2")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"url": "https://a/", "checksum": checksum}) + "\n")
    told = job.told("--prior", "monday.jsonl", "--current", "tuesday.jsonl", "--out", "plans")
    assert (told["changed"], told["corpus"], Path(told["plan"])) == (1, None, Path("plans/refresh_plan.jsonl"))
    assert not (job.data_dir / "freshness").exists()


def test_the_command_gets_the_plan_and_its_exit_code_is_ours(job: Job, script: Script) -> None:
    """A job whose command failed did not go through: the next one plans the same again."""
    program = "import os, sys; assert sys.argv[1] == os.environ['SLUICE_REFRESH_PLAN']; print(len(list(open(sys.argv[1])))); sys.exit(7)"
    failed = job.run("--exec", script(program))
    assert failed.exit_code == 7
    assert job.lines("embedding_ledger.jsonl")[-1]["exit_code"] == 7
    assert job.told("--exec", script("pass"))["new"] == 3
    quiet = job.told("--exec", script("raise SystemExit('is not run where there is nothing to do')"))
    assert (quiet["unchanged"], quiet["exit_code"]) == (3, None)


def test_a_command_that_hangs_is_ended_with_what_it_started(job: Job, script: Script) -> None:
    result = job.run("--timeout", "1", "--exec", script("import time; time.sleep(600)"))
    assert result.exit_code == 6
    assert "longer than 1 seconds" in result.output
    assert job.lines("embedding_ledger.jsonl")[-1]["exit_code"] is None
    assert not (job.data_dir / "freshness" / "default" / "manifest.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "exit_code", "problem"),
    [
        (("--corpus", "nowhere"), 3, "nothing was written to a corpus"),
        (("--current", "m.jsonl"), 2, "give --prior and --current"),
        (("--prior", "none.jsonl"), 3, "no manifest none.jsonl"),
        (("--exec", "no-such-program"), 2, "cannot be run"),
        (("--exec", "'"), 2, "cannot be read"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    job: Job, arguments: tuple[str, ...], exit_code: int, problem: str
) -> None:
    result = job.run(*arguments)
    assert result.exit_code == exit_code
    assert problem in " ".join(result.output.split())
