"""Workers of the stage graph are killed at every telling point of a change of the graph and of its publishing.

The product has no hooks: a child process wraps the functions, does the stage's work, and dies at one of them. After
each death the documents are changed once more, so that what was left half-done meets what is new.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import text

from sluice.contracts.api import DocumentsRequest
from sluice.workers.settings import Settings
from tests.chaos.family import arm
from tests.chaos.graph.verdict import problems
from tests.chaos.report import Result
from tests.support.graph.corpus import FILES
from tests.support.graph.grown import edited
from tests.support.in_process import Instance
from tests.support.valkey import Valkey

CORPUS = "docs"
SEAMS = (
    "sluice.ledger.graph.store:_Writing.replace",
    "sluice.ledger.graph.store:_Writing.finish",
    "sluice.ledger.graph.store:Graphs.carry_out",
    "sluice.graph.generations.publish:write_arrays",
    "sluice.graph.generations.publish:write_durably",
    "sluice.graph.generations.publish:replace_pointer",
    "sluice.graph.generations.publish:_collect",
    "sluice.workers.wiring.graphs:publish",
    "sluice.ledger.ledger:Ledger.settle",
)
"""Functions that a worker dies before and after: rows inside their transaction and behind it, the file, its manifest,
the pointer, older generations, the end of the event."""
POINTS = tuple(f"{seam}.{when}" for seam in SEAMS for when in ("before", "after"))


def kills_at_points(folder: Path, seed: int, short: bool) -> Result:
    """Kill at each point once; what the graph is in the end."""
    del seed
    broker = Valkey(Settings(data_dir=folder))
    broker.start()
    instance = Instance(broker, {})
    wrong: list[str] = []
    points = POINTS[::4] if short else POINTS
    try:
        for number, point in enumerate(points):
            _indexes(instance, number)
            if not _dies(broker, point):
                wrong.append(f"{point}: nothing passed it")
            instance.context.ledger.release("graph-1")
            if not short:
                _finishes(instance)
                wrong += [f"{point}: {one}" for one in problems(instance.context, CORPUS, len(FILES))]
        _finishes(instance)
        wrong += problems(instance.context, CORPUS, len(FILES))
    finally:
        instance.close()
        broker.kill()
    return Result(
        "points",
        f"a worker killed at each of {len(points)} points, documents changed between",
        "the grown graph is the rebuilt one, and is published",
        not wrong,
        {"points": len(points), "wrong": len(wrong)},
        tuple(wrong),
    )


def _indexes(instance: Instance, number: int) -> None:
    """Every file gets another of its texts."""
    documents = [
        {"file_path": path, "text": edited(f"{content}\n# {number}\n")[number % 4]} for path, content in FILES.items()
    ]
    instance.service.add_documents(DocumentsRequest.model_validate({"corpus": CORPUS, "documents": documents}))
    instance.works("chunk", "embed", "index")


def _finishes(instance: Instance) -> None:
    """The stage does all that is there, those too that wait for a rest."""
    ledger = instance.context.ledger
    while True:
        instance.works("graph")
        with ledger.database.writing() as connection:
            woken = connection.execute(
                text("UPDATE events SET status = 'ready' WHERE status = 'waiting' AND queue = 'graph'")
            ).rowcount
        if not woken:
            return


def _dies(broker: Valkey, point: str) -> bool:
    """Do the stage's work in a child that dies at the point; whether it did."""
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            arm(point)
            Instance(broker, {}).works("graph")
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])
