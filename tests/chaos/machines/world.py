"""Two machines with what they share in a third, documents that come in through both, and what must come of them."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from tests.chaos.delivery import up
from tests.chaos.delivery.failpoints import Cell, arm
from tests.chaos.delivery.plan import wait_until
from tests.chaos.delivery.truth import read_truth, rows
from tests.chaos.delivery.verdict import Verdict, await_quiet, judge_truth, settled_events
from tests.chaos.delivery.witness import Fact, Witness, facts
from tests.chaos.delivery.work import Sent
from tests.support.namespaces import Central, Machine, Network

CORPUS = "chaos"
NAMES = ("one", "two")
LEASE_SECONDS = 5.0
SETTINGS = {
    "DELIVERY__LEASE_SECONDS": str(LEASE_SECONDS),
    "DELIVERY__RETRY_BASE_SECONDS": "0.2",
    "DELIVERY__MAX_DELIVERIES": "20",
    "CRAWL__RENDER": "never",
}
ACCEPT_PATIENCE_SECONDS, REQUEST_SECONDS = 180.0, 30.0
QUIET_SECONDS, FOUND_SECONDS = 900.0, 120.0
_WORDS = ("amber", "basalt", "cedar", "dune", "ember", "fjord", "garnet", "heath", "iris", "jasper", "kelp", "lichen")


class World:
    """The three machines, and the books of what was sent to two of them."""

    def __init__(self, folder: Path, per_run: int) -> None:
        self._folder, self._per_run = folder, per_run
        self._opened = ExitStack()
        self.sent: list[Sent] = []
        self.documents = 0
        self._lock = threading.Lock()

    def __enter__(self) -> World:
        with ExitStack() as opening:
            self.network = opening.enter_context(Network())
            self.central = opening.enter_context(Central(self.network, self._folder / "central"))
            self.machines = {name: self._machine(name) for name in NAMES}
            first = self.machines["one"]
            made = first.sluice("keys", "suite", "--create", "--role", "operator", "--json")
            assert made.returncode == 0, made.stdout + made.stderr
            for machine in self.machines.values():
                machine.says_key(json.loads(made.stdout)["key"])
                opening.enter_context(machine)
            self._opened = opening.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._opened.close()

    def _machine(self, name: str) -> Machine:
        folder = self._folder / name
        program = ["tests.chaos.delivery.up", str(folder / "logs")]
        machine = Machine(self.network, name, folder, module=program, **SETTINGS, **self.central.settings())
        machine.environment |= {up.FOLDER: str(folder), up.HEALING: "on"}
        Witness(folder / up.WITNESS_FILE, "suite").close()
        return machine

    # -- documents

    def send(self, count: int) -> None:
        """Hand in so many documents, a run for a few of them, through one machine and the other by turns."""
        for start in range(self.documents, self.documents + count, self._per_run):
            numbers = range(start, min(start + self._per_run, self.documents + count))
            self._submit(numbers, turn=start // self._per_run)
        self.documents += count

    def sending(self, count: int) -> threading.Thread:
        """`send` in a thread."""
        thread = threading.Thread(target=self.send, args=(count,), name="send", daemon=True)
        thread.start()
        return thread

    def _submit(self, numbers: range, turn: int) -> None:
        """Until one of the machines accepts it: the key makes it one run, however often it is sent."""
        documents = [{"id": id_of(number), "text": text_of(number)} for number in numbers]
        body = {"corpus": CORPUS, "create_corpus": True, "documents": documents}
        deadline, problem = time.monotonic() + ACCEPT_PATIENCE_SECONDS, ""
        for name in itertools.islice(itertools.cycle(NAMES), turn % 2, None):
            try:
                headers = {"Idempotency-Key": f"d{numbers.start}"}
                answer = self.machines[name].http.post(
                    "/v1/documents", json=body, headers=headers, timeout=REQUEST_SECONDS
                )
                if answer.status_code == 202:
                    ids = tuple(str(one["id"]) for one in documents)
                    with self._lock:
                        self.sent.append(Sent(answer.json()["run_id"], "documents", CORPUS, ids))
                    return
                problem = f"{answer.status_code} {answer.text[:200]}"
                assert answer.status_code in (429, 500, 502, 503, 504, 507), problem
            except httpx.TransportError as error:
                problem = repr(error)
            assert time.monotonic() < deadline, f"documents {numbers} were not accepted: {problem}"
            time.sleep(0.2)

    # -- harm

    @property
    def owner(self) -> Machine:
        """The machine that holds the lease of the index."""
        found: list[str] = []

        def is_held() -> bool:
            holders = {
                row["holder"] for row in rows(self.central.ledger_url, "SELECT * FROM leases WHERE name = 'index'")
            }
            found[:] = [name for name, one in self.machines.items() if machine_id(one) in holders]
            return bool(found)

        assert wait_until(is_held, FOUND_SECONDS), "no machine holds the lease of the index"
        return self.machines[found[0]]

    def other(self, machine: Machine) -> Machine:
        """The one that is not this one."""
        return next(one for one in self.machines.values() if one is not machine)

    def arm(self, machine: Machine, cell: Cell) -> None:
        """Let a fault happen on that machine."""
        arm(machine.folder, cell)

    def fired(self, machine: Machine, point: str, seconds: float = 120.0) -> Fact | None:
        """The fault at that point, once it happens."""
        found: list[Fact] = []

        def is_there() -> bool:
            found[:] = [one for one in self.facts(machine, "fired") if one.more["point"] == point]
            return bool(found)

        return found[-1] if wait_until(is_there, seconds) else None

    def facts(self, machine: Machine, *whats: str) -> Iterator[Fact]:
        """What the processes of that machine said."""
        return facts(machine.folder / up.WITNESS_FILE, *whats)

    # -- what came of it

    def quiet(self) -> bool:
        """Wait until nothing is open."""
        return await_quiet(self.central.ledger_url, QUIET_SECONDS, 180.0)

    def judge(self) -> Verdict:
        """What is lost and what is doubled, by the ledger, the witnesses and the owner's journal and generation."""
        truth = read_truth(self.central.ledger_url, self.owner.data_dir / "index", [one.run_id for one in self.sent])
        settled = [one for name in NAMES for one in settled_events(self.machines[name].folder / up.WITNESS_FILE)]
        return judge_truth(truth, self.sent, settled)

    def judge_reader(self, machine: Machine) -> list[str]:
        """What the generation of a machine that does not write lacks or has twice."""
        truth = read_truth(self.central.ledger_url, machine.data_dir / "index", [])
        found = truth.corpora.get(CORPUS)
        if found is None:
            return [f"{machine.name} has no corpus"]
        found = replace(found, upserts=type(found.upserts)())
        wanted = {document for one in self.sent for document in one.documents}
        lacks = wanted - found.documents.keys()
        return [
            *([found.damage] if found.damage else []),
            *(f"{machine.name} lacks {one}" for one in sorted(lacks)),
            *(f"{machine.name} has {one} {times} times" for one, times in found.chunks.items() if times > 1),
        ]

    def answer(self, machine: Machine, number: int) -> dict[str, Any]:
        """What that machine answers to a question for one document."""
        body = {"corpus": CORPUS, "query": question_of(number), "top_k": 5}
        for _ in range(3):  # a machine that ends may have had the question in hand
            response = machine.http.post("/v1/query", json=body, timeout=REQUEST_SECONDS)
            if response.status_code == 200:
                break
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    def seconds_until_found(self, machine: Machine, number: int, seconds: float = FOUND_SECONDS) -> float | None:
        """How long it takes until that machine answers with that document."""
        began = time.monotonic()

        def is_found() -> bool:
            try:
                return id_of(number) in documents_of(self.answer(machine, number))
            except (httpx.TransportError, AssertionError):
                return False

        return time.monotonic() - began if wait_until(is_found, seconds, look_seconds=0.1) else None

    def handled_again(self) -> int:
        """How many records new owners of the index appended again, as the one before had not shipped them."""
        lines = (
            json.loads(line)
            for machine in self.machines.values()
            for path in (machine.folder / "logs").glob("*index*.log*")
            for line in path.read_text(errors="replace").splitlines()
            if '"appended_again"' in line
        )
        return sum(int(line["until"]) - int(line["beyond"]) for line in lines)

    def wrong_answers(self, machine: Machine, numbers: Sequence[int]) -> list[str]:
        """The documents that are not among the first five for their own question."""
        return [
            f"{machine.name} does not find {id_of(number)}"
            for number in numbers
            if id_of(number) not in documents_of(self.answer(machine, number))
        ]


def machine_id(machine: Machine) -> str | None:
    """The id that a machine has given itself."""
    path = machine.data_dir / "machine"
    return path.read_text().strip() if path.is_file() else None


def documents_of(answer: dict[str, Any]) -> list[str]:
    """The documents of an answer, best first."""
    return [str(one["document_id"]) for one in answer["chunks"]]


def id_of(number: int) -> str:
    """The id of a document."""
    return f"doc-{number:06d}"


def _name_of(number: int) -> str:
    """A word that no other document has: its number in twenty letters, far enough apart."""
    letters, value = "", number * 7_919 + 160_000
    while value:
        value, digit = divmod(value, 20)
        letters += "bcdfghjklmnpqrstvwxz"[digit]
    return letters


def text_of(number: int) -> str:
    """A short text."""
    word, other = _WORDS[number % 12], _WORDS[number // 12 % 12]
    return f"{word.title()} {_name_of(number)}: the {word} of {_name_of(number)} rests beside the {other}."


def question_of(number: int) -> str:
    """What only that document answers."""
    return f"beside what does {_name_of(number)} rest?"
