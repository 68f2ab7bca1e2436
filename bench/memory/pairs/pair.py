"""A pair of learnings and what holds between them."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pair:
    """`label`: "paraphrase", "opposite" (the contrary, or a fact about something else). `template`: how it was made."""

    label: str
    template: str
    topic: str
    one: str
    other: str


def made(name: str) -> list[Pair]:
    """The pairs of `advice.toml` or `findings.toml`: each template filled with each topic that has its words."""
    read = tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))
    found = []
    for label, templates in (("paraphrase", read["paraphrases"]), ("opposite", read["opposites"])):
        for template, one, other in templates:
            for topic in read["topics"]:
                texts = _sentence(one.format_map(topic)), _sentence(other.format_map(topic))
                found.append(Pair(label, template, topic["topic"], *texts))
    return found


def _sentence(text: str) -> str:
    """With a capital, where it does not begin with an identifier."""
    first = text.split()[0]
    return text[0].upper() + text[1:] if first.isalpha() and first.islower() else text


def written(name: str) -> list[Pair]:
    """The pairs by hand of `natural.tsv`, or of `written.tsv`, the last check: nothing was chosen on these."""
    lines = Path(__file__).with_name(f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    labels = {"P": "paraphrase", "O": "opposite"}
    split = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [Pair(labels[label], name, str(number), one, other) for number, (label, one, other) in enumerate(split)]


def condaqa(path: Path) -> list[Pair]:
    """The development pairs of CondaQA: paragraphs edited by people, grouped by passage."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Pair(row["label"], row["cue"], row["id"].split("-")[0], row["a"], row["b"]) for row in rows]
