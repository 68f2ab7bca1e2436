"""Whether recall finds the iteration that answers a question: by index, by the journal's words, by age, by telling all.

    python -m bench.memory.recall

120 iterations, of which 60 are near neighbours of the others; 51 questions in other words than the iterations have.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from sluice.memory.config import RagConfig
from sluice.memory.embedded.open import open_memory
from sluice.memory.memory import Memory, estimate_tokens

HERE = Path(__file__).parent
FEATURE = "shop"
TOP_K = 5
Found = Callable[[str], list[str]]


def main() -> None:
    texts = iterations()
    answers = questions(texts)
    with tempfile.TemporaryDirectory() as folder:
        with open_memory(Path(folder) / "memory", "/home/dev/shop") as memory:
            fill(memory, texts)
            memory.rebuild(FEATURE)
            lacking = memory.status().behind
            print(f"{len(texts)} iterations, {len(answers)} questions; the index lacks {lacking}")
            report("hybrid", answers, by_recall(memory))
        with open_memory(Path(folder) / "memory", "/home/dev/shop", config=RagConfig(engine="none")) as memory:
            report("the journal's words", answers, by_recall(memory))
    report("newest first", answers, lambda _: list(reversed(texts))[:TOP_K])
    tokens = sum(map(estimate_tokens, texts))
    print(f"all of them in the prompt: {tokens} tokens; five: {TOP_K * tokens // len(texts)}")


def iterations() -> list[str]:
    """What the iterations' summaries say, in an order drawn by seed 18."""
    rows = [line.split("\t") for name in ("chosen", "checked") for line in read(f"echo/{name}.tsv")]
    texts = [text for learning, _, near in rows for text in (learning, near)]
    random.Random(18).shuffle(texts)
    return texts


def questions(texts: list[str]) -> dict[str, str]:
    """The summary that answers each question."""
    pairs = (line.split("\t") for line in read("questions.tsv"))
    return {question: next(text for text in texts if text.startswith(start)) for question, start in pairs}


def read(name: str) -> list[str]:
    return [line for line in (HERE / name).read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


def fill(memory: Memory, texts: list[str]) -> None:
    for number, text in enumerate(texts, 1):
        record = {
            "iteration_number": number,
            "task_id": number,
            "feature": FEATURE,
            "timestamp": f"2026-02-07T{number // 60:02}:{number % 60:02}:00Z",
            "outcome": "Success" if number % 2 else "Failure",
            "summary": text,
        }
        memory.record(FEATURE, record, format="record")


def by_recall(memory: Memory) -> Found:
    def find(question: str) -> list[str]:
        results = memory.recall(FEATURE, question, top_k=TOP_K).results
        return [one.record.summary for one in results if one.record]

    return find


def report(name: str, answers: dict[str, str], find: Found) -> None:
    find("warm")
    ranks, seconds = [], []
    for question, answer in answers.items():
        started = time.perf_counter()
        found = find(question)
        seconds.append(time.perf_counter() - started)
        ranks.append(found.index(answer) + 1 if answer in found else 0)
    hits = sum(rank > 0 for rank in ranks)
    mean = sum(1 / rank for rank in ranks if rank) / len(ranks)
    print(
        f"{name:20} hit at {TOP_K}: {hits}/{len(ranks)} ({hits / len(ranks):.0%}), first: {ranks.count(1)}, "
        f"mean reciprocal rank {mean:.2f}, median {1e3 * median(seconds):.1f} ms"
    )


if __name__ == "__main__":
    main()
