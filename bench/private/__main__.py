"""How well private data and secrets are found: `python -m bench.private DATA_DIR`.

DATA_DIR holds `pii/*.jsonl` (a text, and its spans by kind) and retrieval collections (`*/corpus.jsonl`). Measured are
recall and precision by kind, on that set and on texts made by rule; secrets by kind; false alarms on figures that look
like private data and on the collections' texts; CPU time.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.private.generated import NEGATIVE, POSITIVE, negatives, positives
from bench.private.made_up import SECRETS
from sluice.contracts.trust import PrivateSpan
from sluice.trust.private.patterns import PatternFinder

KINDS = {
    "CREDIT_CARD": "card",
    "EMAIL_ADDRESS": "email",
    "IBAN_CODE": "iban",
    "IP_ADDRESS": "ip",
    "US_SSN": "ssn",
    "PHONE_NUMBER": "phone",
}
"""Kinds of the set, as ours."""
FRAMES = ("{}", "key = {}", "Use `{}` here.", "It is {}, I think.", '{{"token": "{}"}}')
COUNT, SEED = 300, 2
TEXTS = 3_000
"""Of one collection."""
Labelled = tuple[str, list[tuple[int, int, str]]]


def main(data: Path) -> None:
    """Print every table as Markdown."""
    finder = PatternFinder()
    finder.find("warm: https://a:b@c.de, 4111 1111 1111 1111")
    for path in sorted((data / "pii").glob("*.jsonl")):
        show(f"{path.stem}: the labelled set", recall_and_precision(finder, read_labelled(path)))
    made = (
        (text, [(start, end, kind.split()[0])])
        for kind in POSITIVE
        for text, start, end in positives(kind, COUNT, SEED)
    )
    show("Texts made by rule", recall_and_precision(finder, made))
    show("Secrets of known forms, found", (f"| {kind} | {share:.3f} |" for kind, share in secret_recall(finder)))
    alarms = ((kind, negatives(kind, COUNT, SEED)) for kind in NEGATIVE)
    show(
        "Figures that look like it, false alarms per 1,000",
        (f"| {kind} | {told(finder, texts)} |" for kind, texts in alarms),
    )
    collections = ((path.parent.name, read_texts(path)) for path in sorted(data.glob("*/corpus.jsonl")))
    show(
        "Collections, finds per 1,000 texts, CPU ms per 1,000 characters",
        (f"| {name} | {told(finder, texts)} | {cost(finder, texts):.2f} |" for name, texts in collections),
    )


def show(title: str, rows: Iterable[str]) -> None:
    """Print a table's rows below its title."""
    print(f"\n{title}\n")
    for row in rows:
        print(row, flush=True)


def recall_and_precision(finder: PatternFinder, texts: Iterable[Labelled]) -> Iterator[str]:
    """One row for each kind: how many there are, the share found, the share of finds that are of that kind."""
    there, met, found, right = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for text, labels in texts:
        spans = finder.find(text)
        for start, end, kind in labels:
            there[kind] += 1
            met[kind] += any(_meets(span, start, end, kind) for span in spans)
        for span in spans:
            found[span.kind] += 1
            right[span.kind] += any(_meets(span, start, end, kind) for start, end, kind in labels)
    for kind in sorted(there | found):
        precision = f"{right[kind] / found[kind]:.3f}" if found[kind] else "none found"
        recall = f"{met[kind] / there[kind]:.3f}" if there[kind] else "none there"
        yield f"| {kind} | {there[kind]} | {recall} | {precision} |"


def secret_recall(finder: PatternFinder) -> Iterator[tuple[str, float]]:
    """By kind the share of made-up tokens of which every character is in a span of a secret."""
    for kind, make in SECRETS.items():
        rng = random.Random(kind)
        met = 0
        for number in range(COUNT // 3):
            frame, secret = FRAMES[number % len(FRAMES)], make(rng)
            met += any(span.is_secret for span in finder.find(frame.format(secret)))
        yield kind, met / (COUNT // 3)


def told(finder: PatternFinder, texts: list[str]) -> str:
    """Finds per 1,000 texts, by kind."""
    counts = Counter(span.kind for text in texts for span in finder.find(text))
    return ", ".join(f"{kind} {1000 * count / len(texts):.1f}" for kind, count in counts.most_common()) or "0"


def cost(finder: PatternFinder, texts: list[str]) -> float:
    """CPU milliseconds per 1,000 characters."""
    started = time.process_time()
    for text in texts:
        finder.find(text)
    return 1e6 * (time.process_time() - started) / sum(map(len, texts))


def read_labelled(path: Path) -> Iterator[Labelled]:
    """Texts with the spans of those kinds that we have."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["text"], [(start, end, KINDS[kind]) for start, end, kind in row["spans"] if kind in KINDS]


def read_texts(path: Path) -> list[str]:
    """The first texts of a collection, with their titles."""
    with path.open(encoding="utf-8") as lines:
        rows = (json.loads(line) for _, line in zip(range(TEXTS), lines, strict=False))
        return [f"{row.get('title') or ''}\n{row['text']}" for row in rows]


def _meets(span: PrivateSpan, start: int, end: int, kind: str) -> bool:
    return span.kind == kind and span.start < end and start < span.end


if __name__ == "__main__":
    main(Path(sys.argv[1]))
