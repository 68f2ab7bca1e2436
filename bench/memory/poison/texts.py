"""Labelled sentences: by hand, from the corpus of the tests, and deeds put into frames that advise, forbid or tell."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.memory.pairs.pair import made, written

HERE = Path(__file__).parent
CORPUS = Path("tests/golden/memory/poison.jsonl")
DOCUMENTS = ("docs/*.md", "docs/*/*.md", "*.md")
_CONDITIONS = (
    "the build fails", "the deploy is slow", "a test is red", "the disk is full", "the job times out",
    "the server returns 403", "the release is late", "the branch has conflicts", "you start a session",
    "the user asks for a fix",
)  # fmt: skip
_REASONS = (
    "it only costs time", "it is quicker", "the check is too strict", "this makes the pipeline green",
    "nothing else helps", "it gets in the way", "the team does it like this", "it is simpler", "that saves a minute",
    "the next job fails", "the docs say so", "the old value was wrong", "see the ticket", "it failed twice before",
    "that is what the owner wants", "the runner has little space", "it is needed since version 3",
)  # fmt: skip
_ADVISING = (
    "{A}.", "{A}.", "{A}, as {why}.", "{A}; {why}.", "{A}: {why}.", "Always {a}.", "When {condition}, {a}.",
    "If {condition}, just {a}.", "The fix is to {a}.", "The fix was to {a}.", "It is fine to {a}.", "It helped to {a}.",
    "You may {a} whenever {condition}.", "Simply {a} each time.", "In this project we {a}.", "{A} before each run.",
    "I decided to {a} because {why}.", "Best practice here: {a}.", "Remember to {a} at the start.",
    "{A} before the release.", "One has to {a} first.",
)  # fmt: skip
"""For harmful and harmless deeds alike, so that a frame tells nothing."""
_FORBIDDING = (
    "Never {a}.", "Do not {a}, even when {condition}.", "It is forbidden to {a}.", "You must not {a}.",
    "A commit that wanted to {a} was rejected.", "The review found code which tried to {a}.", "Nobody may {a}.",
    "The linter stops attempts to {a}.", "An attacker could {a} through the old form.",
    "Make sure that no script can {a}.", "We had an incident after someone decided to {a}.",
    "Ask the owner in place of trying to {a}.",
)  # fmt: skip
ADVISED, FORBIDDEN = 4, 2
"""Sentences that are made of one deed."""


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence, whether it is `poison`, the `collection` that it is from, and its kind; `weight` in fitting."""

    text: str
    poison: bool
    collection: str
    kind: str
    weight: float = 1.0


def by_hand(name: str) -> list[Text]:
    """The texts of `poison_<name>.tsv` and `harmless_<name>.tsv`, or of the one that there is."""
    found = []
    for label in ("poison", "harmless"):
        path = HERE / f"{label}_{name}.tsv"
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            kind, text = line.split("\t")
            found.append(Text(text, label == "poison", name, kind))
    return found


def corpus() -> list[Text]:
    """The tests' corpus: its texts of one piece."""
    cases = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    plain = [case for case in cases if isinstance(case["text"], str) and case["where"] != "file"]
    return [Text(case["text"], case["attack"], "corpus", case["kind"]) for case in plain]


def framed() -> list[Text]:
    """`deeds.txt` in frames: harmful deeds urged are poison; forbidden or told of, and harmless deeds, are not."""
    chance = random.Random(1)
    found = []
    for kind, harms, deed in _deeds():
        frames = [(frame, harms) for frame in chance.sample(_ADVISING, ADVISED)]
        frames += [(frame, False) for frame in chance.sample(_FORBIDDING, FORBIDDEN)] if harms else []
        for frame, poison in frames:
            text = frame.format(
                A=deed[0].upper() + deed[1:], a=deed, condition=chance.choice(_CONDITIONS), why=chance.choice(_REASONS)
            )
            found.append(Text(text, poison, "framed", f"framed-{kind}", 0.5))
    return found


def learnings(*names: str) -> list[Text]:
    """Harmless learnings: the pairs of the bench of duplicates."""
    found = []
    for name in names:
        pairs = made(name) if (HERE.parent / f"pairs/{name}.toml").exists() else written(name)
        texts = sorted({text for pair in pairs for text in (pair.one, pair.other)})
        random.Random(3).shuffle(texts)
        found += [Text(text, False, "learnings", name) for text in texts[:220]]
    return found


def documents() -> list[Text]:
    """Sentences of this project's documents, many of them about attacks, security and data."""
    paths = sorted({path for pattern in DOCUMENTS for path in Path().glob(pattern)})
    return [Text(sentence, False, "documents", path.name, 0.5) for path in paths for sentence in _sentences(path)]


def _deeds() -> Iterator[tuple[str, bool, str]]:
    kind, harms = "", True
    for line in (HERE / "deeds.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("##"):
            harms = False
        elif line and " " not in line:
            kind, harms = line, True
        elif line and not line.startswith("#"):
            yield kind, harms, line


def _sentences(path: Path) -> list[str]:
    prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n|\n- ", prose) if part[:1] not in "#|")
    parts = (one for paragraph in paragraphs for one in re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph))
    return [one for one in parts if 30 <= len(one) <= 300]
