"""The search engine of the small web: BM25 over the modules' names, their members and their docstrings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import tantivy

from bench.demo.library import Entry

WEIGHTS = {"module": 1.5, "names": 3.0, "about": 2.0, "text": 1.0}
"""A module that defines what is named, or is about it, counts more than one that mentions it."""
QUESTION_WORDS = frozenset(
    "a an and are at by can could do does for from how i in is it me my of on or python should that the".split()  # noqa: SIM905
    + "their them there this to two up use using was what when where which who why will with you".split()  # noqa: SIM905
)
"""Words that say that something is asked, and not what."""
SNIPPET_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Hit:
    """One result: the module, what it is, and its score."""

    module: str
    snippet: str
    score: float


class Finder:
    """An index in memory, built once."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw")
        builder.add_text_field("summary", stored=True)
        for field in WEIGHTS:
            builder.add_text_field(field, tokenizer_name="en_stem")
        self._index = tantivy.Index(builder.build())
        writer = self._index.writer(heap_size=32_000_000, num_threads=1)
        for entry in entries:
            writer.add_document(
                tantivy.Document(
                    id=entry.module,
                    summary=entry.summary,
                    module=entry.module.replace(".", " "),
                    names=entry.names,
                    about=entry.description,
                    text=entry.text,
                )
            )
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def find(self, query: str, count: int, offset: int = 0) -> list[Hit]:
        """The best modules for a question in words, best first."""
        words = [word for word in re.findall(r"\w+", query) if word.lower() not in QUESTION_WORDS]
        if not words:
            return []
        parsed, _ = self._index.parse_query_lenient(" ".join(words), list(WEIGHTS), field_boosts=WEIGHTS)
        searcher = self._index.searcher()
        found = searcher.search(parsed, limit=count, offset=offset).hits
        return [_hit(searcher.doc(address), score) for score, address in found]


def _hit(document: tantivy.Document, score: float) -> Hit:
    return Hit(document["id"][0], document["summary"][0][:SNIPPET_CHARACTERS], score)
