"""docs/quality.md: the figures of a run in tables, the limits and whether they hold, and how it was made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np

from bench.quality.measure import Measured
from contracts.retrieval import Strategy
from evaluation.tables import write_notes

SHOWN = ("MRR@10", "hit rate@10", "recall@1", "recall@5", "recall@10", "recall@100")
MOST_BELOW_BETTER_ARM = 0.005
"""How far the default strategy may fall below the better of its arms, on any collection."""
LEAST_ABOVE_BASELINE = 0.015
"""By how much it must be better than the baseline, on average."""
PAPERS = {
    "scifact_train": "scientific claims against abstracts (SciFact, Wadden et al., EMNLP 2020)",
    "cosqa_dev": "web queries against Python functions (CoSQA, Huang et al., ACL 2021)",
    "squad20_dev": "answerable questions against Wikipedia paragraphs (SQuAD 2.0, Rajpurkar et al., ACL 2018)",
}
PROSE = """\
# Quality

How well retrieval answers questions whose answers are known, on public collections. Written, with all figures of one
run, by

    {command}

on {day} with version {version}. Any folder of collections in BEIR form will do (`corpus.jsonl`, `queries.jsonl`,
`qrels.tsv`); `sluice eval FOLDER` measures one of them, or your own cases, on an instance that runs.

{sources}

## What is compared

**Sluice** is one instance on its defaults. The documents go in through `POST /v1/documents` as plain text, are chunked,
embedded (all-MiniLM-L6-v2) and indexed as any others; the questions go through `POST /v1/query` as they are, with
`top_k` 200, by each strategy. A document stands where its best chunk stands. `hybrid` is the default strategy, its
fusion `{fusion}`. The defaults say in `index/settings.py` where each of them comes from.

Some defaults were chosen on these collections: the weight of the words was chosen on one half of the questions of
these three, by a hash of their ids, and the weight of titles on all of SciFact's. `docs/decisions/0005-index.md` has
the halves apart. Other collections will tell more.

**The baseline** is what the same two libraries give without Sluice: stock Tantivy (one field of title and text, its
English stemmer, its BM25) and exact cosine between all-MiniLM-L6-v2 vectors of whole documents, the first hundred of
each fused by reciprocal rank (k 60; Cormack, Clarke and Büttcher, SIGIR 2009).

The measure is nDCG@10, computed by ir-measures; `p` is of a two-sided paired randomisation test of hybrid against the
baseline (Smucker, Allan and Carterette, CIKM 2007).

## nDCG@10

{headline}

The better retriever is chosen with hindsight for each collection: it is not known before asking. The limits:

{limits}

## The other measures

{others}

{notes}
"""


def verdicts(found: Sequence[Measured]) -> Iterator[tuple[str, bool]]:
    """Each limit as a sentence, and whether it is met."""
    worst = min(found, key=lambda one: one.figures[4])
    below = worst.figures[4]
    yield (
        f"on each collection hybrid ≥ better retriever − {MOST_BELOW_BETTER_ARM}: worst {below:+.4f} ({worst.name})",
        below >= -MOST_BELOW_BETTER_ARM,
    )
    gain = float(np.mean([one.figures[6] for one in found]))
    yield (
        f"on average hybrid ≥ baseline + {LEAST_ABOVE_BASELINE}: {gain:+.4f}",
        gain >= LEAST_ABOVE_BASELINE,
    )


def document(found: Sequence[Measured], command: str) -> str:
    """docs/quality.md."""
    fusion = found[0].report.strategies[Strategy.HYBRID].fusion
    limits = "\n".join(f"- {sentence}: {'met' if is_met else '**missed**'}" for sentence, is_met in verdicts(found))
    sources = "\n".join(f"- `{one.name}`: {PAPERS[one.name]}" for one in found if one.name in PAPERS)
    notes = "\n".join(f"- `{one.name}`: {note}." for one in found for note in write_notes(one.report))
    text = PROSE.format(
        command=command,
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        version=version("sluice"),
        sources=sources,
        fusion=fusion,
        headline=headline_table(found),
        limits=limits,
        others=other_table(found),
        notes=notes,
    )
    return text.rstrip() + "\n"


def headline_table(found: Sequence[Measured]) -> str:
    columns = (
        "collection",
        "documents",
        "questions",
        "bm25",
        "vector",
        "**hybrid**",
        "better retriever",
        "hybrid − better retriever",
        "baseline",
        "hybrid − baseline",
        "p",
    )
    rows = []
    for one in found:
        counts = (f"{one.document_count:,}", f"{one.report.case_count:,}")
        rows.append([one.name, *counts, *shown(one.figures), f"{one.baseline_p:.4f}"])
    average = np.mean([one.figures for one in found], axis=0)
    return markdown(columns, [*rows, ["average", "", "", *shown(tuple(average)), ""]])


def shown(figures: Sequence[float]) -> list[str]:
    signed = (4, 6)
    return [f"{figure:+.4f}" if place in signed else f"{figure:.4f}" for place, figure in enumerate(figures)]


def other_table(found: Sequence[Measured]) -> str:
    rows = []
    for one in found:
        means = {str(strategy): [one.mean(strategy, measure) for measure in SHOWN] for strategy in Strategy}
        means["baseline"] = [one.baseline[measure] for measure in SHOWN]
        rows += [[one.name, name, *(f"{mean:.4f}" for mean in row)] for name, row in means.items()]
    return markdown(("collection", "strategy", *SHOWN), rows)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in columns[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [columns, rule, *rows])
