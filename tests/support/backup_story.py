"""An instance with something of everything that a backup holds, and what of it has to be the same afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import text

from sluice.contracts.api import DocumentsRequest, GateRequest
from sluice.contracts.errors import PolicyRefused
from sluice.contracts.event import DeadLetter, Event, Next, new_run_id
from sluice.contracts.ingest import CrawlDirected
from sluice.contracts.operations.corpora import CorpusSettings
from sluice.contracts.operations.dead_letters import DeadLetterPage
from sluice.contracts.operations.forget import ForgetRequest
from sluice.contracts.operations.webhooks import WebhookRequest
from sluice.contracts.retrieval import Query
from sluice.ledger.ledger import Claim, Ledger, NewRun
from sluice.workers.context import Context
from sluice.workers.service.callers import OWN_MACHINE, ApiKeys, secret_of
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.service.webhooks import WebhookDesk
from sluice.workers.settings import Settings
from tests.support.in_process import Instance
from tests.support.memory.instance import PROJECT, Remembering, claude_stream
from tests.support.repository import MODELS

QUESTION = "How are the leases of storehouse 7 renewed?"
SECRET = "Mr Wimple's address is 4 Hidden Lane, storehouse 11."
KINDS = ("leases", "boilers", "cranes", "ledgers")


def texts(count: int) -> list[str]:
    """Documents that differ in more than a number."""
    return [
        f"# Storehouse {n}\n\nThe {KINDS[n % 4]} of storehouse {n} are renewed by the {n * 31}th clerk, who keeps "
        f"{n + 3} keys in drawer {n * 7 % 13}.\n\nWho loses a key of storehouse {n} asks clerk {n * 31 + 1}."
        for n in range(count)
    ]


def indexes(instance: Instance, documents: dict[str, str], corpus: str = "docs") -> None:
    """Bring documents in, published."""
    told = [{"id": name, "text": one} for name, one in documents.items()]
    request = DocumentsRequest.model_validate({"corpus": corpus, "documents": told})
    instance.service.add_documents(request)
    works(instance)


def works(instance: Instance) -> None:
    """Every stage does what is ready."""
    instance.works("query", "gate", "query", "chunk", "embed", "index", "graph", "index")


def fill(instance: Instance, count: int = 12) -> None:
    """Corpora, a memory, an answered run, a dead letter, a key, a webhook, a forgotten document."""
    context = instance.context
    context.ledger.corpora.create("manuals", CorpusSettings(description="of machines"), "local")
    indexes(instance, {f"doc-{n}": one for n, one in enumerate(texts(count))})
    indexes(instance, {"m-1": "The boiler is heated to 80 degrees.", "gone-1": SECRET}, "manuals")
    Remembering(instance).record(claude_stream(output="ValueError: no session cookie"), "auth")
    works(instance)
    instance.service.ask(GateRequest(query=QUESTION, corpus="docs"))
    works(instance)
    park(context.ledger)
    ApiKeys(context.ledger).create("an agent", "agent", ("docs",))
    hook = WebhookRequest(url="https://93.184.216.34/hook", types=("run.finished",))
    settings = context.settings.model_copy(
        update={"egress": context.settings.egress.model_copy(update={"policy": "open"})}
    )
    WebhookDesk(context.ledger, settings, secret_of(context.settings)).create(hook, OWN_MACHINE)
    forgets(instance, "gone-1", "manuals")


def park(ledger: Ledger) -> None:
    """Leave an event behind as a dead letter, where no worker of the stage takes it first."""
    run = NewRun(new_run_id(), "crawl", "docs", "0" * 64)
    event = Event.of(CrawlDirected(url="https://example.org/a", depth=0), run_id=run.run_id, corpus="docs")
    ledger.create_run(run, [(event, Next(event.body))])
    claim = ledger.claim_next("crawl", "crawl-1", 30.0)
    assert isinstance(claim, Claim)
    ledger.settle(claim, DeadLetter("policy", PolicyRefused("robots", "disallowed", "nothing")))


def forgets(instance: Instance, document_id: str, corpus: str = "docs") -> None:
    """Forget a document with every trace of it."""
    ForgetDesk(instance.context).forget(ForgetRequest(corpus=corpus, document_id=document_id), OWN_MACHINE)
    for _ in range(3):
        works(instance)
        wake_waiting(instance)


def wake_waiting(instance: Instance) -> None:
    """Make what waits ready, as the reconciler does when its time has come."""
    with instance.context.ledger.database.writing() as connection:
        connection._driver.execute("UPDATE events SET status = 'ready' WHERE status = 'waiting'")  # noqa: SLF001


def opened(data_dir: Path, **sections: Any) -> Context:
    """The context of a data directory."""
    return Context(Settings.model_validate({"data_dir": data_dir, "embed": {"model_dir": MODELS}, **sections}))


def state(context: Context, *, asks: bool = True) -> dict[str, Any]:
    """What a restored instance has to have in common with the one that was backed up; `asks`: and a question's answer,
    for which the model is loaded."""
    ledger = context.ledger
    found: dict[str, Any] = {}
    for corpus in context.readers.names():
        reader = context.readers.reader(corpus)
        reader.reload()
        kept = {facts.document_id: facts.checksum for facts in reader.all_facts()}
        found[corpus] = kept, {name: [one.text for one in reader.chunks(name)] for name in kept}
    summaries = ledger.runs(500)
    found["runs"] = {one.run_id: ledger.run(one.run_id) for one in summaries}
    found["letters"] = ledger.dead_letters.list(DeadLetterPage(limit=100, status="any"))
    found["keys"] = ledger.keys.list()
    found["forgotten"] = ledger.forgotten.list()
    found["audit"] = audit(ledger)
    found["webhooks"] = [tuple(row) for row in rows(ledger, "SELECT id, url, secrets FROM webhooks")]
    found["memory"] = context.memories.of(PROJECT).learnings("auth") if context.memories.names() else None
    found["question"] = answers(context) if asks else []
    return found


def answers(context: Context) -> list[str]:
    """The passages that answer the question."""
    [vector] = context.embedder.embed([QUESTION]).vectors
    asked = Query(query=QUESTION, corpus="docs", top_k=5)
    return [chunk.chunk_id for chunk in context.readers.reader("docs").search(asked, vector).chunks]


def audit(ledger: Ledger) -> list[tuple[Any, ...]]:
    """The operators' actions, but for those of backups themselves."""
    told = "SELECT at, operator, action, subject, note FROM operator_actions ORDER BY seq"
    return [tuple(row) for row in rows(ledger, told) if row[2] not in ("backup", "restore")]


def rows(ledger: Ledger, statement: str) -> list[Any]:
    """What the ledger's database says."""
    with ledger.database.installing() as connection:
        return list(connection.execute(text(statement)).fetchall())
