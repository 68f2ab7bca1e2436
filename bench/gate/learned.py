"""The learned gate against the profile: six collections, half of each indexed, on cases that its fit did not see.

    python -m bench.gate.learned DATA_DIR [--work DIR] [--questions 500]

Prints for each collection F1, area and calibration error, fitted in three ways (`workers.training.fit`),
for two mixtures of cases: those of `workers.training.prior_sets`, and half of the articles alone (no neighbours, no
strangers).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.gate.coverage import COLLECTIONS
from sluice.evaluation.report import to_markdown
from sluice.gate.learned.model import Costs
from sluice.gate.profile import load_profiles
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.minilm import MiniLM
from sluice.workers.settings import Settings
from sluice.workers.training.examples import Example, weigh_together
from sluice.workers.training.fit import WAYS, compare
from sluice.workers.training.prior_sets import QUESTIONS, prior_examples
from sluice.workers.training.training import tabulate
from tests.support.repository import MODELS

PSEUDO_RUNS = 1_000.0


def main() -> None:
    """Measure, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--work", type=Path, default=Path("sluice-data") / "gate-tuning")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    embedder = CachedEmbedder(MiniLM(MODELS), EmbeddingCache(options.work / "embeddings.sqlite", 2_000_000))
    settings = Settings.model_validate({"data_dir": options.work, "embed": {"model_dir": MODELS}})
    profile = load_profiles()["default"]
    folders = [options.data_dir / name for name in COLLECTIONS]
    examples = prior_examples(folders, embedder, settings, profile, options.questions)
    for title, chosen in (("all cases", examples), ("half of the articles", half_of_the_articles(examples))):
        compared = list(compare(weigh_together(chosen, [], PSEUDO_RUNS), WAYS, embedder.fingerprint, Costs(), profile))
        for way in WAYS:
            rows = [one for one in compared if one.way == way]
            print(f"\n{title}, {way}\n\n" + to_markdown([tabulate(rows)]))


def half_of_the_articles(examples: Sequence[Example]) -> list[Example]:
    """Questions of a collection against half of its articles alone: those there, and as much weight of those that are
    not. In a collection whose documents are no articles, near and far are the same, and a stranger is neither."""
    has_articles: Mapping[str, bool] = {
        one.source: True for one in examples if one.kind == "far" and one.source in _own_sources(examples)
    }
    kept = [one for one in examples if one.kind in ("covered", "far" if has_articles.get(one.source) else "near")]
    counts = Counter((one.source, one.kind) for one in kept)
    return [replace(one, weight=1 / counts[one.source, one.kind]) for one in kept]


def _own_sources(examples: Sequence[Example]) -> frozenset[str]:
    """Collections of which a question is both covered and far: strangers are never covered."""
    covered = {(one.source, one.article) for one in examples if one.kind == "covered"}
    return frozenset(one.source for one in examples if one.kind == "far" and (one.source, one.article) in covered)


if __name__ == "__main__":
    main()
