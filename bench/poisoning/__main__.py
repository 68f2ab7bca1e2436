"""Five crafted passages against each question, and honest groups that are alike, through the index and the answer.

    python -m bench.poisoning [DATA_DIR] [--cache FILE] [--collection NAME ...]

Each collection (5,000 documents at most) gets the crafted passages of one form at a time as submissions, five for each
of 100 questions, and its questions are asked with ten results. A question counts as open where one of its crafted
passages stands unmarked among the first five. Of honest groups each question counts that gets any mark.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from bench.append_documents import append_documents
from bench.poisoning.texts import FORMS, changelogs, craft, manuals, mirrors
from sluice.contracts.document import Document, Provenance
from sluice.contracts.retrieval import Query, Retrieval
from sluice.contracts.trust import Verdict
from sluice.evaluation.retrieval.cases import Case, read_documents, read_questions
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.minilm import MiniLM
from sluice.trust.settings import TrustSettings
from sluice.workers.steps.trusted import mark_floods
from tests.support.repository import MODELS, REPOSITORY

DATA = REPOSITORY.parent / "shared" / "data"
CACHE = REPOSITORY / ".cache" / "quality" / "embedding-cache.sqlite"
COLLECTIONS = ("squad20_dev", "scifact_train", "npl", "cacm", "cosqa_dev", "climate_fever_sent")
DOCUMENTS, QUESTIONS, GROUPS = 5_000, 100, 100
TOP_K, FIRST = 10, 5
CACHED_VECTORS = 2_000_000
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_SUBMITTED = Provenance(source="submission", fetched_at=_NOW)


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    arguments.cache.parent.mkdir(parents=True, exist_ok=True)
    embedder = CachedEmbedder(MiniLM(MODELS), EmbeddingCache(arguments.cache, CACHED_VECTORS))
    print(f"{'collection':<20} {'what':<28} {'questions':>9} {'marked wrongly or open':>22}")
    for name in arguments.collection:
        if not (arguments.data / name).is_dir():
            print(f"{name:<20} skipped, not in {arguments.data}")
            continue
        for what, count, bad in measure(arguments.data / name, embedder):
            print(f"{name:<20} {what:<28} {count:>9} {bad:>22}", flush=True)


def measure(folder: Path, embedder: CachedEmbedder) -> Iterator[tuple[str, int, int]]:
    """What was asked, how many questions, and of how many the outcome is wrong."""
    chance = random.Random(17)
    cases = [case for case in read_questions(folder).cases if case.answers]
    cases = chance.sample(cases, min(QUESTIONS, len(cases)))
    wanted = {answer for case in cases for answer in case.answers}
    given = sorted(read_documents(folder), key=lambda one: one.id not in wanted)
    documents = [_document(str(one.id), f"{one.title or ''}\n{one.text}") for one in islice(given, DOCUMENTS)]
    texts = {document.id: str(document.text) for document in documents}
    questions = [case.query for case in cases]
    with tempfile.TemporaryDirectory(prefix="sluice-poisoning-") as root, _corpus(Path(root), embedder) as corpus:
        corpus.add(documents)
        yield "nothing crafted", len(cases), sum(_is_marked(corpus.ask(question)) for question in questions)
        for share in (0.03, 0.1, 0.25):
            groups = [mirrors(_answer(case, texts), share, chance) for case in cases]
            yield f"mirrors, {share:.0%} of words changed", len(cases), corpus.wrongly_marked(questions, groups)
        for what, make in (("changelogs", changelogs), ("manuals of one template", manuals)):
            made = [make(chance) for _ in range(GROUPS)]
            yield what, GROUPS, corpus.wrongly_marked([one[0] for one in made], [one[1] for one in made])
        for form in FORMS:
            yield (
                f"crafted: {form}",
                len(cases),
                corpus.open(questions, [craft(one, form, chance) for one in questions]),
            )


class _Corpus:
    """A corpus on disk, and groups of texts that come and go."""

    def __init__(self, root: Path, embedder: CachedEmbedder) -> None:
        self._embedder = embedder
        self._writer = IndexWriter(root, "poisoning")
        self._reader = IndexReader(root, "poisoning", QuerySettings())

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def add(self, documents: Sequence[Document]) -> None:
        append_documents(self._writer, documents, self._embedder)
        self._reader.reload()

    def ask(self, question: str) -> Retrieval:
        vector = self._embedder.embed([question]).vectors[0]
        found = self._reader.search(Query(query=question, corpus="poisoning", top_k=TOP_K), vector)
        return mark_floods(found, question, TrustSettings())

    def wrongly_marked(self, questions: Sequence[str], groups: Sequence[Sequence[str]]) -> int:
        with self._with(groups):
            return sum(_is_marked(self.ask(question)) for question in questions)

    def open(self, questions: Sequence[str], groups: Sequence[Sequence[str]]) -> int:
        with self._with(groups) as own_ids:
            return sum(
                any(
                    chunk.document_id in ids and chunk.inspection is None for chunk in self.ask(question).chunks[:FIRST]
                )
                for question, ids in zip(questions, own_ids, strict=True)
            )

    @contextmanager
    def _with(self, groups: Sequence[Sequence[str]]) -> Iterator[list[list[str]]]:
        made = [
            [_document(f"made-{number}-{place}", text) for place, text in enumerate(group)]
            for number, group in enumerate(groups)
        ]
        ids = [[document.id for document in group] for group in made]
        self.add([document for group in made for document in group])
        yield ids
        self._writer.remove([name for group in ids for name in group])
        self._writer.publish()


@contextmanager
def _corpus(root: Path, embedder: CachedEmbedder) -> Iterator[_Corpus]:
    corpus = _Corpus(root, embedder)
    try:
        yield corpus
    finally:
        corpus.close()


def _document(name: str, text: str) -> Document:
    return Document(id=name, media_type="text/plain", text=text.strip(), provenance=_SUBMITTED)


def _answer(case: Case, texts: dict[str, str]) -> str:
    return next(texts[answer] for answer in case.answers if answer in texts)


def _is_marked(found: Retrieval) -> bool:
    return any(chunk.inspection and chunk.inspection.verdict is Verdict.WARNED for chunk in found.chunks)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.poisoning", description=str(__doc__).partition("\n")[0])
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="folder of collections in BEIR form")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where vectors are kept for the next run")
    parser.add_argument("--collection", nargs="+", default=COLLECTIONS, help="names of folders in it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
