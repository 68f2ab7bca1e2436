"""The client knows what the server's own description says: every operation, every parameter, every shape."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sluice.api.app import make_api
from sluice.contracts.event import Event
from sluice.workers.settings import Settings
from sluice_client import models
from sluice_client.calls import Call, operation
from sluice_client.operations import Operations
from tests.support.repository import REPOSITORY

LEFT_OUT = {"GET /v1/runs/{}/events", "PUT /v1/memory/learnings", "GET /v1/memory/prompt"}
"""A stream has a method of its own on each client; what is always refused has none; a prompt is recorded."""
SAMPLES = {
    "filter": {},
    "documents": (),
    "payload": b"",
    "files": {},
    "enabled": True,
    "data": "",
    "queries": (),
    "requests": (),
    "metadata": {},
}
"""Arguments that are no text."""
WRITTEN_BY_HAND = {"Idempotency-Key", "Last-Event-ID"}
BODIES_TOO = {"DELETE /v1/documents"}
"""What may stand in the query or in the body: the client sends a body."""


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    described: dict[str, Any] = make_api(Settings()).openapi()
    return described


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("client_models", REPOSITORY / ".ci" / "client_models.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_models_are_those_of_the_servers_description(description: dict[str, Any], writer: ModuleType) -> None:
    written = {path.name: path.read_text() for path in writer.FOLDER.glob("*.py")}
    assert written == writer.sources(description), "run .venv/bin/python .ci/client_models.py"


def test_an_event_has_the_fields_of_the_servers() -> None:
    assert set(models.Event.model_fields) == set(Event.model_fields)


def test_every_model_can_be_built() -> None:
    for module in models._NAMES.values():  # noqa: SLF001
        for name in module.split():
            model = getattr(models, name)
            if hasattr(model, "model_rebuild"):
                model.model_rebuild()


def described_calls() -> dict[str, Call[Any]]:
    """Every operation, called with all its parameters."""
    calls = [one for one in vars(Operations).values() if isinstance(one, operation)]
    return {f"{call.method} {call.route}": call for call in map(called, calls)}


def called(one: operation[..., Any]) -> Call[Any]:
    """The call with every parameter given."""
    given = {
        name: SAMPLES.get(name, parameter.default if parameter.default not in (None, inspect.Parameter.empty) else "x")
        for name, parameter in list(inspect.signature(one.describe).parameters.items())[1:]
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    return one.call(**given)


def test_every_operation_of_the_server_has_its_call(description: dict[str, Any]) -> None:
    offered = {
        f"{method.upper()} {re.sub(r'{.*?}', '{}', path)}"
        for path, operations in description["paths"].items()
        for method in operations
    }
    assert offered - LEFT_OUT == set(described_calls())


def test_every_parameter_of_an_operation_is_one_that_the_server_takes(description: dict[str, Any]) -> None:
    calls = described_calls()
    for path, operations in description["paths"].items():
        for method, told in operations.items():
            name = f"{method.upper()} {re.sub(r'{.*?}', '{}', path)}"
            if name in LEFT_OUT:
                continue
            taken = {one["name"] for one in told.get("parameters", ()) if one["in"] == "query"}
            sent = {parameter for parameter, _ in calls[name].query}
            assert sent <= taken, name
            is_open = any(
                parameter.kind is inspect.Parameter.VAR_KEYWORD
                for parameter in inspect.signature(operation_of(name).describe).parameters.values()
            )
            assert is_open or name in BODIES_TOO or taken - {"edge"} <= sent, name
            assert ("requestBody" in told) == (calls[name].body is not None), name


def operation_of(name: str) -> operation[..., Any]:
    return next(
        one
        for one in vars(Operations).values()
        if isinstance(one, operation) and f"{(call := called(one)).method} {call.route}" == name
    )


def test_the_client_needs_httpx2_and_pydantic_and_nothing_of_the_server() -> None:
    script = (
        "import sys; before = set(sys.modules)\n"
        "import pydantic, sluice_client, sluice_client.models as m; m.RunView, sluice_client.SluiceClient('http://127.0.0.1:1')\n"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    loaded = set(said.split()) - sys.stdlib_module_names
    assert "sluice_client" in loaded
    assert not {"sluice", "stamina", "structlog", "typer", "rich", "opentelemetry"} & loaded


def test_a_client_alone_imports_no_model_and_is_quick() -> None:
    script = "import sys, sluice_client; sluice_client.SluiceClient('http://127.0.0.1:1'); print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not {"pydantic", "sluice_client.models", "ssl_context"} & set(said.split())


def test_the_folder_of_the_client_is_a_distribution_of_its_own() -> None:
    assert Path(REPOSITORY / "src" / "sluice_client").resolve() == REPOSITORY / "clients" / "python" / "sluice_client"
