"""What the suite asks an instance to do, and what must come of it: the side of the books that the product cannot touch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from sluice.contracts.document import document_id_for
from tests.chaos.delivery.instance import ChaosInstance

Item = TypeVar("Item")

CORPUS = "chaos"
_WORDS = ("amber", "basalt", "cedar", "dune", "ember", "fjord", "garnet", "heath", "iris", "jasper", "kelp", "lichen")
_PATIENT = {"deadline_seconds": 3_000}
"""Longer than any check: an answer that the deadline forces must not hide an event that was lost."""
SUBMITTERS = 4
"""Requests in flight at once: enough that the interface is never what one waits for."""


@dataclass(frozen=True, slots=True)
class Sent:
    """An accepted run, and what it must leave behind."""

    run_id: str
    kind: str
    corpus: str
    documents: tuple[str, ...] = ()
    """Ids that must be searchable when it is finished, each put into the journal once."""


@dataclass
class Work:
    """Everything that one check has sent. `name` keeps the requests of different checks apart."""

    instance: ChaosInstance
    name: str
    site: str | None = None
    corpus: str = CORPUS
    sent: list[Sent] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def documents(self, numbers: range, per_run: int = 1) -> None:
        """Runs of `per_run` short documents each."""
        batches = [range(start, min(start + per_run, numbers.stop)) for start in numbers[::per_run]]
        self._together(self._document_run, batches)

    def questions(self, numbers: range) -> None:
        """Gate runs that look into the corpus."""
        self._together(self._question, numbers)

    def loops(self, numbers: range) -> None:
        """Gate runs that search and crawl the site, and so pass every stage."""
        self._together(self._loop, numbers)

    def mixed(self, numbers: range) -> None:
        """Per ten: six documents, three questions, one whole loop, where there is a site."""
        self._together(self._one_of_the_mix, numbers)

    def _one_of_the_mix(self, number: int) -> None:
        match number % 10:
            case 0 if self.site:
                self._loop(number)
            case 3 | 6 | 9:
                self._question(number)
            case _:
                self._document_run(range(number, number + 1))

    def _document_run(self, numbers: range) -> None:
        ids = [f"{self.name}-{number:06d}" for number in numbers]
        documents = [
            {"id": name, "text": text_of(self.name, number)} for name, number in zip(ids, numbers, strict=True)
        ]
        self._send("/v1/documents", f"d{numbers.start}", "documents", {"documents": documents}, tuple(ids))

    def _question(self, number: int) -> None:
        body = {"query": f"what is {_WORDS[number % len(_WORDS)]} {number}?", "plan": "retrieve"} | _PATIENT
        self._send("/v1/gate", f"q{number}", "gate", body)

    def _loop(self, number: int) -> None:
        seed, word = f"http://{self.site}/{self.name}-seed-{number}", f"{self.name}-{number}"
        body = {"query": f"pebble {word}", "plan": "full_loop", "seeds": [seed]} | _PATIENT
        pages = (seed, f"http://{self.site}/found-{word}")
        self._send("/v1/gate", f"l{number}", "gate", body, tuple(document_id_for(page) for page in pages))

    def _send(
        self, path: str, key: str, kind: str, body: Mapping[str, object], documents: tuple[str, ...] = ()
    ) -> None:
        run_id = self.instance.submit(
            path, f"{self.name}-{key}", {"corpus": self.corpus, "create_corpus": True, **body}
        )
        self.instance.witness.say("sent", run=run_id, kind=kind)
        with self._lock:
            self.sent.append(Sent(run_id, kind, self.corpus, documents))

    def _together(self, send: Callable[[Item], None], items: Iterable[Item]) -> None:
        with ThreadPoolExecutor(SUBMITTERS, thread_name_prefix="submit") as pool:
            for _ in pool.map(send, items):
                pass


def text_of(name: str, number: int) -> str:
    """A short text that no other document has."""
    word = _WORDS[number % len(_WORDS)]
    return f"{word.title()} {name} {number}: the {word} of number {number} rests beside {_WORDS[number // 12 % 12]}."
