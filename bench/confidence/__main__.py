"""Fits the confidence of passages and answers, and measures it on collections that the fit did not see.

    python -m bench.confidence DATA_DIR [--work DIR]

What is printed first is for a person to write into `trust.confidence`. The tables below it judge each collection by a
formula that was fitted on the others. Embeddings are kept in the work directory: the first run takes minutes, later
ones two.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.confidence.cases import Case, read_cases
from bench.confidence.report import (
    ARTICLES,
    fit_all,
    judge_articles,
    judge_left_out,
    judge_shipped,
    table_of_calibration,
    table_of_floors,
    table_of_limits,
    table_of_mixes,
    table_of_operating_points,
    table_of_priors,
    table_of_reliability,
    table_of_sizes,
)
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.minilm import MiniLM
from tests.support.repository import MODELS


def main() -> None:
    """Fit, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--work", type=Path, default=Path("sluice-data") / "confidence")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    cache = EmbeddingCache(options.work / "embeddings.sqlite", 2_000_000)
    cases = list(read_cases(options.data_dir, CachedEmbedder(MiniLM(MODELS), cache)))
    cache.close()
    for name, formula in zip(("BY_MEANING", "BY_TOKENS", "BY_WORDS"), fit_all(cases), strict=True):
        print(f"{name} = {formula}")
    print()
    print("\n".join(write_tables(cases)))


def write_tables(cases: Sequence[Case]) -> Iterator[str]:
    """The tables, each under its heading."""
    judged, by_words = judge_left_out(cases), judge_left_out(cases, by_meaning=False)
    shipped = judge_shipped(cases)
    squad = next(one for one in judged if one.name == ARTICLES)
    sections = {
        "As shipped": table_of_calibration(shipped),
        "As shipped, with a prior by the corpus's own outcomes": table_of_priors(shipped),
        "Calibration": table_of_calibration([*judged, judge_articles(cases)]),
        "Reliability": table_of_reliability(judged),
        "Floors": table_of_floors(judged),
        "Where 8 % of the answerable are lost": table_of_operating_points(judged),
        "Answers that state their limits": table_of_limits(judged),
        f"Other proportions of questions ({ARTICLES})": table_of_mixes(squad),
        "Size of the corpus": table_of_sizes(judged),
        "By words alone": table_of_calibration(by_words),
        "By words alone: floors": table_of_floors(by_words),
    }
    for heading, table in sections.items():
        yield f"### {heading}\n"
        yield from table
        yield ""


if __name__ == "__main__":
    main()
