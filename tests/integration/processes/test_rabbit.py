"""Workers and `sluice up` where RabbitMQ carries the wake-ups: what becomes of them when it dies, hangs or loses patience."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import Event, Next, new_run_id
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.events.outbox import WakeUp
from sluice.ledger.ledger import Ledger, NewRun
from sluice.workers.broker.rabbit import RabbitWakeUps
from sluice.workers.broker.transport import BROKER_ERRORS, Transport
from tests.support.instance import Instance
from tests.support.rabbitmq import RabbitMq
from tests.support.repository import IMPORT_PATH
from tests.support.valkey import Valkey

WAKE_UP = WakeUp("crawl", "evt_0123456789ab0123456789abcdef")


@pytest.fixture(scope="module")
def impatient() -> Iterator[RabbitMq]:
    """A server that may be harmed, and that waits three seconds for an acknowledgement."""
    server = RabbitMq("consumer_timeout = 3000", arguments="-rabbit channel_tick_interval 1000")
    try:
        server.start()
        yield server
    finally:
        server.remove()


class Worker:
    """An odd worker (see `odd_worker`) that takes its wake-ups from RabbitMQ."""

    def __init__(self, valkey: Valkey, server: RabbitMq, folder: Path, kind: str) -> None:
        self.settings = valkey.settings.model_copy(update={"wake_up_url": server.url})
        self.folder, self.ledger, self.transport = (
            folder,
            Ledger(self.settings.ledger_location),
            Transport(self.settings),
        )
        self.transport.declare()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE", "PROMETH"))}
        own = {
            "SLUICE_DATA_DIR": str(self.settings.data_dir),
            "SLUICE_WAKE_UP_URL": server.url,
            "PYTHONPATH": IMPORT_PATH,
        }
        with (folder / "worker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.processes.odd_worker", kind],
                cwd=folder,
                env=inherited | own,
                stdout=log,
                stderr=log,
            )
        self.until(lambda: "worker_ready" in self.log())

    def log(self) -> str:
        return (self.folder / "worker.log").read_text(errors="replace")

    def gets(self, path: str) -> str:
        """Record and publish an event; its run."""
        body, run_id = CrawlDirected(url=f"https://example.org/{path}"), new_run_id()
        event = Event.of(body, run_id=run_id, corpus="docs")
        self.ledger.create_run(NewRun(run_id, "crawl", "docs", "0" * 64), [(event, Next(body))])
        assert self.transport.publish([event]) == 1
        return run_id

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 90
        while not condition():
            assert time.monotonic() < deadline, f"it never came to that\n{self.log()[-4_000:]}"
            time.sleep(0.05)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.transport.close()
        self.ledger.close()


@pytest.mark.parametrize("kind", ["solo", "threads", "prefork"])
def test_an_event_that_outlasts_the_servers_patience_is_settled_once_and_costs_no_worker(
    valkey: Valkey, impatient: RabbitMq, tmp_path: Path, kind: str
) -> None:
    worker = Worker(valkey, impatient, tmp_path, kind)
    worker.gets("sleep/8")
    worker.until(lambda: worker.ledger.open_count() == 0)
    worker.gets("quick")
    worker.until(lambda: worker.ledger.open_count() == 0)
    assert worker.process.poll() is None
    worker.until(lambda: worker.transport.queued("crawl") == 0)
    assert "delivery acknowledgement on channel 1 timed out" in worker.log()
    worker.end()


@pytest.mark.parametrize("kind", ["solo", "threads", "prefork"])
def test_a_worker_goes_on_when_the_server_is_killed_and_forgets_everything(
    valkey: Valkey, impatient: RabbitMq, tmp_path: Path, kind: str
) -> None:
    worker = Worker(valkey, impatient, tmp_path, kind)
    worker.gets("quick")
    worker.until(lambda: worker.ledger.open_count() == 0)
    impatient.kill()
    assert worker.transport.publish_wake_ups([WAKE_UP]) == 0
    with pytest.raises(Unavailable):
        worker.transport.queued("crawl")
    impatient.forget()
    impatient.start()
    worker.transport.declare()
    worker.gets("quick")
    worker.until(lambda: worker.ledger.open_count() == 0)
    assert worker.process.poll() is None
    worker.end()


def test_a_server_that_hangs_costs_a_publish_its_patience_and_no_more(valkey: Valkey, impatient: RabbitMq) -> None:
    settings = valkey.settings.model_copy(update={"wake_up_url": impatient.url})
    transport = Transport(settings, publish_patience_seconds=2.0)
    transport.declare()
    assert transport.publish_wake_ups([WAKE_UP]) == 1
    impatient.hang()
    try:
        for _ in range(2):  # over a connection that was open, and over none
            started = time.monotonic()
            assert transport.publish_wake_ups([WAKE_UP]) == 0
            with pytest.raises(Unavailable):
                transport.queued("crawl")
            assert time.monotonic() - started < 9
    finally:
        impatient.go_on()
    assert transport.publish_wake_ups([WAKE_UP]) == 1
    transport.close()


def test_up_with_both_brokers_takes_documents_in_and_answers(tmp_path: Path, rabbitmq: RabbitMq) -> None:
    with Instance(tmp_path, WAKE_UP_URL=rabbitmq.url, INSTANCE="whole") as instance:
        text = "The lease of a claim is fifteen seconds; a heartbeat renews it."
        body = {"corpus": "docs", "create_corpus": True, "documents": [{"id": "lease", "text": text}]}
        run = instance.http.post("/v1/documents", json=body).json()
        assert instance.wait(run["run_id"])["status"] == "finished"
        asked = instance.ask("how long is the lease of a claim?", corpus="docs", plan="retrieve")
        assert "fifteen seconds" in str(asked["answer"])
        checks = instance.http.get("/healthz").json()["checks"]
        assert (checks["broker"]["ok"], checks["wake_ups"]["ok"]) == (True, True)
        told = instance.sluice("doctor").stdout
        assert "wake_ups" in told
        assert f"127.0.0.1:{rabbitmq.port}" in told
        assert "consumer_timeout" in told
        assert "guest" not in told


def test_tls_needs_a_certificate_that_is_good_and_the_servers_own(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = RabbitMq(certificate=certificate)
    try:
        server.start()
        untrusted = RabbitWakeUps(server.tls_url, "sluice", 5.0, 1)
        with pytest.raises(BROKER_ERRORS, match=r"(?i)certificate"):
            untrusted.declare()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        trusted = RabbitWakeUps(server.tls_url, "sluice", 5.0, 1)
        trusted.declare()
        assert trusted.depth("crawl") == 0
        trusted.close()
    finally:
        server.remove()
