"""`sluice reindex`: the corpus of an instance that works gets another model, and nothing that is under way is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.contracts.api import DocumentsRequest
from sluice.contracts.errors import Overloaded, Unavailable
from sluice.contracts.retrieval import Query, Strategy
from sluice.index.folder import CorpusLayout, take_over
from sluice.index.local.writer import IndexWriter
from sluice.ingest.embed.minilm import FINGERPRINTS
from tests.support.in_process import Instance
from tests.support.repository import IMPORT_PATH, MODELS
from tests.support.searching import searched
from tests.support.valkey import Valkey

CORPUS = "default"
TEXTS = ("A lease is renewed by a heartbeat.", "A badger sleeps in its sett.", "Valves open under pressure.")
BOTH = {"corpora": {"int8-*": {"precision": "int8"}}, "model_dir": str(MODELS)}
"""Settings of a second model beside the general one: then both can be had."""

Sluice = Callable[..., Result]


@pytest.fixture
def instance(valkey: Valkey) -> Iterator[Instance]:
    """An instance that has three documents, as the vectors of the published model."""
    instance = Instance(valkey, {"embed": BOTH})
    instance.adds(*TEXTS)
    instance.works("chunk", "embed", "index")
    yield instance
    instance.close()


@pytest.fixture
def sluice(valkey: Valkey, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sluice:
    """The command line of that instance."""
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    for name, value in environment(valkey).items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: CliRunner().invoke(app, ["reindex", *arguments], prog_name="sluice")


@pytest.fixture
def letting_go(instance: Instance) -> Iterator[None]:
    """What a worker does now and then while idle."""
    ending = threading.Event()

    def keep_tidy() -> None:
        while not ending.wait(0.02):
            instance.context.writers.close_wanted()

    thread = threading.Thread(target=keep_tidy)
    thread.start()
    yield
    ending.set()
    thread.join()


def environment(valkey: Valkey) -> dict[str, str]:
    return {
        "SLUICE_DATA_DIR": str(valkey.settings.data_dir),
        "SLUICE_EMBED__CORPORA": json.dumps(BOTH["corpora"]),
        "SLUICE_EMBED__MODEL_DIR": str(MODELS),
    }


def value(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.usefixtures("exact_int8", "letting_go")
def test_a_working_instance_goes_on_with_the_new_model_and_embeds_late_vectors_again(
    instance: Instance, sluice: Sluice
) -> None:
    late = instance.service.add_documents(_request("late", "Otters swim on their backs.")).run_id
    instance.works("chunk", "embed")  # its vectors are the old model's, and on their way
    told = value(sluice("--model", "int8", "--json"))
    assert (told["is_changed"], told["model"], told["chunks"]) == (True, FINGERPRINTS["int8"], 3)
    assert told["embedded_chunks"] == told["documents"] == 3

    before = instance.context.ledger.run(late).spend.tokens
    instance.works("index", "embed", "index")
    run = instance.context.ledger.run(late)
    assert (run.status, run.dead_letters) == ("finished", 0)
    assert run.spend.tokens == 2 * before > 0
    reader = instance.context.readers.reader(CORPUS)
    assert reader.model_fingerprint == FINGERPRINTS["int8"]
    for text in (*TEXTS, "Otters swim on their backs."):
        found, _ = searched(Query(query=text, strategy=Strategy.VECTOR, top_k=1), instance.context)
        assert found.chunks[0].text == text
        assert found.chunks[0].dense_distance == pytest.approx(0, abs=1e-3)

    assert "has the model" in sluice("--model", "int8").stdout
    back = value(sluice("--model", FINGERPRINTS["fp32"], "--keep-old", "--json"))
    assert (back["model_before"], back["chunks"], back["cache_hits"]) == (FINGERPRINTS["int8"], 4, 4)
    assert Path(back["kept"]).is_dir()
    instance.adds("A heron stands in the shallows.")
    instance.works("chunk", "embed", "index")
    assert reader.model_fingerprint == FINGERPRINTS["fp32"]


@pytest.mark.usefixtures("exact_int8")
def test_a_worker_that_holds_the_corpus_hands_it_over_and_takes_it_up_again(
    instance: Instance, valkey: Valkey, sluice: Sluice, tmp_path: Path
) -> None:
    instance.context.writers.close()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE", "PROMETH"))}
    command = [sys.executable, "-m", "sluice.cli", "worker", "index"]
    variables = {**inherited, **environment(valkey), "PYTHONPATH": IMPORT_PATH}
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=log, stderr=log)
    try:
        _await_finished(instance, "first")
        with pytest.raises(Unavailable):  # the worker holds the corpus
            IndexWriter(instance.context.settings.index_root, CORPUS)
        assert value(sluice("--model", "int8", "--json"))["chunks"] == 4
        _await_finished(instance, "second")
        assert instance.context.readers.reader(CORPUS).model_fingerprint == FINGERPRINTS["int8"]
    finally:
        worker.terminate()
        worker.wait(timeout=90)


def test_a_corpus_that_is_being_handed_over_is_to_be_tried_again(instance: Instance) -> None:
    context = instance.context
    layout = CorpusLayout(context.settings.index_root, CORPUS)
    with context.writers.writing(CORPUS) as writer:
        taken = threading.Thread(target=lambda: _take_over(layout))
        taken.start()
        while not layout.handover.exists():
            time.sleep(0.001)
        context.writers.close_wanted()
        offset = writer.journal_offset
        assert writer.remove(["unknown"]) == offset  # in use: nobody closed it
    with pytest.raises(Overloaded) as refused, context.writers.writing(CORPUS):
        pass
    assert refused.value.retry_after_seconds > 0
    taken.join()
    with context.writers.writing(CORPUS) as writer:
        assert writer.journal_offset == offset


def test_models_corpora_and_engines_that_will_not_do_are_refused_by_name(
    instance: Instance, sluice: Sluice, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = sluice("--model", "word2vec")
    assert unknown.exit_code == 2
    assert all(name in " ".join(unknown.output.split()) for name in ("fp32", "int8", FINGERPRINTS["int8"]))
    assert sluice("--model", "openai").exit_code == 2
    assert sluice("--model", "int8", "-c", "unknown").exit_code == 3
    assert sluice("--model", "fp32").exit_code == 0
    monkeypatch.setenv("SLUICE_INDEX__ENGINE", "qdrant")
    assert "index.engine" in sluice("--model", "int8").output


def _take_over(layout: CorpusLayout) -> None:
    with take_over(layout, 10):
        pass


def _request(document_id: str, text: str) -> Any:
    return DocumentsRequest.model_validate({"documents": [{"id": document_id, "text": text}]})


def _await_finished(instance: Instance, document_id: str) -> None:
    run_id = instance.service.add_documents(_request(document_id, f"The {document_id} of all.")).run_id
    instance.works("chunk", "embed")
    deadline = time.monotonic() + 60
    while instance.context.ledger.run(run_id).status != "finished":
        assert time.monotonic() < deadline, instance.context.ledger.run(run_id)
        time.sleep(0.05)
