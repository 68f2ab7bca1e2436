"""`sluice corpora` over HTTP: made, listed, changed, exported, imported and deleted."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluice.cli.main import app
from tests.support.in_process import Instance, MakeInstance
from tests.support.served import served

STAGES = ("chunk", "embed", "index")


@pytest.fixture
def instance(make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> Iterator[Instance]:
    """An instance whose stages work beside the commands."""
    made, is_over = make_instance(graph={"enabled": False}), threading.Event()

    def work() -> None:
        while not is_over.wait(0.05):
            made.works(*STAGES)

    with served(made.context.settings) as url:
        monkeypatch.setenv("SLUICE_URL", url)
        worker = threading.Thread(target=work)
        worker.start()
        yield made
        is_over.set()
        worker.join()


def sluice(*arguments: str, fails: bool = False) -> Any:
    done = CliRunner().invoke(app, ["corpora", *arguments, "--json"])
    assert (done.exit_code != 0) is fails, done.output
    return done.output if fails else json.loads(done.stdout)


def test_a_corpus_goes_from_its_making_to_its_deletion(instance: Instance, tmp_path: Path) -> None:
    made = sluice("pets", "--make", "--description", "Ferrets")
    assert (made["name"], made["settings"]["description"]) == ("pets", "Ferrets")
    assert not sluice("pets", "--no-search")["policy"]["search"]
    instance.adds("A ferret sleeps.", "An otter swims.")
    assert {one["name"] for one in sluice()} == {"default", "docs", "pets"}
    file = tmp_path / "default.tar"
    assert sluice("default", "--export", str(file))["status"] == "finished"
    assert sluice("pets", "--import", str(file))["status"] == "finished"
    assert sluice("pets")["documents"] == sluice("default")["documents"]
    sluice("pets", "--import", str(tmp_path / "nothing.tar"), fails=True)
    assert sluice("pets", "--delete", "--yes")["status"] == "finished"
    assert "pets" in sluice("pets", fails=True)
