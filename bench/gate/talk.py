"""How much talk is found that the heads were fitted on, and how many real questions are taken for it.

The heads were fitted on the utterances and the traps, on SituatedQA's training questions and on the first half of
SQuAD's; `python -m bench.gate.heads` prints what they tell of groups of examples that were left out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.gate.collections import read
from sluice.gate.heads import read_heads
from sluice.gate.profile import Profile
from sluice.ingest.embed.cache import CachedEmbedder

FOLDER = Path(__file__).parent
QUESTION_SETS = (
    "squad20_dev/queries",
    "cosqa_dev/queries",
    "npl/queries",
    "cacm/queries",
    "climate_fever_sent/queries",
    "scifact_train/queries",
    "gate/situatedqa_temp_train",
    "gate/situatedqa_temp_dev",
    "gate/freshqa_dev",
)


def read_utterances() -> list[dict[str, str]]:
    """Talk: `text`, `language`, `wording` (its category, a point, and the family)."""
    lines = (FOLDER / "talk.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def read_traps() -> list[str]:
    """Questions that begin or sound as talk does."""
    return (FOLDER / "talk_traps.txt").read_text(encoding="utf-8").splitlines()


def report_talk(data_dir: Path, profile: Profile, embedder: CachedEmbedder) -> None:
    """Print the share of talk that is found by language and category, and of questions that are taken for it."""
    if profile.heads is None:
        print(f"talk: profile {profile.name} does not recognise it")
        return
    asked = {name: [row["text"] for row in read(data_dir / f"{name}.jsonl")] for name in QUESTION_SETS}
    for title, embed in (("words and vector", embedder), ("words alone", None)):
        counter = Counter(profile.heads.talk_from, embed)
        rows = read_utterances()
        print(f"talk by {title}: {counter.share([row['text'] for row in rows])} of the utterances")
        for name, group in _groups(rows):
            print(f"talk by {title}, {name}: {counter.share([row['text'] for row in group])}")
        for name, texts in (("written to look like it", read_traps()), *asked.items()):
            print(f"talk by {title}, {name}: {counter.share(texts)} taken for talk")


class Counter:
    """Counts texts that are talk from a probability, with or without their vectors."""

    def __init__(self, talk_from: float, embedder: CachedEmbedder | None) -> None:
        self._talk_from, self._embedder = talk_from, embedder

    def share(self, texts: Sequence[str]) -> str:
        vectors = self._embedder.embed(list(texts)).vectors if self._embedder else [None] * len(texts)
        pairs = zip(texts, vectors, strict=True)
        found = sum(read_heads(text, vector)["talk"] >= self._talk_from for text, vector in pairs)
        return f"{found} of {len(texts)} ({found / len(texts):.4f})"


def _groups(rows: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    found: defaultdict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        found[f"language {row['language']}"].append(row)
        found[f"category {row['wording'].split('.')[0]}"].append(row)
    yield from sorted(found.items())
