"""Every collection through one instance, as `sluice eval retrieval` would, and the baseline on the same questions."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from bench.quality.baseline import baseline_rankings
from bench.quality.candidates import Recorder
from bench.quality.formulas import Formulas, measure_formulas
from sluice.cli.quality.eval import LiveServer
from sluice.contracts.api import SubmittedDocument
from sluice.contracts.retrieval import TEXT_STRATEGIES, Strategy
from sluice.evaluation.report import write_report
from sluice.evaluation.retrieval.ask import ask_all, submit_documents
from sluice.evaluation.retrieval.cases import Case, make_corpus_name, read_documents, read_questions, sample_cases
from sluice.evaluation.retrieval.measures import compute_measures, randomisation_p
from sluice.evaluation.retrieval.report import Report, Subject, make_report, summarise_means
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.minilm import MiniLM
from sluice_client import SluiceClient
from tests.support.instance import Instance
from tests.support.repository import MODELS

HEADLINE = "nDCG@10"
AT_ONCE = 4
INGEST_SECONDS = 7_200.0
REQUEST_SECONDS = 60.0
"""On a machine that does other things too."""
CACHED_VECTORS = 200_000


@dataclass(frozen=True)
class Measured:
    """One collection: Sluice's report, the baseline's means, and how likely chance alone sets them apart."""

    name: str
    document_count: int
    report: Report
    baseline: Mapping[str, float]
    baseline_p: float
    formulas: Formulas

    def mean(self, strategy: Strategy, measure: str = HEADLINE) -> float:
        return self.report.strategies[strategy].means[measure].mean

    @property
    def figures(self) -> tuple[float, ...]:
        """nDCG@10 of bm25, vector, hybrid, better retriever, hybrid - better arm, baseline, hybrid - baseline."""
        bm25, vector, hybrid = map(self.mean, (Strategy.BM25, Strategy.VECTOR, Strategy.HYBRID))
        better, baseline = max(bm25, vector), self.baseline[HEADLINE]
        return bm25, vector, hybrid, better, hybrid - better, baseline, hybrid - baseline


def measure_quality(folders: Sequence[Path], question_count: int | None, cache: Path) -> Iterator[Measured]:
    """Each collection, in one instance. The vectors are kept in `cache`, so that a second run is quick."""
    cache.mkdir(parents=True, exist_ok=True)
    vectors = cache / "embedding-cache.sqlite"
    embedder = CachedEmbedder(MiniLM(MODELS), EmbeddingCache(vectors, CACHED_VECTORS))
    with tempfile.TemporaryDirectory(prefix="sluice-quality-") as folder:
        instance = Instance(Path(folder))
        instance.data_dir.mkdir(parents=True)
        (instance.data_dir / vectors.name).symlink_to(vectors.resolve())
        with instance, SluiceClient(instance.url, timeout_seconds=REQUEST_SECONDS) as client:
            for collection in folders:
                yield measure_collection(collection, question_count, client, embedder, cache)


def measure_collection(
    folder: Path, question_count: int | None, client: SluiceClient, embedder: CachedEmbedder, cache: Path
) -> Measured:
    """Feed, ask by every strategy, and measure the baseline on the same documents and questions."""
    questions = read_questions(folder)
    cases = questions.cases if question_count is None else sample_cases(questions.cases, question_count)
    documents = list(read_documents(folder))
    say(f"{folder.name}: {len(documents)} documents, {len(cases)} questions")
    report, formulas = sluice_report(folder, documents, cases, client)
    write_report(report, cache / f"{folder.name}.json")
    say(f"{folder.name}: baseline")
    rankings = baseline_rankings(documents, cases, embedder)
    values = compute_measures(cases, rankings)
    ours = report.strategies[Strategy.HYBRID].values[HEADLINE]
    differences = np.array([[ours[case.id] - values[HEADLINE][case.id]] for case in cases])
    means = {name: mean.mean for name, mean in summarise_means(values).items()}
    return Measured(folder.name, len(documents), report, means, float(randomisation_p(differences)[0]), formulas)


def sluice_report(
    folder: Path, documents: Sequence[SubmittedDocument], cases: Sequence[Case], client: SluiceClient
) -> tuple[Report, Formulas]:
    server, corpus = LiveServer(client), make_corpus_name(folder)
    fed = submit_documents(
        documents, corpus, server, sleep=time.sleep, clock=time.monotonic, timeout_seconds=INGEST_SECONDS
    )
    say(f"{folder.name}: {fed.document_count - fed.missing_count} can be found")
    recorder = Recorder(cases, server.search)
    with closing(ask_all(cases, TEXT_STRATEGIES, corpus, recorder.search, at_once=AT_ONCE)) as asking:
        answers = list(asking)
    subject = Subject(
        source=folder.name,
        corpus=corpus,
        sluice_version=version("sluice"),
        server_version=client.health().version,
        at_once=AT_ONCE,
    )
    return make_report(subject, cases, answers, datetime.now(UTC), fed=fed), measure_formulas(recorder.candidates())


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)
