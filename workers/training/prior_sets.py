"""Public collections as if they were runs: half of the articles are indexed and probed with every question.

A real index is built in a temporary folder, and the product's own probe measures each question, so that a model is
fitted on what it reads later. A question meets up to three kinds of corpora:

    covered   the documents that answer it are there
    near      these were left out, while other documents of its article, or of its collection, are there
    far       its whole article was left out; for a collection whose documents are no articles,
              the questions are those of another collection (strangers)

Both halves are built, so most questions meet once a corpus that answers them and once one that does not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import numpy as np

from sluice.contracts.document import ChunkBatch, ChunkedDocument, Document, Provenance
from sluice.contracts.errors import InvalidInput
from sluice.contracts.gate import GateRequested
from sluice.evaluation.retrieval.cases import is_collection, read_documents, read_questions
from sluice.gate.profile import Profile
from sluice.index.journal.records import Vectors
from sluice.index.local.writer import IndexWriter
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.port import Embedder
from sluice.ingest.embed.tokens import shared_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.workers.context import Context
from sluice.workers.settings import Settings
from sluice.workers.steps.probe import Probe
from sluice.workers.training.examples import Example, make_example, weigh_by_kind
from sluice.workers.wiring.inject import assemble
from sluice.workers.wiring.models import EmbeddingService

QUESTIONS = 500
"""Questions of one collection at most, drawn by a hash of their ids."""
DOCUMENTS_AT_ONCE = 256
_HALVES = (0, 1)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question, and the documents that answer it."""

    name: str
    text: str
    answers: frozenset[str]
    article: str


class Collection:
    """A collection in the form of BEIR, chunked and embedded once."""

    def __init__(self, folder: Path, embedder: Embedder, settings: Settings, questions: int = QUESTIONS) -> None:
        """Read `folder`: the first `questions` by hash of id. Raises `InvalidInput` if it is no valid collection."""
        if not is_collection(folder):
            raise InvalidInput(str(folder), "is no collection", "a folder with corpus.jsonl, queries.jsonl, qrels.tsv")
        self.name, self._embedder = folder.resolve().name, embedder
        provenance = Provenance(source="submission", fetched_at=datetime.now(UTC))
        self._documents: list[tuple[ChunkedDocument, Vectors]] = []
        documents = [
            Document(id=str(one.id), media_type="text/plain", text=one.text, title=one.title, provenance=provenance)
            for one in read_documents(folder)
        ]
        for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
            self._documents += _chunk_and_embed(documents[start : start + DOCUMENTS_AT_ONCE], embedder, settings)
        ids = [document.document_id for document, _ in self._documents]
        self.has_articles = len({article_of(one) for one in ids}) < len(ids) / 2
        self.questions = self._read_questions(folder, frozenset(ids), questions)

    def _read_questions(self, folder: Path, known: frozenset[str], most: int) -> list[_Asked]:
        found = []
        for case in read_questions(folder).cases:
            answers = frozenset(name for name, grade in case.relevant.items() if grade > 0) & known
            if answers:
                article = article_of(min(answers)) if self.has_articles else case.id
                found.append(_Asked(case.id, case.query, answers, article))
        return sorted(found, key=lambda one: _number(one.name))[:most]

    def halves(self) -> Iterator[tuple[bool, frozenset[str]]]:
        """Yield for each half whether it leaves out whole articles, and its ids.

        Without articles a half leaves out all that answers half of the questions, and half of what answers none.
        """
        ids = [document.document_id for document, _ in self._documents]
        for half in _HALVES:
            if self.has_articles:
                yield True, frozenset(one for one in ids if _bit(article_of(one)) == half)
                yield False, frozenset(one for one in ids if _bit(one) == half)
            else:
                out = [asked.answers for asked in self.questions if _bit(asked.name) != half]
                left_out = frozenset[str]().union(*out)
                answering = frozenset[str]().union(*(asked.answers for asked in self.questions))
                kept = (one for one in ids if one not in left_out and (one in answering or _bit(one) == half))
                yield False, frozenset(kept)

    def write(self, root: Path, corpus: str, wanted: frozenset[str]) -> None:
        """Index the documents of one half."""
        chosen = [(one, vectors) for one, vectors in self._documents if one.document_id in wanted]
        with IndexWriter(root, corpus) as writer:
            for start in range(0, len(chosen), DOCUMENTS_AT_ONCE):
                part = chosen[start : start + DOCUMENTS_AT_ONCE]
                batch = ChunkBatch(documents=tuple(one for one, _ in part))
                writer.append(batch, np.concatenate([vectors for _, vectors in part]), self._embedder.fingerprint)
            writer.publish()


def prior_examples(
    folders: Sequence[Path], embedder: Embedder, settings: Settings, profile: Profile, questions: int = QUESTIONS
) -> list[Example]:
    """Make the examples of every collection. Needs about a minute for ten thousand documents whose vectors are cached.

    Raises:
        InvalidInput: a folder is no collection.
    """
    found: list[Example] = []
    strangers: list[_Asked] = []
    for folder in folders:
        collection = Collection(folder, embedder, settings, questions)
        strangers = strangers or _questions_of_another(folders, folder, questions)
        with tempfile.TemporaryDirectory(prefix="sluice-prior-") as temporary:
            own = _settings_in(Path(temporary), settings)
            with closing(Context(own)) as context:
                probe = _probe_by(embedder, context)
                for asked, kind, corpus in _cases(collection, strangers, own.index_root):
                    request, article = GateRequested(query=asked.text), asked.article
                    probed, _, _ = probe.measure(request, corpus, profile)
                    covered = kind == "covered"
                    found.append(
                        make_example(collection.name, article, asked.name, kind, covered, request, probed, profile)
                    )
        strangers = collection.questions
    return weigh_by_kind(found)


def list_collections(folders: Sequence[Path]) -> list[Path]:
    """Return the collections among the folders and in them, in the order of their names.

    Raises:
        InvalidInput: a folder is none and holds none, or two have the same name.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        inside = [folder] if is_collection(folder) else [one for one in sorted(folder.iterdir()) if is_collection(one)]
        if not inside:
            raise InvalidInput("--data", f"no collection in {folder}", "corpus.jsonl, queries.jsonl and qrels.tsv")
        for one in inside:
            name = one.resolve().name
            if name in found:
                raise InvalidInput("--data", f"two collections are called {name}", "name each once")
            found[name] = one.resolve()
    return [found[name] for name in sorted(found)]


def article_of(document_id: str) -> str:
    """Return the article of a paragraph or sentence: the part of its id before the last `#` or `:`."""
    mark = "#" if "#" in document_id else ":"
    return document_id.rsplit(mark, 1)[0]


def _probe_by(embedder: Embedder, context: Context) -> Probe:
    """Return the product's probe, with vectors of `embedder`."""
    embedding = EmbeddingService(
        context.settings.embed,
        embedder=lambda: embedder,
        question_embedder=lambda: embedder,
        tokenizer=lambda: context.tokenizer,
        model_of_corpus=lambda corpus: embedder.fingerprint,
    )
    probe = assemble(Probe, context)
    return replace(probe, embedding=embedding, retriever=replace(probe.retriever, embedding=embedding))


def _cases(collection: Collection, strangers: Sequence[_Asked], root: Path) -> Iterator[tuple[_Asked, str, str]]:
    """Index each half, and yield its questions, with the kind of each and the name of the half's corpus.

    The article of a stranger is that of what answers it in its own collection.
    """
    for number, (whole_articles, present) in enumerate(collection.halves()):
        corpus = f"half-{number}"
        collection.write(root, corpus, present)
        for asked in collection.questions:
            kind = "covered" if asked.answers & present else "far" if whole_articles else "near"
            if collection.has_articles and not whole_articles and kind == "covered":
                continue  # these belong to the half of whole articles
            yield asked, kind, corpus
        if not collection.has_articles and number == 0:
            for asked in strangers:
                yield replace(asked, name=f"stranger {asked.name}", article=f"stranger {asked.article}"), "far", corpus


def _questions_of_another(folders: Sequence[Path], folder: Path, most: int) -> list[_Asked]:
    """Return, for the first collection, questions of the last one, whose documents are not read for it."""
    others = [one for one in folders if one != folder]
    if not others:
        return []
    cases = sorted(read_questions(others[-1]).cases, key=lambda one: _number(one.id))[:most]
    return [_Asked(one.id, one.query, frozenset(), one.id) for one in cases]


def _chunk_and_embed(
    documents: Sequence[Document], embedder: Embedder, settings: Settings
) -> Iterator[tuple[ChunkedDocument, Vectors]]:
    chunked = [chunk_document(one, extract_document(one), settings.chunk, shared_tokenizer()) for one in documents]
    chunked = [one for one in chunked if one.chunks]
    texts = [text for one in chunked for text in one.embedding_texts()]
    vectors, at = embedder.embed(texts).vectors, 0
    for one in chunked:
        yield one, vectors[at : at + len(one.chunks)]
        at += len(one.chunks)


def _settings_in(folder: Path, settings: Settings) -> Settings:
    """Return the instance's settings for an index of its own in `folder`, on this machine's disk."""
    return settings.model_copy(
        update={
            "data_dir": folder,
            "ledger_url": None,
            "index": settings.index.model_copy(update={"engine": "local"}),
            "embed": settings.embed.model_copy(update={"model_dir": settings.model_dir}),
        }
    )


def _bit(name: str) -> int:
    return _number(name) % 2


def _number(name: str) -> int:
    """Derive a number from the name alone: the same on every machine."""
    return int.from_bytes(sha256(f"prior:{name}".encode()).digest()[:8], "big")
