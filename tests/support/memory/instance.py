"""An instance that remembers, without processes: its desk, and a query worker that answers while asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sluice.contracts.memory.api import IterationAccepted, IterationContext, LearningResult
from sluice.memory.qdrant_schema import collection_name
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.memories import MemoryDesk
from sluice.workers.steps.retrieve import DirectReads
from tests.support.in_process import Instance

PROJECT = "/home/me/shop"
STAGES = ("chunk", "embed", "index")


def claude_stream(session: str = "s1", *, command: str = "pytest", output: str = "", summary: str = "done") -> str:
    """What Claude Code prints of an iteration that runs one command; with an `output` of it the command fails."""
    call = {"type": "tool_use", "id": f"toolu_{session}", "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": output or "ok", "is_error": bool(output)}
    events: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "cwd": PROJECT, "session_id": session, "model": "claude-haiku"},
        {"type": "assistant", "message": {"id": "m1", "content": [call]}, "session_id": session},
        {"type": "user", "message": {"role": "user", "content": [result]}, "session_id": session},
        {
            "type": "result",
            "subtype": "success",
            "is_error": bool(output),
            "duration_ms": 1_200,
            "num_turns": 2,
            "result": summary,
            "session_id": session,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        },
    ]
    return "".join(json.dumps(event) + "\n" for event in events)


class Remembering:
    """What an instance remembers of the features of one project."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.desk = MemoryDesk(instance.context)
        self.memory = self.desk.of(PROJECT, OWN_MACHINE)

    def record(self, data: str, feature: str = "auth", **context: Any) -> IterationAccepted:
        """Hand in an iteration."""
        return self.memory.record(feature, data, context=IterationContext(**context))

    def learn(self, text: str, feature: str = "auth", **fields: Any) -> LearningResult:
        """Hand in a learning."""
        return self.memory.learn(feature, text, **{"reason": "the build log", **fields})

    def index(self) -> None:
        """Every stage does what is ready."""
        self.instance.works(*STAGES)

    def indexed(self, feature: str = "auth") -> dict[str, str]:
        """The text of each document that the index serves, by its id."""
        corpus, readers = collection_name(PROJECT, feature), self.instance.context.readers
        if not readers.exists(corpus):
            return {}
        reader = readers.reader(corpus)
        reader.reload()
        return {one.document_id: reader.chunks(one.document_id)[0].text for one in reader.all_facts()}

    @contextmanager
    def query_worker(self) -> Iterator[None]:
        """A query worker of one thread answers meanwhile."""
        stopping, transport = threading.Event(), self.instance.context.transport
        reads = DirectReads(self.instance.context)

        def serve() -> None:
            while not stopping.is_set():
                request = transport.next_read()
                if request is not None:
                    reads.take(request)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()
