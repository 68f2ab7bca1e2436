"""Whether the answer to a question in another language changes: the time model on questions written by hand."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.gate.measures import f1_score
from bench.gate.time import NOW, changes_by_vector, similarities
from sluice.gate.intent import classify
from sluice.gate.profile import Profile
from sluice.ingest.embed.cache import CachedEmbedder

QUESTIONS = Path(__file__).parent / "time_questions.toml"


def measure_languages(profiles: Sequence[Profile], embedder: CachedEmbedder) -> None:
    """Print the accuracy and F1 of each profile, by language and for those that its words were not written for."""
    languages = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))
    for profile in profiles:
        print(f"time, {profile.name} version {profile.version}, languages\n| language | questions | accuracy | F1 |")
        print("|---|---|---|---|")
        for unseen in (False, True):
            group = {name: own for name, own in languages.items() if own["unseen"] is unseen}
            found = {name: _found(own, profile, embedder) for name, own in group.items()}
            for name, hits in found.items():
                print(_row(name, hits))
            print(_row("all unseen" if unseen else "all others", [hit for hits in found.values() for hit in hits]))


def _found(own: dict[str, list[str]], profile: Profile, embedder: CachedEmbedder) -> list[tuple[bool, bool]]:
    """Of each question whether its answer changes, and whether the profile says so."""
    texts = [*own["changes"], *own["stays"]]
    near = similarities(texts, profile, embedder)
    changes = changes_by_vector(texts, profile, embedder)
    pairs = zip(texts, near, changes, strict=True)
    kinds = [classify(text, one, NOW.year, profile, change) for text, one, change in pairs]
    return [(number < len(own["changes"]), kind.time_sensitive) for number, kind in enumerate(kinds)]


def _row(name: str, hits: list[tuple[bool, bool]]) -> str:
    targets, said = (np.array(column) for column in zip(*hits, strict=True))
    f1 = f1_score(targets, said.astype(float), 1.0)
    return f"| {name} | {len(hits)} | {float((targets == said).mean()):.2f} | {f1:.2f} |"
