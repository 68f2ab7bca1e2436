"""Each memory does what `MemoryPort` says: a folder's, an instance's over HTTP, and that of one that does not run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import httpx2
import pytest
from starlette.testclient import TestClient

from sluice.cli.agent.opened_memory import InstanceMemory
from sluice.cli.connection import Connection
from sluice.contracts.errors import NotFound
from sluice.contracts.memory.api import IterationContext, LearningPatch
from sluice.contracts.memory.learning import LearningState
from sluice.contracts.memory.port import MemoryPort
from sluice.memory import RagConfig, open_memory
from sluice.workers.service.callers import OWN_MACHINE
from sluice_client import errors
from tests.support.memory.instance import PROJECT, claude_stream

FAILED = 'Traceback (most recent call last):\n  File "src/auth.py", line 3, in login\nValueError: no session cookie\n'


def over(http: TestClient) -> MemoryPort:
    def carry(request: httpx2.Request) -> httpx2.Response:
        headers = dict(request.headers)
        answer = http.request(request.method, str(request.url), content=request.content, headers=headers)
        return httpx2.Response(answer.status_code, content=answer.content)

    return cast(
        MemoryPort, InstanceMemory(Connection("http://127.0.0.1", transport=httpx2.MockTransport(carry)), PROJECT)
    )


@pytest.fixture(params=["folder", "over HTTP", "opened here"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryPort:
    if request.param == "folder":
        return open_memory(tmp_path / "memory", PROJECT, config=RagConfig(engine="none"))
    http: TestClient = request.getfixturevalue("http")
    if request.param == "over HTTP":
        return over(http)
    opened: MemoryPort = http.app.state.instance.memory.of(PROJECT, OWN_MACHINE)  # type: ignore[attr-defined]
    return opened


def test_an_iteration_is_in_the_next_prompt_in_what_is_recalled_and_in_the_journal(memory: MemoryPort) -> None:
    accepted = memory.record("auth", claude_stream(output=FAILED), context=IterationContext(task_id=3))
    assert (accepted.is_new, accepted.record.task_id) == (True, 3)
    assert not memory.record("auth", claude_stream(output=FAILED), context=IterationContext(task_id=3)).is_new
    assert "no session cookie" in memory.prompt("auth", session_id="s2", iteration_number=2).text
    assert memory.recall("auth", "session cookie").results[0].id == accepted.entry_id
    entries = [json.loads(line) for line in memory.export("auth")]
    assert {"iteration", "printed"} <= {one["body"]["kind"] for one in entries}
    assert list(memory.features()) == ["auth"]
    assert memory.status().records == 1


def test_learnings_are_counted_changed_taken_apart_and_put_aside(memory: MemoryPort) -> None:
    first = memory.learn("auth", "The tests need a running database", "the build log").learning
    assert first is not None
    assert memory.learn("auth", "the tests need a running database.", "seen again").verdict == "duplicate"
    [repeated] = [one for one in map(json.loads, memory.export("auth")) if one["body"]["kind"] == "repeated"]
    [apart] = memory.undo("auth", repeated["id"])
    with pytest.raises((NotFound, errors.NotFound)):
        memory.undo("auth", repeated["id"])
    assert memory.patch("auth", first.id, LearningPatch(rejected=True)).state is LearningState.REJECTED
    assert [one.id for one in memory.learnings("auth").learnings] == [apart.id]
    assert [one.id for one in memory.learnings("auth", state=None).learnings] == [first.id, apart.id]
    assert list(memory.prune("auth")) == []


def test_what_is_held_is_proven_against_the_journal(memory: MemoryPort) -> None:
    memory.record("auth", claude_stream(output=FAILED))
    memory.rebuild("auth")
    proof = memory.prove("auth")
    assert (proof.feature, proof.differences, proof.problems) == ("auth", (), ())
    assert proof.documents - len(proof.missing) == proof.indexed
    assert proof.entries == len(list(memory.export("auth")))
    assert list(memory.drop_orphans()) == []
