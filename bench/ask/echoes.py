"""Do passages that merely repeat a question stand above the one that answers it?

    python -m bench.ask.echoes [DATA_DIR] [--cache FILE]

To the paragraphs of SQuAD 2.0 (`squad20_dev`) come passages made by rule of its questions: what repeats one (an FAQ's
heading without its answer, a list of questions, a test, a command, a log), and what repeats and answers one (an FAQ's
heading with the paragraph's own sentences, which must stay where it is). Each form has questions of its own, of
different articles where it can.

"Before" is the order of fusion, "after" that of the results.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from bench.append_documents import append_documents
from sluice.contracts.document import Document, Provenance
from sluice.contracts.retrieval import Query
from sluice.evaluation.retrieval.cases import read_documents, read_questions
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.minilm import MiniLM
from sluice.ingest.extract.media_types import media_type_for
from sluice.workers.service.documents import document_of
from tests.support.repository import DATA, MODELS, REPOSITORY

SET = "squad20_dev"
QUESTIONS_A_FORM = 20
DEPTH = 10
CACHED_VECTORS = 200_000
CACHE = REPOSITORY / ".cache" / "quality" / "embedding-cache.sqlite"
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_ANSWERED = "heading and answer"

Form = Callable[[str, Sequence[str], str], tuple[str, str]]
"""Makes a file's name and text of a question, other questions and the paragraph that answers."""


def _heading(question: str, others: Sequence[str], answer: str) -> tuple[str, str]:
    return "faq.md", f"# Frequently asked questions\n\n## {question}\n"


def _list(question: str, others: Sequence[str], answer: str) -> tuple[str, str]:
    asked = [*others[:4], question, *others[4:]]
    return "questions.md", "\n".join(f"- {one}" for one in asked)


def _plain_list(question: str, others: Sequence[str], answer: str) -> tuple[str, str]:
    asked = [*others[:2], question, *others[2:4]]
    return "suggestions.txt", "People also ask\n\n" + "\n\n".join(asked)


def _test(question: str, others: Sequence[str], answer: str) -> tuple[str, str]:
    return (
        "test_search.py",
        f"""def test_the_best_passage_is_cited(client) -> None:
    run = client.ask({json.dumps(question)}, wait=True)
    assert run.status == "finished"
    assert run.answer.citations[0].number == 1
""",
    )


def _cases(question: str, others: Sequence[str], answer: str) -> tuple[str, str]:
    rows = [f"    {json.dumps(one)}," for one in (*others[:3], question, *others[3:6])]
    return "questions.py", "QUESTIONS = [\n" + "\n".join(rows) + "\n]\n\n\ndef main() -> None:\n    run(QUESTIONS)\n"


def _command(question: str, others: Sequence[str], answer: str) -> tuple[str, str]:
    return (
        "README.md",
        f"""# Usage

    pip install finder
    finder ingest docs/
    finder ask "{question}"

Over HTTP:

    curl -s localhost:9000/ask -d '{{"query": "{question}", "wait": true}}'
""",
    )


def _log(question: str, others: Sequence[str], answer: str) -> tuple[str, str]:
    asked = [*others[:3], question, *others[3:6]]
    lines = [f'2026-03-0{day} 10:2{day}:07 INFO query="{one}" took {9 + day} ms' for day, one in enumerate(asked, 1)]
    return "queries.log", "\n".join(lines)


def _plain_log(question: str, others: Sequence[str], answer: str) -> tuple[str, str]:
    asked = [*others[:2], question, *others[2:4]]
    return "support.log", "\n".join(f"10:3{minute} user {minute + 17} asked: {one}" for minute, one in enumerate(asked))


def _answered(question: str, others: Sequence[str], answer: str) -> tuple[str, str]:
    sentences = re.split(r"(?<=[.!?])\s+", answer)
    return "help.md", f"# Frequently asked questions\n\n## {question}\n\n{' '.join(sentences[:4])}\n"


FORMS: dict[str, Form] = {
    "heading alone": _heading,
    "list of questions": _list,
    "paragraph for each question": _plain_list,
    "test": _test,
    "list in code": _cases,
    "command": _command,
    "log, quoted": _log,
    "log, plain": _plain_log,
    _ANSWERED: _answered,
}


@dataclass(frozen=True, slots=True)
class Case:
    """A question, the document that answers it, and the made document that repeats it."""

    form: str
    query: str
    answer_id: str
    made: Document


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one form: how many questions, and in how many the made passage stood above the true one, before and after.

    `lost` counts those of which the made passage was first before, and is no longer.
    """

    count: int
    above_before: int
    above_after: int
    lost: int


def make_cases(folder: Path) -> Iterator[Case]:
    """The cases of every form, each of other questions; the questions of an article stand one after another."""
    paragraphs = {str(document.id): str(document.text) for document in read_documents(folder)}
    by_article: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for case in read_questions(folder).cases:
        if case.query.endswith("?") and len(case.query.split()) >= 4:
            (answer_id, *_) = case.answers
            by_article[answer_id.rpartition("#")[0]].append((case.query, answer_id))
    articles = [asked for asked in by_article.values() if len(asked) >= 9]
    chosen = ((asked, turn) for turn in range(1_000) for asked in articles if turn < len(asked))
    for form, make in FORMS.items():
        for number, (asked, turn) in enumerate(islice(chosen, QUESTIONS_A_FORM)):
            query, answer_id = asked[turn]
            others = [other for other, _ in (*asked[turn + 1 :], *asked[:turn])][:8]
            path, text = make(query, others, paragraphs[answer_id])
            provenance = Provenance(source="file", fetched_at=_NOW)
            name = f"{form.replace(' ', '-')}-{number}"
            media_type = media_type_for(path, text.encode())
            made = Document(
                id=name, file_path=f"{name}/{path}", media_type=media_type, text=text, provenance=provenance
            )
            yield Case(form, query, answer_id, made)


def measure_echoes(folder: Path, embedder: CachedEmbedder) -> dict[str, Outcome]:
    """The outcome of each form."""
    cases = list(make_cases(folder))
    given = [document_of(number, one, _NOW) for number, one in enumerate(read_documents(folder))]
    vectors = embedder.embed([case.query for case in cases]).vectors
    outcomes: dict[str, list[tuple[bool, bool, bool]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="sluice-echoes-") as root:
        writer = IndexWriter(Path(root), "echoes")
        documents = [*given, *(case.made for case in cases)]
        append_documents(writer, documents, embedder)
        reader = IndexReader(Path(root), "echoes", QuerySettings())
        for case, vector in zip(cases, vectors, strict=True):
            found = reader.search(Query(query=case.query, corpus="echoes", top_k=DEPTH), vector).chunks
            before = [hit.document_id for hit in reader.find_hits(case.query, vector, DEPTH)]
            after = [chunk.document_id for chunk in found]
            is_lost = before[0] == case.made.id != after[0]
            outcomes[case.form].append((_is_above(case, before), _is_above(case, after), is_lost))
        reader.close()
        writer.close()
    return {
        form: Outcome(len(rows), *(sum(row[column] for row in rows) for column in range(3)))
        for form, rows in outcomes.items()
    }


def _is_above(case: Case, order: Sequence[str]) -> bool:
    """Whether the made passage stands above the one that answers, in an order of at most `DEPTH` documents."""
    rank = {document_id: place for place, document_id in reversed(list(enumerate(order)))}
    return rank.get(case.made.id, DEPTH) < rank.get(case.answer_id, DEPTH)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.ask.echoes", description=str(__doc__).partition("\n")[0])
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="folder that has squad20_dev")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where vectors are kept for the next run")
    arguments = parser.parse_args()
    if not (arguments.data / SET).is_dir():
        print(f"echoes: skipped, no {SET} in {arguments.data}")
        return
    arguments.cache.parent.mkdir(parents=True, exist_ok=True)
    embedder = CachedEmbedder(MiniLM(MODELS), EmbeddingCache(arguments.cache, CACHED_VECTORS))
    outcomes = measure_echoes(arguments.data / SET, embedder)
    print(f"{'made passage':<30} {'questions':>9} {'above before':>13} {'above after':>12} {'first no longer':>16}")
    for form, one in outcomes.items():
        print(f"{form:<30} {one.count:>9} {one.above_before:>13} {one.above_after:>12} {one.lost:>16}")
    echoes = [one for form, one in outcomes.items() if form != _ANSWERED]
    count, before, after = (
        sum(getattr(one, name) for one in echoes) for name in ("count", "above_before", "above_after")
    )
    print(f"echoes above the answer: {before / count:.1%} before, {after / count:.1%} after, of {count}")


if __name__ == "__main__":
    main()
