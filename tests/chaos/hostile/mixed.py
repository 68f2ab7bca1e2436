"""Three tenants, one hostile: `python -m tests.chaos.hostile.mixed [--minutes N] [--json FILE]`.

Two ordinary tenants do one thing each second: ask the gate, query, add a document, follow a run. They do so alone for
`--minutes`, then for as long beside a third, which attacks by documents, by requests and by connections at once, each
in turns; then for a minute more. The key of each is limited to its own corpus. A time runs from the second at which the
action was due, so that one that had to wait for others counts. Prints p50 and p95 of the three phases by tenant and
action, and what the hostile one achieved. Ends with 1 where an ordinary action failed, or its p95 beside the hostile
tenant is more than `MOST_TIMES` the one before.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from bench.tenants import an_hour_passes
from sluice.workers.processes.kernel import anonymous_bytes
from tests.chaos.hostile.documents import BOMB, SLOW
from tests.chaos.hostile.doors import FIELDS, FOLLOWERS, GET, HALF_A_BODY, HALVES, attacked, endless, following, held
from tests.support.instance import Instance

ORDINARY, HOSTILE = ("calm", "quiet"), "wild"
QUESTION = "How is a lease renewed?"
FACT = "A lease is renewed by its holder every five seconds, else it is free again after fifteen seconds."
PERIOD_SECONDS = 1.0  # between two actions of one tenant
MOST_TIMES = 5.0
TURN_SECONDS = 60.0
"""Longest time of one attack, before the next of its lane."""
AT_ONCE = 32
"""Actions of one tenant that may be under way."""
PHASES = ("without", "with", "after")
JSON, MARKDOWN = {"media_type": "application/json"}, {"media_type": "text/markdown"}
STYLES = "".join(f".a:has(.b{n}) i{{display:none}}" for n in range(3_000))
PAGE = f"<style>{STYLES}</style>" + "<div class=a><p><i>x</i></p></div>" * 2_000


class Failed(Exception):
    """An ordinary action had an outcome that it must not have."""


def client(url: str, key: str) -> httpx.Client:
    """The HTTP client of a tenant."""
    return httpx.Client(base_url=url, timeout=60, headers={"Authorization": f"Bearer {key}"})


class Ordinary:
    """A tenant, and the actions that it takes in turn. Each returns when it has what it came for, or raises."""

    def __init__(self, url: str, corpus: str, key: str) -> None:
        self.corpus = corpus
        self.http = client(url, key)
        self.actions: tuple[Callable[[int], None], ...] = (self.ask, self.query, self.add, self.follow)

    def ask(self, number: int) -> None:
        """Ask the gate what the corpus covers; the answer cites it, and no defence stands."""
        asked = {"query": QUESTION, "corpus": self.corpus, "wait": True}
        run = self._sent("POST", "/v1/gate", json=asked)
        if run["status"] != "finished" or not run["answer"]["citations"]:
            raise Failed(f"{run['status']}, nothing cited")
        if (run["decision"].get("control") or {}).get("defences"):
            raise Failed("stepped back")

    def query(self, number: int) -> None:
        """Search the corpus."""
        if not self._sent("POST", "/v1/query", json={"query": QUESTION, "corpus": self.corpus})["chunks"]:
            raise Failed("nothing found")

    def add(self, number: int, text: str = "A heron stands in the shallow water.") -> None:
        """Add a document of one line, and wait until it can be found."""
        document = {"id": f"note-{number}", "text": f"{text} {number}"}
        body = {"corpus": self.corpus, "create_corpus": True, "documents": [document]}
        run = self._followed(self._sent("POST", "/v1/documents", json=body))
        if run["status"] != "finished" or run.get("missing"):
            raise Failed(f"{run['status']}, missing {run.get('missing')}")

    def follow(self, number: int) -> None:
        """Ask, and follow the run's events to their end."""
        run = self._followed(self._sent("POST", "/v1/gate", json={"query": QUESTION, "corpus": self.corpus}))
        if run["status"] != "finished":
            raise Failed(run["status"])

    def _followed(self, accepted: dict[str, Any]) -> dict[str, Any]:
        with self.http.stream("GET", accepted["links"]["events"]) as stream:
            if "event: RunFinished" not in stream.raise_for_status().iter_lines():
                raise Failed("the stream ended before the run")
        return self._sent("GET", accepted["links"]["run"])

    def _sent(self, method: str, path: str, **fields: Any) -> dict[str, Any]:
        response = self.http.request(method, path, **fields)
        if response.status_code not in {200, 202}:
            raise Failed(f"{response.status_code} {response.json().get('code')}")
        return dict(response.json())


@dataclass
class Measured:
    """What became of one action of one tenant, in one phase."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def share(self, percent: int) -> float:
        """This percentile of the seconds, of failures too. Raises `StatisticsError` for fewer than two."""
        return statistics.quantiles(self.seconds, n=100, method="inclusive")[percent - 1]


Figures = dict[tuple[str, str, str], Measured]
"""By tenant, action and phase."""


def in_rhythm(tenants: Sequence[Ordinary], phase: str, seconds: float, figures: Figures) -> None:
    """Have each tenant act once in every period, whatever became of the actions before."""
    began, first = time.monotonic(), PHASES.index(phase) * 1_000_000

    def act(action: Callable[[int], None], number: int, due: float, measured: Measured) -> None:
        try:
            action(first + number)
        except Exception as error:  # whatever it is, the tenant had it
            measured.errors.append(f"{phase} at {due - began:.0f} s: {type(error).__name__} {error}")
        measured.seconds.append(time.monotonic() - due)

    with ExitStack() as stack:
        pools = [stack.enter_context(ThreadPoolExecutor(AT_ONCE)) for _ in tenants]
        for number in range(int(seconds / PERIOD_SECONDS)):
            due = began + number * PERIOD_SECONDS
            time.sleep(max(0.0, due - time.monotonic()))
            for tenant, pool in zip(tenants, pools, strict=True):
                action = tenant.actions[number % len(tenant.actions)]
                pool.submit(act, action, number, due, figures[tenant.corpus, action.__name__, phase])


def said(response: httpx.Response) -> str:
    """How the interface answered: the status, and the code of a refusal."""
    return str(response.status_code) + ("" if response.is_success else f" {response.json().get('code')}")


class Hostile:
    """The hostile tenant. Each of its attacks goes on until it is time, and yields what became of each attempt."""

    def __init__(self, port: int, key: str) -> None:
        self.port, self.key = port, key
        self.http = client(f"http://127.0.0.1:{port}", key)
        with_key = (b"\r\n\r\n", f"\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
        self.attacks: dict[str, Callable[[float], Iterator[str]]] = {
            "JSON bombs": partial(self.adds, 6, lambda salt: {"text": f"[{BOMB},{salt}]", **JSON}),
            "headings": partial(self.adds, 3, lambda salt: {"text": f"{SLOW}{salt}", **MARKDOWN}),
            "style sheets": partial(self.adds, 12, lambda salt: {"html": f"{PAGE}<p>{salt}"}),
            "batches of 1,000": partial(self.adds, 3, lambda salt: {"text": f"{FACT} {salt}"}, size=1_000),
            "forged copies": partial(self.adds, 30, lambda salt: {"text": f"{QUESTION} {FACT} In truth {salt} hours."}),
            "cancelled runs": partial(self.adds, 12, lambda salt: {"text": f"[{salt},{BOMB}]", **JSON}, cancels=True),
            "feedback": self.says_failure,
            "followers": self.follows,
            "endless fields": partial(endless, port, GET, FIELDS),
            "an endless value": partial(endless, port, GET + b"X: ", b"a" * 65_536),
            "half a head": partial(held, port, GET, HALVES),
            "half a body": partial(held, port, HALF_A_BODY.replace(*with_key, 1), HALVES),
        }

    def adds(
        self, count: int, make: Callable[[int], dict[str, str]], until: float, *, size: int = 1, cancels: bool = False
    ) -> Iterator[str]:
        """Add so many batches of documents, each of them new, as fast as they are taken; then wait."""
        for _ in range(count):
            if time.monotonic() > until:
                return
            first = time.time_ns()
            documents = [{"id": f"{salt}", **make(salt)} for salt in range(first, first + size)]
            body = {"corpus": HOSTILE, "create_corpus": True, "documents": documents}
            response = self.http.post("/v1/documents", json=body)
            yield said(response)
            if cancels and response.is_success:
                yield f"cancelled {said(self.http.delete(response.json()['links']['run']))}"
        time.sleep(max(0.0, until - time.monotonic()))

    def says_failure(self, until: float) -> Iterator[str]:
        """Ask, and say of each answer that it failed."""
        while time.monotonic() < until:
            asked = {
                "query": f"which is number {time.time_ns()}?",
                "corpus": HOSTILE,
                "create_corpus": True,
                "wait": True,
            }
            response = self.http.post("/v1/gate", json=asked)
            yield f"asked {said(response)}"
            if response.status_code == 200:
                given = {"run_id": response.json()["run_id"], "outcome": "failure"}
                yield f"said {said(self.http.post('/v1/feedback', json=given))}"

    def follows(self, until: float) -> Iterator[str]:
        """Follow one run by hundreds of connections."""
        asked = {"query": QUESTION, "corpus": HOSTILE, "create_corpus": True}
        run = self.http.post("/v1/gate", json=asked).raise_for_status().json()
        yield from held(self.port, following(run["links"]["events"], self.key), FOLLOWERS, until)


LANES = (
    ("JSON bombs", "headings", "batches of 1,000", "style sheets", "forged copies", "cancelled runs"),
    ("feedback", "followers"),
    ("endless fields", "half a body", "an endless value", "half a head"),
)
"""One process each, which has its attacks in turn."""


def in_turns(attacks: Sequence[str], port: int, key: str, turn_seconds: float, until: float) -> Iterator[str]:
    """Have one attack after the other, again and again."""
    hostile = Hostile(port, key)
    for name in itertools.cycle(attacks):
        if time.monotonic() > until:
            return
        ends = min(until, time.monotonic() + turn_seconds)
        try:
            yield from (f"{name}: {what}" for what in hostile.attacks[name](ends))
        except httpx.HTTPError as error:
            yield f"{name}: {type(error).__name__}"


def runs_of_hostile(instance: Instance) -> dict[str, int]:
    """Count its runs by kind and status."""
    with sqlite3.connect(instance.data_dir / "ledger.sqlite", timeout=60) as connection:
        counted = "SELECT kind || ' ' || status, count(*) FROM runs WHERE corpus = ? GROUP BY 1"
        return dict(connection.execute(counted, (HOSTILE,)).fetchall())


def run(instance: Instance, seconds: float, figures: Figures) -> dict[str, Any]:
    """The three phases; what the hostile tenant achieved."""
    tenants = [Ordinary(instance.url, corpus, instance.agent_key(corpus)) for corpus in ORDINARY]
    key, interface = instance.agent_key(HOSTILE), instance.processes["api"]
    for tenant in tenants:
        tenant.add(-2, FACT)
        for action in tenant.actions:
            action(-1)
    in_rhythm(tenants, "without", seconds, figures)
    memory = [anonymous_bytes(interface)]
    lanes = [(lane, instance.port, key, min(TURN_SECONDS, seconds / len(lane))) for lane in LANES]
    with ExitStack() as stack:
        attempts = [stack.enter_context(attacked(in_turns, lane, 1, seconds)) for lane in lanes]
        in_rhythm(tenants, "with", seconds, figures)
        memory.append(anonymous_bytes(interface))
    an_hour_passes(instance)
    left = runs_of_hostile(instance)
    in_rhythm(tenants, "after", min(60.0, seconds), figures)
    return {
        "attempts": sum(attempts, Counter()),
        "runs at the end of the attack": left,
        "runs a minute after": runs_of_hostile(instance),
        "bytes of memory of the interface without and with": memory,
        "defences": instance.sluice("gate", "defences").stdout.splitlines(),
    }


def print_table(figures: Figures) -> list[str]:
    """Print the figures; what must not have happened."""
    table = Table("tenant", "action", *(f"{phase}: p50 / p95 s (n)" for phase in PHASES), "times", "errors")
    wrong = []
    for tenant, action in dict.fromkeys((tenant, action) for tenant, action, _ in figures):
        phases = [figures[tenant, action, phase] for phase in PHASES]
        times = phases[1].share(95) / phases[0].share(95)
        told = [f"{one.share(50):.2f} / {one.share(95):.2f} ({len(one.seconds)})" for one in phases]
        table.add_row(tenant, action, *told, f"{times:.1f}", " + ".join(str(len(one.errors)) for one in phases))
        wrong += [f"{tenant} {action} {error}" for one in phases for error in one.errors]
        if times > MOST_TIMES:
            wrong.append(f"{tenant} {action}: the p95 is {times:.1f} times as long")
    Console(width=160).print(table)
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.hostile.mixed", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="without the hostile tenant, and as many with it")
    parser.add_argument("--json", type=Path, help="write the figures there")
    asked = parser.parse_args(arguments)
    figures: Figures = defaultdict(Measured)
    with tempfile.TemporaryDirectory(prefix="sluice-mixed-") as folder, Instance(Path(folder)) as instance:
        achieved = run(instance, asked.minutes * 60, figures)
    wrong = print_table(figures)
    for name, found in achieved.items():
        print(f"{name}: {json.dumps(found, indent=1)}")
    print(*wrong[:100], sep="\n")
    if asked.json:
        rows = [{"of": of, **asdict(one), "p50": one.share(50), "p95": one.share(95)} for of, one in figures.items()]
        asked.json.write_text(json.dumps({"figures": rows, "achieved": achieved, "wrong": wrong}, indent=1))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
