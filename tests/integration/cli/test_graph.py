"""A repository with a failing test, from `git` to answers: read in, indexed, made a graph, and asked by `sluice graph`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.ledger.graph.store import Change
from sluice.workers.processes.watches.graph import CypherFiles
from sluice.workers.settings import load_settings
from tests.support.git_checkout import git, ingests, write
from tests.support.graph.corpus import FILES
from tests.support.in_process import Instance, MakeInstance
from tests.support.repository import MODELS
from tests.support.served import served
from tests.support.valkey import Valkey

JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" tests="2" failures="1">
<testcase classname="tests.test_checkout" name="test_pay" file="tests/test_checkout.py" line="4">
<failure message="assert 1 == 0">assert 1 == 0</failure></testcase>
<testcase classname="tests.test_cart" name="test_add" file="tests/test_cart.py" line="1"/>
</testsuite></testsuites>
"""
CORPUS = ("--corpus", "docs")
FAILING = ("--by", "failing-tests")

Sluice = Callable[..., Result]


@pytest.fixture
def instance(make_instance: MakeInstance, tmp_path: Path) -> Instance:
    """An instance that has read a repository into the corpus `docs`, and made its graph."""
    instance, folder = make_instance(), tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    files = {path: text for path, text in FILES.items() if path != "report.txt"}
    write(folder, {**files, "reports/junit.xml": JUNIT})
    ingests(instance, folder)
    instance.works("chunk", "embed", "index", "graph")
    CypherFiles(instance.context).look()
    return instance


@pytest.fixture
def sluice(instance: Instance, valkey: Valkey, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Sluice]:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(valkey.settings.data_dir))
    monkeypatch.setenv("SLUICE_EMBED__MODEL_DIR", str(MODELS))

    def run(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, ["graph", *arguments], prog_name="sluice", input=stdin)

    with served(load_settings()):
        yield run


def value(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_documents_linked_to_a_failing_test_that_touches_a_module(sluice: Sluice) -> None:
    found = value(sluice("near", "shop.checkout", *FAILING, *CORPUS, "--json"))
    assert "Symbol:python:tests.test_checkout.test_pay" in [test["id"] for test in found["tests"]]
    assert "repository/shop/checkout.py" in [one["document"]["path"] for one in found["documents"]]
    told = sluice("near", "repository/shop/checkout.py", *FAILING, *CORPUS)
    assert "failing tests that touch repository/shop/checkout.py" in " ".join(told.stdout.split())
    assert "REFERS_TO" in told.stdout
    assert sluice("near", "shop.nothing", *FAILING, *CORPUS).exit_code == 3


def test_the_graph_is_asked_in_cypher_from_an_argument_a_file_and_standard_input(
    sluice: Sluice, tmp_path: Path
) -> None:
    question = "MATCH (d:Document)-[:REFERS_TO]->(s:Symbol) WHERE s.name = $name RETURN DISTINCT d.path ORDER BY d.path"
    found = value(sluice("query", question, *CORPUS, "-p", "name=total", "--json"))
    assert found["columns"] == ["d.path"]
    assert ["repository/shop/checkout.py"] in found["rows"]
    (tmp_path / "question.cypher").write_text(question)
    named = ("-p", 'name="total"', *CORPUS, "--json")
    assert value(sluice("query", "--file", "question.cypher", *named))["rows"] == found["rows"]
    assert value(sluice("query", "--file", "-", *named, stdin=question))["rows"] == found["rows"]
    assert "shop/checkout.py" in sluice("query", question, *CORPUS, "-p", "name=total").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("MATCH (d:Document) DELETE d",), "line 1, column 20"),
        ((), "give the question or --file"),
        (("RETURN 1", "--file", "-"), "give the question or --file"),
        (("--file", "none.cypher"), "cannot be read"),
        (("RETURN 1", "-p", "name"), "is no name=value"),
        (("RETURN 1", "--timeout", "31"), "timeout_seconds"),
    ],
)
def test_what_is_wrong_is_refused_with_exit_code_2(sluice: Sluice, arguments: tuple[str, ...], told: str) -> None:
    refused = sluice("query", *arguments, *CORPUS)
    assert refused.exit_code == 2, refused.output
    assert told in " ".join(refused.output.split())


def test_neighbours_are_told_with_their_edges_and_lines(sluice: Sluice) -> None:
    found = value(sluice("near", "shop.cart.Cart", *CORPUS, "--json"))
    assert found["node"]["id"] == "Symbol:python:shop.cart.Cart"
    by = sluice("near", "repository/shop/cart.py", *CORPUS, "--edge", "LINKS_TO", "--direction", "in")
    assert by.exit_code == 0
    assert sluice("neighbours", "shop.cart.Cart", *CORPUS, "--json").stdout == json.dumps(found, indent=2) + "\n"
    assert sluice("near", "Symbol:python:none", *CORPUS).exit_code == 3
    assert "--by edges" in sluice("near", "x", *FAILING, "--edge", "LINKS_TO").output
    told = sluice("near", "shop.cart.Cart", *CORPUS, "--limit", "1")
    assert "in all; raise --limit" in told.stdout


def test_the_status_and_the_proof_that_the_grown_graph_is_the_one_read_anew(sluice: Sluice, instance: Instance) -> None:
    [stands] = value(sluice("status", "--json"))
    assert (stands["corpus"], stands["behind"], stands.get("problem")) == ("docs", 0, None)
    assert stands["cypher_version"] == stands["version"]
    proof = value(sluice("rebuild", *CORPUS, "--prove", "--json"))
    assert proof["is_equal"]
    assert proof["rebuilt_sha256"] == stands["graph_sha256"]
    assert "the graph that grew is the same" in sluice("rebuild", *CORPUS, "--prove").stdout
    with instance.context.ledger.graph.snapshot("docs") as rows:
        first = next(rows.rows()).document_id
    instance.context.ledger.graph.carry_out("docs", Change(1_000_000, remove=[first]))
    other = sluice("rebuild", *CORPUS, "--prove", "--json")
    assert other.exit_code == 1
    assert json.loads(other.stdout)["differing"] == [first]
    assert "the graph that grew is another" in sluice("rebuild", *CORPUS, "--prove").stdout
    assert "docs" in sluice("status").stdout
    assert sluice("status", "--corpus", "none").exit_code == 3
