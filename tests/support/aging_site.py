"""A site whose pages change and go, in a corpus that asks for them again; and answers that cite them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from sluice.contracts.api import GateRequest
from sluice.contracts.document import document_id_for
from sluice.contracts.gate import Limits
from sluice.contracts.index import AnswerReady
from sluice.contracts.ingest import ChunksEmbedded
from sluice.contracts.plan import Plan
from sluice.ingest.freshness import Counts, PlannedRefresh, read_plan
from sluice.workers.service.freshness import (
    Rechecked,
    files_of,
    plan_refresh,
    recheck,
    rechecked,
    write_current_manifest,
)
from tests.support.in_process import Instance
from tests.support.site import Site

CORPUS = "docs"
MONTH = timedelta(days=31)
SECTIONS = 3
CRAWL = {"enabled": True, "render": "never", "requests_per_second_per_host": 10_000.0, "max_pages": 2_000}
"""Of the crawl's settings: the whole site in one run, at the speed of loopback."""
_WORDS = [
    "lock",
    "gate",
    "paddle",
    "keeper",
    "barge",
    "towpath",
    "basin",
    "weir",
    "culvert",
    "lever",
    "ratchet",
    "sill",
    "chamber",
    "pound",
    "summit",
]


def _paragraph(name: str) -> str:
    """Forty words of its own for each name; the first is that name, by which a search finds it."""
    chosen = random.Random(name)
    return f"{name} " + " ".join(f"{chosen.choice(_WORDS)}{chosen.randrange(1_000)}" for _ in range(40)) + "."


def grow_old(instance: Instance, by: timedelta) -> None:
    """Let time have passed since the pages were seen."""
    with instance.context.ledger.database.writing() as connection:
        columns = ("fetched_at", "asked_at", "watched_since")
        changed = ", ".join(f"{name} = {name} - {by.total_seconds()}" for name in columns)
        connection.execute(text(f"UPDATE pages SET {changed}"))


@dataclass
class AgingSite:
    """Pages `/0`, `/1`, … of three sections each; `versions` counts how often a section was rewritten."""

    site: Site
    instance: Instance
    pages: int
    versions: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for page in range(self.pages):
            self.put(page)

    def url(self, page: int) -> str:
        return self.site.url(f"/{page}")

    def document_id(self, page: int) -> str:
        return document_id_for(self.url(page))

    def word(self, page: int, section: int) -> str:
        """What only this section says, in its present version."""
        chosen = random.Random(f"{page} {section} {self.versions.get((page, section), 0)}")
        return "".join(chosen.choice("bdfgklmnprstvz") + chosen.choice("aeiou") for _ in range(6))

    def put(self, page: int) -> None:
        sections = "".join(
            f"<h2>Part {section} of {page}</h2><p>{_paragraph(self.word(page, section))}</p>"
            for section in range(SECTIONS)
        )
        self.site.html(f"/{page}", f"<title>Page {page}</title><main><h1>Page {page}</h1>{sections}</main>")

    def rewrite(self, page: int, section: int = 1) -> None:
        """Change one section of a page."""
        self.versions[page, section] = self.versions.get((page, section), 0) + 1
        self.put(page)

    def remove(self, page: int) -> None:
        """The page answers 410 from now on."""
        self.site.put(f"/{page}", b"", 410)

    def works(self) -> None:
        """Everything that is ready is done, stage after stage."""
        self.instance.works("crawl", "chunk", "embed", "index")

    def crawl_all(self) -> None:
        """Read every page into the corpus."""
        urls = [self.url(page) for page in range(self.pages)]
        self.instance.service.crawl(CORPUS, urls, Limits(max_depth=0))
        self.works()

    def recheck(self, after: timedelta = MONTH) -> Rechecked | None:
        """Ask again for the pages that are due once that time has passed."""
        run_id = self.direct_recheck(after)
        self.works()
        return rechecked(self.instance.context.ledger, run_id) if run_id else None

    def direct_recheck(self, after: timedelta = MONTH) -> str | None:
        """Begin to ask again for the pages that are due; the run, of which nothing is done yet."""
        return recheck(self.instance.context, CORPUS, datetime.now(UTC) + after)

    def job(self) -> tuple[Counts, list[PlannedRefresh]]:
        """The plan against the last job."""
        context = self.instance.context
        files = files_of(context, CORPUS)
        with files.locked():
            write_current_manifest(context, CORPUS, files.current)
            counts = plan_refresh(files.last if files.last.exists() else None, files.current, files, datetime.now(UTC))
            files.current.replace(files.last)
        return counts, list(read_plan(files.plan))

    def ask(self, page: int, section: int, profile: str = "default") -> str:
        """The run of a question that is answered from that section alone."""
        run_id = self.begin_to_ask(page, section, profile)
        self.instance.works("query")
        return run_id

    def begin_to_ask(self, page: int, section: int, profile: str = "default") -> str:
        """The run of such a question, whose answer is directed and not made yet."""
        question = " ".join(_paragraph(self.word(page, section)).split()[:12])
        request = GateRequest(query=question, corpus=CORPUS, plan=Plan.RETRIEVE, top_k=1, profile=profile)
        run_id = self.instance.service.ask(request).run_id
        self.instance.works("query", "gate")
        return run_id

    def answered(self, run_id: str) -> AnswerReady:
        """The answer of a run as its event has it."""
        [event] = self.instance.context.ledger.events_of_kind(run_id, AnswerReady.kind)
        return event.body_as(AnswerReady)

    def stale(self, run_id: str) -> list[tuple[int, str, str | None]]:
        """What a run's answer was told of: number, what became of it, address."""
        return [(one.citation, one.what, one.url) for one in self.instance.context.ledger.run(run_id).stale]

    def embedded_anew(self, run_id: str) -> int:
        """Chunks of a run whose text the embedding cache did not have."""
        events = self.instance.context.ledger.events_of_kind(run_id, ChunksEmbedded.kind)
        bodies = [event.body_as(ChunksEmbedded) for event in events]
        return sum(body.chunk_count - body.cache_hits for body in bodies)
