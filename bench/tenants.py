"""Shows what one tenant's feedback does to another: `python -m bench.tenants [--json FILE]`.

A running instance with two agents' keys, each limited to its own corpus. The one floods the gate with runs and says of
each that it failed; the other asks meanwhile. Prints the other's decisions and its p50 and p95 before, during and
after, and leaves with 1 where the gate stepped back for it. Runs are looked at an hour after their decision: instead of
waiting, the outcomes are dated back in the ledger.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from sluice.evaluation.evaluator import GRACE_SECONDS
from tests.support.instance import Instance
from tests.support.site import Site

FLOOD = 230
AT_ONCE = 4
ASKED = 40
LOOKS_SECONDS = 60.0
OURS, THEIRS = "ours", "theirs"
TEXT = "A lease is renewed by its holder every five seconds, else it is free again after fifteen seconds."


@dataclass(frozen=True)
class Phase:
    """What the other tenant met in one phase."""

    name: str
    runs: int
    p50_seconds: float
    p95_seconds: float
    plans: dict[str, int]
    stepped_back: int
    """Runs for which the gate had stepped back."""


class Tenant:
    """A key limited to one corpus, and what is asked with it."""

    def __init__(self, instance: Instance, corpus: str) -> None:
        self.corpus = corpus
        authorization = {"Authorization": f"Bearer {instance.agent_key(corpus)}"}
        self.http = httpx.Client(base_url=instance.url, timeout=180, headers=authorization)

    def ask(self, number: int) -> dict[str, Any]:
        """Ask something that the corpus does not hold; the finished run."""
        query = f"which release of library number {number} is the latest?"
        response = self.http.post("/v1/gate", json={"query": query, "corpus": self.corpus, "wait": True})
        response.raise_for_status()
        run: dict[str, Any] = response.json()
        return run

    def says_failure(self, number: int) -> None:
        """Ask, and say that the answer failed."""
        run_id = self.ask(number)["run_id"]
        self.http.post("/v1/feedback", json={"run_id": run_id, "outcome": "failure"}).raise_for_status()


def measured(name: str, tenant: Tenant, go_on: Callable[[int], bool]) -> Phase:
    """Ask one question after the other, as long as it goes on."""
    seconds: list[float] = []
    plans: Counter[str] = Counter()
    stepped_back = 0
    while go_on(len(seconds)):
        began = time.perf_counter()
        decision = tenant.ask(len(seconds))["decision"]
        seconds.append(time.perf_counter() - began)
        plans[decision["plan"]] += 1
        stepped_back += bool((decision.get("control") or {}).get("defences"))
    p95 = statistics.quantiles(seconds, n=20, method="inclusive")[-1]
    return Phase(name, len(seconds), statistics.median(seconds), p95, dict(plans), stepped_back)


def an_hour_passes(instance: Instance) -> None:
    """Date the outcomes back, so that the next look at them finds feedback complete."""
    with sqlite3.connect(instance.data_dir / "ledger.sqlite", timeout=60) as connection:
        connection.execute("UPDATE outcomes SET decided_at = decided_at - ?", (GRACE_SECONDS + 60,))


def show(folder: Path) -> tuple[list[Phase], int]:
    """Run the flood; return the other's phases, and in how many of ten runs the gate stepped back for the flooder."""
    web = Site()
    web.put("/robots.txt", "User-agent: *\nAllow: /\n", Content_Type="text/plain")
    web.put("/search", '{"results": []}', Content_Type="application/json")
    settings = {
        "SEARCH__ENABLED": "true",
        "SEARCH__PROVIDERS": '["searxng"]',
        "SEARCH__SEARXNG_URL": web.url("").rstrip("/"),
        "EGRESS__ALLOW": f'["search={web.address}"]',
    }
    with Instance(folder, **settings) as instance:
        ours, theirs = Tenant(instance, OURS), Tenant(instance, THEIRS)
        for tenant in (ours, theirs):
            body = {"corpus": tenant.corpus, "create_corpus": True, "documents": [{"id": "doc", "text": TEXT}]}
            tenant.http.post("/v1/documents", json=body).raise_for_status()
        ours.ask(-1)
        phases = [measured("before", ours, lambda asked: asked < ASKED)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            flood = [pool.submit(theirs.says_failure, number) for number in range(FLOOD)]
            phases.append(measured("during", ours, lambda _: not all(one.done() for one in flood)))
        for one in flood:
            one.result()
        an_hour_passes(instance)
        time.sleep(LOOKS_SECONDS)
        phases.append(measured("after", ours, lambda asked: asked < ASKED))
        stepped_back = measured("theirs", theirs, lambda asked: asked < 10).stepped_back
        told = instance.sluice("gate", "defences")
        print(told.stdout)
    web.close()
    return phases, stepped_back


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.tenants", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures there")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sluice-tenants-") as folder:
        phases, theirs = show(Path(folder))
    for one in phases:
        told = f"p50 {one.p50_seconds:.2f} s, p95 {one.p95_seconds:.2f} s, plans {one.plans}"
        print(f"{one.name:7} {one.runs:4} runs, {told}, stepped back in {one.stepped_back}")
    print(f"the flooding tenant itself: stepped back in {theirs} of 10 runs")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in phases], indent=1))
    return int(any(one.stepped_back for one in phases))


if __name__ == "__main__":
    sys.exit(main())
