"""Asks an instance what people ask of Python's documentation and of this repository.

    python -m bench.ask [PYTHON_DOCS] [--url URL]

PYTHON_DOCS is the folder of Python's documentation as HTML (Debian: the package python3.11-doc, then
/usr/share/doc/python3.11/html); its questions are skipped without it. The repository is what git has at HEAD. With
`--url` a running instance is asked that has the corpora `documents` (the repository's own), `repository` and `python`.
Ends with 1 when fewer than 19 of 20 have their answer among the first three passages.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.ask.questions import Question, read_questions
from sluice.contracts.retrieval import RetrievedChunk
from sluice_client import SluiceClient
from tests.support.instance import Instance
from tests.support.repository import REPOSITORY

PARTS = ("tutorial", "faq", "howto", "reference", "library")
"""Of Python's documentation: what answers questions. The rest is news, the C interface and indexes."""
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs")
QUESTIONS = {"documents": "repository"}
"""The questions asked of a corpus, where they have not its name."""
TOP_K = 10
FIRST = 3
LEAST_SHARE = 0.95
INGEST_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the passages found, best first, and the rank of the first one that answers."""

    question: Question
    chunks: tuple[RetrievedChunk, ...]
    rank: int | None

    @property
    def is_right(self) -> bool:
        return self.rank is not None and self.rank <= FIRST


def main() -> int:
    """Ask, print, and return 1 where too many questions miss their answer."""
    arguments = _parsed_arguments()
    if arguments.url:
        found = {name: ask_all(arguments.url, name) for name in ("documents", "repository", "python")}
    else:
        found = dict(ask_own_instance(arguments.python))
    for name, asked in found.items():
        print(report(name, asked))
    return 0 if all(sum(one.is_right for one in asked) >= LEAST_SHARE * len(asked) for asked in found.values()) else 1


def ask_own_instance(python: Path | None) -> Iterator[tuple[str, list[Asked]]]:
    """Ingest what is there into an instance of its own, and ask."""
    with tempfile.TemporaryDirectory(prefix="sluice-ask-") as folder, Instance(Path(folder)) as instance:
        clone = Path(folder, "repository")
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", REPOSITORY.as_uri(), str(clone)], check=True)
        shutil.rmtree(clone / "bench" / "ask")  # the questions beside their answers
        documents = [clone / name for name in DOCUMENTS]
        for name, paths in (
            ("documents", documents),
            ("repository", [clone]),
            ("python", [python / part for part in PARTS] if python else []),
        ):
            if not paths:
                print(f"{name}: skipped, no folder of its documentation given")
                continue
            done = instance.sluice("ingest", "--corpus", name, *map(str, paths), timeout=INGEST_SECONDS)
            if done.returncode:
                raise SystemExit(done.stderr)
            yield name, ask_all(instance.url, name)


def ask_all(url: str, name: str) -> list[Asked]:
    """Ask every question about the corpus `name`."""
    with SluiceClient(url) as client:
        asked = [
            (question, client.query(question.query, name, top_k=TOP_K).chunks) for question in questions_about(name)
        ]
    return [Asked(question, chunks, question.rank_answer(chunks)) for question, chunks in asked]


def questions_about(corpus: str) -> Sequence[Question]:
    """Of the repository's documents alone those that one of them answers: the rest are about code."""
    questions = read_questions(QUESTIONS.get(corpus, corpus))
    if corpus != "documents":
        return questions
    return [question for question in questions if any(path.startswith(DOCUMENTS) for path in question.answers)]


def report(name: str, asked: Sequence[Asked]) -> str:
    """A line for each question: the rank of the passage that answers, and where the first passage is from."""
    right = sum(one.is_right for one in asked)
    lines = [f"{name}: {right} of {len(asked)} questions have their answer among the first {FIRST} passages"]
    lines += [f"  {one.rank or '–':>2}  {one.question.query:<80.80}  {_source(one)}" for one in asked]
    return "\n".join(lines)


def _source(one: Asked) -> str:
    return f"{one.chunks[0].file_path}:{one.chunks[0].start_line}" if one.chunks else "nothing found"


def _parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.ask", description="Ask what people ask, and count right answers.")
    parser.add_argument("python", nargs="?", type=Path, help="folder of Python's documentation as HTML")
    parser.add_argument("--url", help="a running instance that has both corpora")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
