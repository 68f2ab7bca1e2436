"""docs/quality.md: the figures of a run in tables, the limits and whether they hold, and how it was made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np

from bench.quality.formulas import WEIGHTS, Z_SCORE_WEIGHT, Fold, leave_one_out
from bench.quality.measure import Measured
from sluice.contracts.retrieval import Strategy
from sluice.evaluation.retrieval.tables import write_notes
from sluice.index.settings import QuerySettings

SHOWN = ("MRR@10", "hit rate@10", "recall@1", "recall@5", "recall@10", "recall@100")
MOST_BELOW_BETTER_ARM = 0.005
"""How far the sum may fall below the better retriever on a collection that its weight was not chosen on."""
LEAST_ABOVE_RRF = 0.015
"""By how much the default must be better than reciprocal ranks, on average: those of the same two retrievers, and the
baseline's."""
DEFAULT_WEIGHT = QuerySettings().lexical_weight
PAPERS = {
    "scifact_train": "scientific claims against abstracts (SciFact, Wadden et al., EMNLP 2020)",
    "cosqa_dev": "web queries against Python functions (CoSQA, Huang et al., ACL 2021)",
    "squad20_dev": "answerable questions against Wikipedia paragraphs (SQuAD 2.0, Rajpurkar et al., ACL 2018)",
    "cacm": "long information needs against titles and abstracts of computer science (CACM, Fox, 1983)",
    "npl": "short technical queries against abstracts of electronics (NPL, Vaswani and Cameron, 1970)",
    "climate_fever_sent": "claims against sentences of Wikipedia (CLIMATE-FEVER, Diggelmann et al., 2020)",
}
PROSE = """\
# Quality

How well retrieval answers questions whose answers are known, on public collections. Written, with all figures of one
run, by

    {command}

on {day} with version {version}. Any folder of collections in BEIR form will do (`corpus.jsonl`, `queries.jsonl`,
`qrels.tsv`); `sluice eval FOLDER` measures one of them, or your own cases, on an instance that runs.

How far an answer's confidence can be believed, with its reliability table, is in
[decision 19](decisions/0019-confidence.md).

{sources}

## What is compared

**Sluice** is one instance on its defaults. The documents go in through `POST /v1/documents` as plain text, are chunked,
embedded (all-MiniLM-L6-v2) and indexed as any others; the questions go through `POST /v1/query` as they are, with
`top_k` 200, by each strategy. A document stands where its best chunk stands. `hybrid` is the default strategy, its
fusion `{fusion}`. The defaults say in `index/settings.py` where each of them comes from.

The formula of the mix and its weight (`query.lexical_weight`, {weight:g}) were chosen on these six, so the figures of
`hybrid` flatter. *Left out* below does not: there the weight that a collection gets was chosen on the others alone. The
form of the sum, and that function words and repeats count, was seen on all of them. The baseline, `bm25`, `vector`,
ranks and z-scores fed no choice, but for the {z_weight:g} of the z-scores, the best of three, and the weight of titles,
which was chosen on SciFact's. [Decision 12](decisions/0012-fusion.md) has what was tried.

**The baseline** is what the same two libraries give without Sluice: stock Tantivy (one field of title and text, its
English stemmer, its BM25) and exact cosine between all-MiniLM-L6-v2 vectors of whole documents, the first hundred of
each fused by reciprocal rank (k 60; Cormack, Clarke and Büttcher, SIGIR 2009).

The measure is nDCG@10, computed by ir-measures; `p` is of a two-sided paired randomisation test of hybrid against the
baseline (Smucker, Allan and Carterette, CIKM 2007).

## nDCG@10

{headline}

The better retriever is chosen with hindsight for each collection: it is not known before asking. The limits:

{limits}

## The same candidates ordered otherwise

nDCG@10 of the same candidates, by the scores and ranks that the answers tell: reciprocal ranks (k 60) of each
retriever's first fifty, and z-scores with {z_weight:g} for the words.

{formulas}

### Left out

The weight of the words in a row was chosen by the mean of the other rows, out of {weights}.

{folds}

## A question in another language than its passage

Thirty questions of squad20_dev, translated by hand, ten each into German, French and Spanish, against the English
paragraphs (2026-11-22, in one process; they fed no choice). The model is English, so what works is what both languages
share: names, numbers and words of one origin. Whoever asks in other languages than the corpus has needs a model of many
languages (`embed.provider = "openai"`). Questions in the language of their passages are stemmed in it.

| nDCG@10 | bm25 | vector | hybrid | hybrid, hit rate@10 |
| --- | ---: | ---: | ---: | ---: |
| the thirty in English | 0.862 | 0.750 | 0.917 | 0.967 |
| translated | 0.293 | 0.220 | 0.395 | 0.567 |
| of these German | 0.365 | 0.342 | 0.501 | 0.700 |
| French | 0.415 | 0.289 | 0.505 | 0.700 |
| Spanish | 0.100 | 0.030 | 0.179 | 0.300 |

## The other measures

{others}

{notes}
"""


def verdicts(found: Sequence[Measured]) -> Iterator[tuple[str, bool]]:
    """Each limit as a sentence, and whether it is met."""
    better = {one.name: one.figures[3] for one in found}
    below = {fold.name: fold.ndcg - better[fold.name] for fold in folds_of(found)}
    worst = min(below, key=below.__getitem__)
    yield (
        f"on each collection, left out, the sum ≥ better retriever − {MOST_BELOW_BETTER_ARM}: "
        f"worst {below[worst]:+.4f} ({worst})",
        below[worst] >= -MOST_BELOW_BETTER_ARM,
    )
    hybrid = np.array([one.figures[2] for one in found])
    for name, others in (
        ("reciprocal ranks of the same retrievers", [one.formulas.reciprocal_ranks for one in found]),
        ("baseline", [one.figures[5] for one in found]),
    ):
        gain = float(np.mean(hybrid - others))
        yield f"on average hybrid ≥ {name} + {LEAST_ABOVE_RRF}: {gain:+.4f}", gain >= LEAST_ABOVE_RRF


def folds_of(found: Sequence[Measured]) -> list[Fold]:
    """Each collection left out; of one alone the default's own figure."""
    if len(found) < 2:
        return [Fold(one.name, DEFAULT_WEIGHT, one.figures[2]) for one in found]
    return leave_one_out({one.name: one.formulas.by_weight for one in found})


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
        weight=DEFAULT_WEIGHT,
        z_weight=Z_SCORE_WEIGHT,
        weights=", ".join(f"{weight:g}" for weight in WEIGHTS),
        formulas=formula_table(found),
        folds=fold_table(found),
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


def formula_table(found: Sequence[Measured]) -> str:
    """The other formulas beside the default."""
    rows = []
    for one in found:
        formulas = one.formulas
        rows.append((formulas.reciprocal_ranks, formulas.z_scores, one.figures[2]))
    named = [*zip([one.name for one in found], rows, strict=True), ("average", np.mean(rows, axis=0))]
    cells = [[name, *(f"{value:.4f}" for value in row)] for name, row in named]
    return markdown(("collection", "reciprocal ranks", "z-scores", "**hybrid**"), cells)


def fold_table(found: Sequence[Measured]) -> str:
    """What each collection gets with the weight that the others chose."""
    better = {one.name: one.figures[3] for one in found}
    rows = [
        [fold.name, f"{fold.weight:g}", f"{fold.ndcg:.4f}", f"{fold.ndcg - better[fold.name]:+.4f}"]
        for fold in folds_of(found)
    ]
    mean = np.mean([fold.ndcg for fold in folds_of(found)])
    columns = ("left out", "weight chosen on the others", "nDCG@10", "− better retriever")
    return markdown(columns, [*rows, ["average", "", f"{mean:.4f}", ""]])


def shown(figures: Sequence[float]) -> list[str]:
    signed = (4, 6)
    return [f"{figure:+.4f}" if place in signed else f"{figure:.4f}" for place, figure in enumerate(figures)]


def other_table(found: Sequence[Measured]) -> str:
    rows = []
    for one in found:
        hybrid = [one.mean(Strategy.HYBRID, measure) for measure in SHOWN]
        baseline = [one.baseline[measure] for measure in SHOWN]
        for name, means in (("hybrid", hybrid), ("baseline", baseline)):
            rows.append([one.name, name, *(f"{mean:.4f}" for mean in means)])
    return markdown(("collection", "strategy", *SHOWN), rows)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head, *cells = [f"| {' | '.join(row)} |" for row in [columns, *rows]]
    return "\n".join([head, f"|---|{'---:|' * (len(columns) - 1)}", *cells])
