"""The local engine and Qdrant side by side: quality, time and CPU of a search, and a rebuild from the journal.

    python -m bench.qdrant [--public DATA_DIR] [--engines local,edge,memory,server] [--documents N] [--questions N]
    python -m bench.qdrant --rebuild 20000 [--engines edge]

`edge` is Qdrant's own engine as a library in this process (`qdrant-edge-py`, one shard, no network), `memory` the
client library's engine in Python, whose times are Python's; `server` is the one that SLUICE_TEST_QDRANT_URL names.
Both engines get the same chunks (one a document), vectors and questions.

The three sets chose nothing: a text's first sentence is the question, its rest the one document that answers it.
`debian`: the packages of this machine, `python`: docstrings of the standard library, `science`: those of NumPy, SciPy
and scikit-learn. `--public` adds collections in BEIR form, on which the weight of the fusion was chosen for both.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import os
import re
import resource
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np

from sluice.contracts.document import Chunk, ChunkBatch, ChunkedDocument, Provenance, sha256_text
from sluice.contracts.retrieval import Query, Strategy
from sluice.evaluation.retrieval.cases import Case, read_documents, read_questions, sample_cases
from sluice.evaluation.retrieval.measures import compute_measures
from sluice.index.journal.records import Vectors
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from tests.support.repository import MODELS

CORPUS, MODEL = "c", "bench"
STRATEGIES = (Strategy.HYBRID, Strategy.BM25, Strategy.VECTOR)
LEAST, MOST = 80, 1_200
"""Characters of a document: a shorter one says little, of a longer one the model reads no more."""


class Collection(NamedTuple):
    name: str
    documents: dict[str, str]
    cases: Sequence[Case]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.qdrant", description="The local engine and Qdrant side by side.")
    parser.add_argument("--engines", default="local,edge", help="of local, edge, memory, server")
    parser.add_argument("--sets", default="debian,python,science")
    parser.add_argument("--documents", type=int, default=1_200, help="at most so many of each of the three sets")
    parser.add_argument("--questions", type=int, default=250)
    parser.add_argument("--public", type=Path, nargs="*", default=[], help="folders of collections in BEIR form")
    parser.add_argument("--rebuild", type=int, help="fill and rebuild so many chunks, with vectors of hashed words")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "bench-qdrant-vectors")
    chosen = parser.parse_args()
    for name in chosen.engines.split(","):
        if chosen.rebuild:
            measure_rebuild(name, chosen.rebuild)
    if chosen.rebuild:
        return
    made = [make() for name, make in SETS.items() if name in chosen.sets.split(",")]
    sets = [known_items(name, texts, chosen.documents, chosen.questions) for name, texts in made]
    sets += [public(folder, chosen.questions) for folder in chosen.public]
    for one in sets:
        compare(one, chosen.engines.split(","), chosen.cache)


def compare(collection: Collection, engines: Sequence[str], cache: Path) -> None:
    """Print nDCG@10 by strategy, and milliseconds and CPU of a hybrid search, for each engine."""
    names, questions = list(collection.documents), [case.query for case in collection.cases]
    vectors = embedded([*collection.documents.values(), *questions], cache)
    asked = vectors[len(names) :]
    for engine in engines:
        with (
            tempfile.TemporaryDirectory(prefix="bench-qdrant-") as root,
            opened(engine, Path(root)) as (writer, reader),
        ):
            documents = [document(name, collection.documents[name]) for name in names]
            writer.append(ChunkBatch(documents=tuple(documents)), vectors[: len(names)], MODEL)
            writer.publish()
            told = []
            for strategy in STRATEGIES:
                rankings, walls, cpus = {}, [], []
                for row, case in enumerate(collection.cases):
                    query = Query(query=case.query, corpus=CORPUS, strategy=strategy, top_k=10)
                    before, cpu = time.perf_counter(), time.process_time()
                    found = reader.retrieve(query, asked[row])
                    walls.append(time.perf_counter() - before)
                    cpus.append(time.process_time() - cpu)
                    rankings[case.id] = [chunk.document_id for chunk in found.chunks]
                quality = mean(compute_measures(collection.cases, rankings)["nDCG@10"].values())
                told.append(f"{strategy} {quality:.4f} ({1e3 * median(walls):.2f} ms, CPU {1e3 * mean(cpus):.2f} ms)")
            counts = f"{len(names)} documents, {len(questions)} questions"
            print(f"{collection.name:9} {counts} {engine:7} nDCG@10 {'; '.join(told)}", flush=True)


def measure_rebuild(engine: str, count: int) -> None:
    """Append `count` chunks to a journal, fill an index from it, and rebuild it; print times and memory."""
    random = np.random.default_rng(1)
    words = [f"word{number}" for number in range(30_000)]
    tables = {word: random.standard_normal(384).astype(np.float32) for word in words}
    drawn = np.minimum(random.zipf(1.3, (count, 60)) - 1, len(words) - 1)
    with tempfile.TemporaryDirectory(prefix="bench-qdrant-") as root:
        with IndexWriter(Path(root), CORPUS) as journal:
            for start in range(0, count, 1_000):
                texts = [" ".join(words[word] for word in row) for row in drawn[start : start + 1_000]]
                summed = np.array([sum(tables[word] for word in text.split()[:20]) for text in texts], dtype=np.float32)
                rows = summed / np.linalg.norm(summed, axis=1, keepdims=True)
                made = [document(f"d{start + row}", text) for row, text in enumerate(texts)]
                journal.append(ChunkBatch(documents=tuple(made)), rows, MODEL)
        before = memory()
        for what in ("filled", "rebuilt"):
            began, cpu = time.perf_counter(), time.process_time()
            with opened(engine, Path(root)) as (writer, reader):
                if what == "rebuilt":
                    writer.publish()
                    began, cpu = time.perf_counter(), time.process_time()
                    done = writer.rebuild()
                    print(f"{engine}: {done.generation.chunk_count} chunks, proven: {done.is_proven}", flush=True)
                else:
                    writer.publish()
                seconds, spent = time.perf_counter() - began, time.process_time() - cpu
                rate = f"{count / spent:,.0f} chunks per CPU-second"
                grown = f"{(memory() - before) / 1e6:.0f} MB more at the peak"
                print(f"{engine}: {count} {what} in {seconds:.1f} s, CPU {spent:.1f} s, {rate}, {grown}", flush=True)
                if what == "filled":
                    search_some(reader, drawn, words, tables)


def search_some(reader: Any, drawn: Any, words: Sequence[str], tables: dict[str, Any]) -> None:
    walls, cpus = [], []
    for row in drawn[:: max(1, len(drawn) // 100)]:
        text = " ".join(words[word] for word in row[20:28])
        vector = np.sum([tables[words[word]] for word in row[:20]], axis=0, dtype=np.float32)
        before, cpu = time.perf_counter(), time.process_time()
        reader.retrieve(Query(query=text, corpus=CORPUS, top_k=10), vector / np.linalg.norm(vector))
        walls.append(time.perf_counter() - before)
        cpus.append(time.process_time() - cpu)
    print(f"  a hybrid search: p50 {1e3 * median(walls):.1f} ms, CPU {1e3 * mean(cpus):.1f} ms", flush=True)


def memory() -> int:
    """The most bytes that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def opened(engine: str, root: Path) -> Iterator[tuple[Any, Any]]:
    """A writer and a reader of a corpus below `root`."""
    settings = QuerySettings()
    if engine == "local":
        reader = IndexReader(root, CORPUS, settings)
        with IndexWriter(root, CORPUS) as writer:
            yield writer, reader
        reader.close()
        return
    from sluice.index.qdrant.reader import QdrantReader
    from sluice.index.qdrant.writer import QdrantWriter
    from tests.support.loopback_qdrant import collection_of

    with collection_of(engine) as collection, QdrantWriter(root, CORPUS, collection) as qdrant:
        yield qdrant, QdrantReader(collection, CORPUS, settings)


def document(name: str, text: str) -> ChunkedDocument:
    """A document of one chunk."""
    chunk = Chunk(
        chunk_id="chunk_" + sha256_text(name)[:24], document_id=name, ordinal=0, text=text, start_line=1, end_line=1,
        token_estimate=max(1, len(text) // 4), checksum=sha256_text(text),
    )  # fmt: skip
    came = Provenance(source="file", fetched_at=datetime(2026, 1, 1, tzinfo=UTC))
    return ChunkedDocument(document_id=name, checksum=sha256_text(text), provenance=came, chunks=(chunk,))


def embedded(texts: Sequence[str], cache: Path) -> Vectors:
    """The vectors of the project's model, from the cache where they are there."""
    from sluice.ingest.embed.minilm import MiniLM

    path = cache / f"{hashlib.sha256(chr(0).join(texts).encode()).hexdigest()[:24]}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        np.save(path, MiniLM(MODELS, threads=1).embed(texts).vectors)
    return np.load(path)


def known_items(name: str, texts: Sequence[tuple[str, str]], most: int, questions: int) -> Collection:
    """A collection of texts whose first sentence asks for the rest."""
    fitting = [(asked, rest[:MOST]) for asked, rest in texts if len(rest) >= LEAST and len(asked.split()) > 2]
    chosen = list(dict(fitting).items())[:: max(1, len(fitting) // most)][:most]
    documents = {f"d{number}": rest for number, (_, rest) in enumerate(chosen)}
    cases = [Case(id=f"q{row}", query=asked, relevant={f"d{row}": 1}) for row, (asked, _) in enumerate(chosen)]
    return Collection(name, documents, sample_cases(cases, questions))


def public(folder: Path, questions: int) -> Collection:
    """A collection in BEIR form."""
    documents = {str(one.id): f"{one.title or ''}\n{one.text or ''}".strip()[:MOST] for one in read_documents(folder)}
    cases = read_questions(folder).cases
    return Collection(folder.name, {k: v for k, v in documents.items() if v}, sample_cases(cases, questions))


def debian() -> tuple[str, list[tuple[str, str]]]:
    """The installed packages: summary and description."""
    found = []
    status = Path("/var/lib/dpkg/status")
    for entry in status.read_text(errors="replace").split("\n\n") if status.exists() else ():
        if told := re.search(r"^Description: (.*)\n((?: .*\n?)+)", entry, re.MULTILINE):
            found.append((told[1], " ".join(told[2].split())))
    return "debian", found


def python() -> tuple[str, list[tuple[str, str]]]:
    """The standard library's docstrings."""
    return "python", docstrings([Path(sysconfig.get_paths()["stdlib"])], {"site-packages", "test", "tests"})


def science() -> tuple[str, list[tuple[str, str]]]:
    """The docstrings of NumPy, SciPy and scikit-learn."""
    specs = (importlib.util.find_spec(name) for name in ("numpy", "scipy", "sklearn"))
    return "science", docstrings([Path(spec.origin).parent for spec in specs if spec and spec.origin], {"tests"})


def docstrings(folders: Sequence[Path], without: set[str]) -> list[tuple[str, str]]:
    """Every docstring of a function or class that has more than its first sentence."""
    found = []
    for path in sorted(one for folder in folders for one in folder.rglob("*.py")):
        if without & set(path.parts) - set(folders[0].parts):
            continue
        try:
            tree = ast.parse(path.read_text(errors="replace"))
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (told := ast.get_docstring(node)):
                first, _, rest = told.partition("\n\n")
                found.append((" ".join(first.split()), " ".join(rest.split())))
    return found


SETS = {"debian": debian, "python": python, "science": science}

if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
