"""Dead letters by the thousand, brought back by two bulk replays at once while processes are killed: each effect once.

The effect is one that can be counted in the journal: documents are ingested, then removed by events of which each is
refused at first and parked. The journal must end up with one tombstone for each document, no more and no less.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sluice.contracts.event import Event, Next, new_run_id
from sluice.contracts.ingest import DocumentsRemoved
from sluice.contracts.operations.dead_letters import MOST_PER_SECOND, DeadLetterFilter, ReplayRequest
from sluice.ledger.ledger import Ledger, NewRun
from tests.chaos.delivery.failpoints import Cell
from tests.chaos.delivery.instance import BLAMELESS, ChaosInstance
from tests.chaos.delivery.plan import Killer, kill_plan, wait_until
from tests.chaos.delivery.truth import count, read_corpus, rows, settled_more_than_once
from tests.chaos.delivery.verdict import await_quiet, settled_events
from tests.chaos.delivery.work import Work
from tests.chaos.report import Result

CORPUS = "graves"
PER_RUN = 500
MEAN_SECONDS = 2.0
LEAST_SECONDS, SECONDS_PER_LETTER = 90.0, 0.06
_PARKED = "SELECT count(*) FROM dead_letters WHERE status = 'parked'"
_REMOVALS = "SELECT id, status FROM events WHERE kind = 'DocumentsRemoved'"
_CAUSES = "SELECT payload FROM events WHERE kind = 'DocumentIndexed' AND run_id IN (SELECT run_id FROM runs WHERE kind = 'deletion')"


def replays(folder: Path, seed: int, letters: int = 10_000, kills: int = 30) -> list[Result]:
    """Park, replay twice at once under kills, and count."""
    patience = LEAST_SECONDS + letters * SECONDS_PER_LETTER
    with ChaosInstance(folder, BLAMELESS) as instance:
        work = Work(instance, f"grave-{seed}", corpus=CORPUS)
        work.documents(range(letters), per_run=PER_RUN)
        assert await_quiet(instance.ledger_url, patience), "the documents were not ingested"
        documents = [document for sent in work.sent for document in sent.documents]
        parked = _park_removals(instance, documents, patience)
        with Killer(kill_plan(seed, kills, MEAN_SECONDS), instance.kill) as killer:
            _begin_twice(instance)
            emptied = wait_until(lambda: count(instance.ledger_url, _PARKED) == 0, patience, look_seconds=0.5)
            quiet = await_quiet(instance.ledger_url, patience)
        problems = list(_problems(instance, documents))
        replayed = rows(instance.ledger_url, "SELECT replayed, total FROM replays")
    return [
        Result(
            "dead letters replayed twice",
            f"{parked:,} letters, two bulk replays at once, {killer.delivered} SIGKILLs (seed {seed})",
            "each effect once",
            parked == letters and emptied and quiet and not problems,
            {
                "replayed by the one and by the other": " and ".join(str(row["replayed"]) for row in replayed),
                "lost or doubled": len(problems),
            },
            tuple(problems),
        )
    ]


def _park_removals(instance: ChaosInstance, documents: Sequence[str], patience_seconds: float) -> int:
    """Removals of the documents, all refused; how many dead letters that made."""
    instance.arm(Cell("handler.before", "index", "refusal"), corpus=CORPUS, keep=True)
    with Ledger(instance.ledger_url) as ledger:
        for start in range(0, len(documents), PER_RUN):
            _remove(ledger, documents[start : start + PER_RUN])
    wait_until(lambda: count(instance.ledger_url, _PARKED) >= len(documents), patience_seconds, look_seconds=0.5)
    instance.disarm()
    return count(instance.ledger_url, _PARKED)


def _remove(ledger: Ledger, documents: Sequence[str]) -> None:
    run = NewRun(new_run_id(), "deletion", CORPUS, "0" * 64)
    origins = [Next(DocumentsRemoved(document_ids=(document,))) for document in documents]
    ledger.create_run(run, [(Event.of(one.body, run_id=run.run_id, corpus=CORPUS), one) for one in origins])


def _begin_twice(instance: ChaosInstance) -> None:
    request = ReplayRequest(filter=DeadLetterFilter(reason="malformed"), per_second=MOST_PER_SECOND)

    def begin(operator: str) -> None:
        with Ledger(instance.ledger_url) as ledger:
            ledger.replays.begin(request, operator)

    with ThreadPoolExecutor(2) as operators:
        list(operators.map(begin, ("the one", "the other")))


def _problems(instance: ChaosInstance, documents: Sequence[str]) -> Iterator[str]:
    """What was lost or doubled: settlings, emitted events, tombstones."""
    for row in rows(instance.ledger_url, _REMOVALS):
        if row["status"] != "settled":
            yield f"removal {row['id']} is {row['status']}"
    for event in settled_more_than_once(settled_events(instance.witness_path)):
        yield f"event {event} was settled more than once"
    causes = Counter(json.loads(row["payload"])["cause_id"] for row in rows(instance.ledger_url, _CAUSES))
    for cause, times in causes.items():
        if times != 1:
            yield f"removal {cause} emitted {times} events"
    corpus = read_corpus(instance.data_dir / "index", CORPUS)
    for document in documents:
        if (times := corpus.removals[document]) != 1:
            yield f"document {document} has {times} tombstones"
        if document in corpus.documents:
            yield f"document {document} can still be searched"
