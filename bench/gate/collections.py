"""Questions, documents and which of them answer which, read from a folder in BEIR form."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

WORDS_A_CHUNK = 150
QUESTIONS_A_SET = 400
BACKGROUND_DOCUMENTS = 1_500


def load(
    folder: Path, random: np.random.Generator
) -> tuple[list[dict[str, str]], dict[str, set[str]], list[dict[str, str]]]:
    """Some questions, what answers each, and the documents: those, and others as background."""
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        question_id, document_id, _ = line.split("\t")
        relevant[question_id].add(document_id)
    questions = read(folder / "queries.jsonl")
    questions = [questions[row] for row in random.permutation(len(questions))[:QUESTIONS_A_SET]]
    wanted = {document_id for question in questions for document_id in relevant[question["_id"]]}
    documents = read(folder / "corpus.jsonl")
    kept = [d for row, d in enumerate(documents) if row < BACKGROUND_DOCUMENTS or d["_id"] in wanted]
    return questions, relevant, kept


def chunks(document: dict[str, str]) -> Iterator[str]:
    words = document["text"].split()
    for start in range(0, max(1, len(words)), WORDS_A_CHUNK):
        yield f"{document['title']}\n{' '.join(words[start : start + WORDS_A_CHUNK])}"


def read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
