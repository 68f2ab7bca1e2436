"""A graph that grows by whatever happens to a corpus, beside the one that is made of what the corpus holds in the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from sluice.contracts.document import document_id_for, sha256_text
from sluice.contracts.graph.model import Edge, GraphDocument
from sluice.graph.extract.extract import extract_edges, parser_version
from sluice.ledger.graph.reading import GraphRow, Identity, row_sha256, sum_sha256
from sluice.ledger.graph.store import Change, Graphs
from tests.support.graph.corpus import graph_document

Step = Callable[[], None]


class Growing:
    """A corpus to which things happen, and its graph in a ledger, which follows by one event each.

    `files` are the texts that paths may have, the first being that to begin with.
    """

    def __init__(self, graph: Graphs, corpus: str, files: Mapping[str, Sequence[str]], seed: int | str) -> None:
        self.graph, self.corpus = graph, corpus
        self._files = files
        self._choose = random.Random(seed)
        self.texts: dict[str, str] = {}
        """What the corpus holds, by path."""
        self.as_of = 0
        self._stale: list[tuple[list[GraphRow], list[str], int]] = []
        """Events that were handled, and may be handled once more, late."""

    def happens(self, steps: int) -> None:
        """So many things happen, of every kind."""
        kinds: list[Step] = [
            self.add,
            self.change,
            self.rename,
            self.delete,
            self.forget_folder,
            self.repeat,
            self.late,
        ]
        weights = [6, 6, 2, 2, 1, 1, 2]
        for kind in self._choose.choices(kinds, weights, k=steps):
            kind()

    def add(self) -> None:
        """Files come, or come back."""
        paths = self._choose.sample(sorted(self._files), self._choose.randint(1, min(5, len(self._files))))
        self.set_all({path: self._choose.choice(self._files[path]) for path in paths})

    def change(self) -> None:
        """One file gets another of its texts: an edit, or its undoing."""
        if self.texts:
            path = self._choose.choice(sorted(self.texts))
            self.set_all({path: self._choose.choice(self._files[self._origin(path)])})

    def rename(self) -> None:
        """One file moves: another document, whose module has another name."""
        if self.texts:
            path = self._choose.choice(sorted(self.texts))
            text = self.texts[path]
            self._drop([path])
            self.set_all({path.removeprefix("moved/") if path.startswith("moved/") else f"moved/{path}": text})

    def delete(self) -> None:
        """One file is deleted."""
        if self.texts:
            self._drop([self._choose.choice(sorted(self.texts))])

    def forget_folder(self) -> None:
        """Everything in a folder is un-ingested."""
        if self.texts:
            folder = self._choose.choice(sorted(self.texts)).rpartition("/")[0]
            self._drop([path for path in self.texts if path.rpartition("/")[0] == folder])

    def repeat(self) -> None:
        """An event is handled a second time, by the index as it is now."""
        self.set_all(dict(self.texts))

    def late(self) -> None:
        """A handler that was held up for long writes what it had read."""
        if self._stale:
            replaced, removed, as_of = self._choose.choice(self._stale)
            if replaced:
                self.graph.carry_out(self.corpus, Change(as_of, replace=replaced))
            if removed:
                self.graph.carry_out(self.corpus, Change(as_of, remove=removed))

    def rows(self) -> list[GraphRow]:
        """What a graph has that is read anew from the corpus as it is, in the order of ids."""
        return sorted((row_of(graph_document(path, text)) for path, text in self.texts.items()))

    def is_as_rebuilt(self) -> bool:
        """Whether the grown graph, its hash and its sums are those of one that is read anew."""
        rebuilt = self.rows()
        with self.graph.snapshot(self.corpus) as snapshot:
            totals, grown = snapshot.totals, list(snapshot.full_rows())
        sums = (sum_sha256(map(row_sha256, rebuilt)), len(rebuilt), sum(len(row.edges) for row in rebuilt))
        return grown == rebuilt and (totals.sha256, totals.documents, totals.edges) == sums

    def _origin(self, path: str) -> str:
        return path.removeprefix("moved/")

    def set_all(self, texts: Mapping[str, str]) -> None:
        """Files get these texts, by one event."""
        self.texts.update(texts)
        self.as_of += 1
        rows = [row_of(graph_document(path, text)) for path, text in texts.items()]
        self.graph.carry_out(self.corpus, Change(self.as_of, replace=rows))
        self._stale.append((rows, [], self.as_of))

    def _drop(self, paths: Sequence[str]) -> None:
        for path in paths:
            del self.texts[path]
        self.as_of += 1
        ids = [document_id_for(path) for path in paths]
        self.graph.carry_out(self.corpus, Change(self.as_of, remove=ids))
        self._stale.append(([], ids, self.as_of))


def row_of(document: GraphDocument) -> GraphRow:
    """The row of a document that is read anew."""
    identity = Identity(sha256_text(document.text), "", parser_version(), document.path, document.url, document.title)
    return GraphRow(document.document_id, identity, _edges(document.document_id, document.path or "", document.text))


@lru_cache(maxsize=20_000)  # the same text at the same path, again and again
def _edges(document_id: str, path: str, text: str) -> tuple[Edge, ...]:
    return extract_edges(graph_document(path, text, document_id=document_id))


def edited(text: str) -> list[str]:
    """A text, and three edits of it: a line more at its head, its second half gone, and one more statement."""
    lines = text.splitlines(keepends=True)
    return [text, f"# seen\n{text}", "".join(lines[: len(lines) // 2]), f"{text}\nprint(total(save()))\n"]
