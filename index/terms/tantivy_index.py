"""The term index: BM25 over text, title, headings and identifiers, on Tantivy.

It stores no bodies: a hit is a chunk number from a fast field.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import tantivy
from tantivy import Occur, Query, TextAnalyzerBuilder, Tokenizer

from sluice.contracts.errors import Corrupted, Unavailable
from sluice.index.terms.terms import (
    LANGUAGE_FIELD,
    Boosts,
    ChunkTerms,
    Hit,
    Terms,
    WeightedTerm,
    weigh_function_words,
    weigh_question_terms,
)

_PROSE = "sluice_prose"
_CODE = "sluice_code"
_NO_LOCK = "Failed to acquire Lockfile"
"""Tantivy's message where it cannot create its lock file, as on a full disk."""
_HEAP_BYTES = 50_000_000
"""Memory of the term index writer; Tantivy refuses less than 15 MB."""
_MOST_FREQUENCIES = 20_000
"""Term frequencies cached between questions, some 150 bytes each; a question needs about thirty."""


class TermWriter:
    """The writer's own term index in `folder`. One at a time; the caller holds the writer lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        with _disk_may_refuse():
            self._index = tantivy.Index(_schema(), path=str(folder))
            split = TextAnalyzerBuilder(Tokenizer.whitespace()).build()  # the texts are terms already
            for name in (_PROSE, _CODE):
                self._index.register_tokenizer(name, split)
            self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        self._is_dirty = False

    def add(self, document_key: int, numbers: Iterable[int], chunks: Iterable[ChunkTerms]) -> None:
        """Add a document's chunks; they are found after `commit`. Raises `Unavailable` when the disk refuses."""
        name = f"{document_key:032x}"
        self._is_dirty = True
        with _disk_may_refuse():
            for number, fields in zip(numbers, chunks, strict=True):
                document = tantivy.Document()
                document.add_unsigned("number", number)
                document.add_text("document", name)
                for field, terms in fields.items():
                    if terms:
                        document.add_text(field, terms)
                self._writer.add_document(document)

    def remove(self, document_key: int) -> None:
        """Remove the chunks of a document that were added before."""
        self._writer.delete_documents_by_term("document", f"{document_key:032x}")
        self._is_dirty = True

    def commit(self) -> None:
        """Make everything so far findable. Raises `Unavailable` when the disk refuses."""
        if self._is_dirty or not (self._folder / "meta.json").exists():
            with _disk_may_refuse():
                self._writer.commit()
            self._is_dirty = False

    def close(self) -> None:
        """Wait until background merges end. The writer cannot be used after this."""
        with contextlib.suppress(ValueError):  # a writer that failed has no merges to wait for
            self._writer.wait_merging_threads()


@contextlib.contextmanager
def _disk_may_refuse() -> Iterator[None]:
    """Report Tantivy's `ValueError` for a failed write as `Unavailable`."""
    try:
        yield
    except ValueError as error:
        raise Unavailable(f"the term index cannot be written: {error}") from error


class TermIndex(Terms):
    """A committed term index opened for reading. Safe for threads.

    Raises `Corrupted` if it does not open, and `Unavailable` where the disk is the cause.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._index = tantivy.Index.open(str(folder))
            self._searcher = self._index.searcher()
        except ValueError as error:
            failure = Unavailable if _NO_LOCK in str(error) else Corrupted
            raise failure(f"the term index in {folder} does not open: {error}") from error
        self._schema = self._index.schema
        self._frequencies: dict[tuple[str, str], int] = {}
        self._last_clauses: tuple[str, Boosts | None, list[Query]] = "", None, []

    @property
    def chunk_count(self) -> int:
        """Number of live chunks."""
        return self._searcher.num_docs

    def search(self, text: str, boosts: Boosts, limit: int, only: Sequence[int] | None = None) -> list[Hit]:
        """Search as `Terms.search` defines."""
        clauses = self._clauses(text, boosts)
        if not clauses or limit < 1:
            return []
        query = Query.boolean_query([(Occur.Should, clause) for clause in clauses])
        if only is not None:
            chosen = Query.const_score_query(Query.term_set_query(self._schema, "number", list(only)), 0.0)
            query = Query.boolean_query([(Occur.Must, query), (Occur.Must, chosen)])
        return self._hits(query, limit)

    def score(self, text: str, boosts: Boosts, numbers: Sequence[int]) -> list[float]:
        """Score as `Terms.score` defines. A clause for each number is several times as fast as a set of them.

        Each function word has its own query around the previous one: Tantivy skips to the chosen chunks in the list of
        a single optional clause, but reads the lists of several from end to end.
        """
        clauses, frequent = self._clauses(text, boosts), self._make_clauses(weigh_function_words(text, boosts, self))
        if not (clauses or frequent) or not numbers:
            return [0.0] * len(numbers)
        those = [(Occur.Should, Query.term_query(self._schema, "number", number)) for number in numbers]
        chosen = Query.const_score_query(Query.boolean_query(those), 0.0)
        query = Query.boolean_query([(Occur.Must, chosen), *[(Occur.Should, clause) for clause in clauses]])
        for clause in frequent:
            query = Query.boolean_query([(Occur.Must, query), (Occur.Should, clause)])
        score_of = dict(self._hits(query, len(numbers)))
        return [score_of.get(number, 0.0) for number in numbers]

    def _hits(self, query: Query, limit: int) -> list[Hit]:
        hits = self._searcher.search(query, limit, count=False).hits
        numbers = self._searcher.fast_field_values("number", [address for _, address in hits])
        return [(int(number or 0), score) for number, (score, _) in zip(numbers, hits, strict=True)]

    def frequency(self, field: str, term: str) -> int:
        """Return the frequency as `Terms.frequency` does; replaced chunks count until their segment is merged."""
        known = self._frequencies.get((field, term))
        if known is None:
            if len(self._frequencies) >= _MOST_FREQUENCIES:
                self._frequencies = {}
            known = self._frequencies[field, term] = int(self._searcher.doc_freq(field, term))
        return known

    def _clauses(self, text: str, boosts: Boosts) -> list[Query]:
        """Return the clauses of a search. The last question's clauses are kept, as it is searched and then scored."""
        last_text, last_boosts, clauses = self._last_clauses
        if (last_text, last_boosts) != (text, boosts):
            clauses = self._make_clauses(weigh_question_terms(text, boosts, self))
            self._last_clauses = text, boosts, clauses
        return clauses

    def _make_clauses(self, wanted: Iterable[WeightedTerm]) -> list[Query]:
        """Return a clause for each term that some chunk has."""
        return [self._clause(*one) for one in wanted if self.frequency(one.field, one.term)]

    def _clause(self, field: str, term: str, boost: float) -> Query:
        query = Query.term_query(self._schema, field, term, "freq")
        return query if boost == 1.0 else Query.boost_query(query, boost)


def list_committed_files(folder: Path) -> tuple[bytes, list[str]]:
    """Read `meta.json` and list the immutable files that it names.

    A background merge may remove files at any time: when one of them is missing, call again.
    """
    meta = (folder / "meta.json").read_bytes()
    present = os.listdir(folder)
    names: list[str] = []
    for segment in json.loads(meta)["segments"]:
        stem = segment["segment_id"].replace("-", "")
        names += [name for name in present if name.startswith(f"{stem}.") and not name.endswith(".del")]
        if segment["deletes"] is not None:
            names.append(f"{stem}.{segment['deletes']['opstamp']}.del")
    return meta, names


def write_meta(folder: Path, meta: bytes, names: Sequence[str]) -> None:
    """Complete a folder of linked files to a writable term index: its meta file and list of managed files."""
    (folder / ".managed.json").write_text(json.dumps(["meta.json", *names]))
    (folder / "meta.json").write_bytes(meta)


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("number", indexed=True, fast=True)
    for field in ("document", LANGUAGE_FIELD):
        builder.add_text_field(field, tokenizer_name="raw", index_option="basic")
    for field in ("title", "headings", "text"):
        builder.add_text_field(field, tokenizer_name=_PROSE, index_option="freq")
    builder.add_text_field("code", tokenizer_name=_CODE, index_option="freq")
    return builder.build()
