"""An instance without processes, whose stages work when a test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from typing import Any

import pytest

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.budget import Spend
from sluice.contracts.event import Body, Event, Gap, Next, Queue, new_run_id
from sluice.contracts.operations.corpora import CorpusSettings
from sluice.ledger.ledger import NewRun
from sluice.workers.context import Context
from sluice.workers.handlers import append_again
from sluice.workers.runtime.claims import Heartbeat
from sluice.workers.service.service import Service
from sluice.workers.settings import Settings
from sluice.workers.steps.retrieve import DirectReads
from sluice.workers.task import StageWorker, use_wake_up
from tests.support.repository import MODELS
from tests.support.valkey import Valkey


class Instance:
    """An instance without processes: its stages work when a test says so."""

    def __init__(self, valkey: Valkey, sections: dict[str, Any]) -> None:
        models = {"embed": {"model_dir": MODELS}, "gate": {"deadline_seconds": 600}}
        self.context = Context(Settings.model_validate({"data_dir": valkey.settings.data_dir, **models, **sections}))
        self.context.append_again = append_again
        self.service = Service(self.context)
        if self.context.ledger.corpora.one("docs") is None:
            self.context.ledger.corpora.create("docs", CorpusSettings(), "local")
        self.heartbeat = Heartbeat(self.context.ledger, 30.0)

    def works(self, *stages: Queue) -> None:
        """Each stage does all that is ready in it, one after the other."""
        for stage in stages:
            worker = StageWorker(stage, f"{stage}-1", self.context, self.heartbeat)
            while backlog := self.context.ledger.backlogs().get(stage):
                for wake_up in self.context.ledger.next_ready(stage, backlog.ready):
                    use_wake_up(wake_up.event_id, worker)

    def works_once(self, stage: Queue) -> None:
        """The stage handles the one event whose turn it is."""
        [wake_up] = self.context.ledger.next_ready(stage, 1)
        use_wake_up(wake_up.event_id, StageWorker(stage, f"{stage}-1", self.context, self.heartbeat))

    def adds(self, *texts: str, **limits: float) -> str:
        documents = [{"id": f"doc-{number}", "text": text} for number, text in enumerate(texts)]
        request = DocumentsRequest.model_validate({"documents": documents, "limits": limits})
        return self.service.add_documents(request).run_id

    @property
    def today(self) -> date:
        """By UTC, as days are counted."""
        return datetime.now(UTC).date()

    def begins(self, body: Body, reserve: Spend | None = None) -> str:
        """A run of one event, without ceilings."""
        run_id = new_run_id()
        event = Event.of(body, run_id=run_id, corpus="docs")
        self.context.ledger.create_run(NewRun(run_id, "crawl", "docs", "0" * 64), [(event, Next(body, None, reserve))])
        return run_id

    def gaps(self, run_id: str) -> tuple[Gap, ...]:
        return self.context.ledger.run(run_id).missing

    def close(self) -> None:
        self.heartbeat.close()
        self.context.close()


MakeInstance = Callable[..., Instance]


@pytest.fixture
def make_instance(valkey: Valkey) -> Iterator[MakeInstance]:
    with ExitStack() as opened:

        def make(**sections: Any) -> Instance:
            instance = Instance(valkey, sections)
            opened.callback(instance.close)
            return instance

        yield make


@contextmanager
def one_thread_serves(instance: Instance, reads: DirectReads) -> Iterator[None]:
    """A query worker of one thread, which looks after what waits between two queries."""
    stopping = threading.Event()

    def serve() -> None:
        while not stopping.is_set():
            request = instance.context.transport.next_read()
            if request is not None:
                reads.take(request)

    threads = [threading.Thread(target=serve), threading.Thread(target=reads.look_after_waiting, args=(stopping,))]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
