"""Texts with attacks in them: BIPIA's in passages, InjecAgent's in records of tools, our own in thirteen envelopes.

InjecAgent's records also come with an ordinary sentence in the attack's place: else a model learns that JSON is an
attack.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.guard.benign import Chunker
from bench.redteam.attacks import CARRIERS, make_attacks
from sluice.contracts.document import ChunkedDocument

PASSAGES = ("squad20_dev", "cacm", "cosqa_dev")
QUESTIONS_OUT_OF_CONTEXT = frozenset(
    ("Information Retrieval", "Content Creation", "Learning and Tutoring", "Language Translation", "Programming Help")
)
"""Kinds of BIPIA that nothing marks as attacks ("What is the capital of Brazil?"): not fitted, and reported apart."""
_NEUTRAL_PER_RECORD = 12
_SHORTEST_PASSAGE = 200
_ORDINARY = (
    "Great product, works as described and arrived in two days.",
    "The meeting was moved to Thursday at noon.",
    "My friends and I enjoyed the concert a lot.",
    "I would buy it again, the battery lasts long.",
    "Please find the minutes attached.",
    "Please note that the office is closed on Monday.",
    "Thank you for your order, your parcel is on its way.",
    "You have an appointment with Dr. Lee on 4 May.",
    "Your invoice no. 4411 over $250 is ready.",
    "Hi, I am a gardener from Leeds and love to travel.",
    "Join us for the workshop, registration is open.",
    "We hope to see you at the party on Saturday.",
    "If you like this recipe, try it with pears as well.",
    "Your password expires in ten days.",
    "Call us if you have questions about your contract.",
    "You can return the lamp within thirty days.",
)


@dataclass(frozen=True, slots=True, eq=False)
class Attacked:
    """A document of set `name`. Folds are by `attack` and `envelope`; `payload` is what was put in."""

    name: str
    kind: str
    attack: str
    envelope: str
    payload: str
    document: ChunkedDocument


def attacked_texts(data: Path, chunker: Chunker, per_template: int) -> Iterator[Attacked]:
    """All of them, the same ones each time."""
    yield from _bipia(data, chunker)
    yield from _injecagent(data, chunker)
    for attack in make_attacks(per_template):
        if document := chunker.chunk(attack.text, attack.media_type, name=attack.id):
            name = "own-overt" if attack.overt else "own-covert"
            kind = attack.kind if attack.language == "en" else f"override-{attack.language}"
            yield Attacked(name, kind, attack.template, attack.envelope, attack.payload, document)


def neutral_records(data: Path, chunker: Chunker) -> Iterator[tuple[str, ChunkedDocument]]:
    """InjecAgent's records with an ordinary sentence in place of the attack, each with its record's envelope."""
    chance = random.Random(5)
    ordinary = [*_ORDINARY, *(sentence for text in CARRIERS for sentence in text.split(". "))]
    for number, envelope in enumerate(dict.fromkeys(_envelope(entry) for entry in _read(data, "injecagent_dh_base"))):
        for turn in range(_NEUTRAL_PER_RECORD):
            text = envelope.replace("@", chance.choice(ordinary))
            if document := chunker.chunk(text, "text/plain", name=f"neutral-{number}-{turn}"):
                yield envelope, document


def _bipia(data: Path, chunker: Chunker) -> Iterator[Attacked]:
    chance = random.Random(5)
    passages = {name: _passages(data / name) for name in PASSAGES}
    for entry in _read(data, "bipia_attacks_train"):
        for name, texts in passages.items():
            text = _placed(entry["text"], chance.choice(texts), chance)
            if document := chunker.chunk(text, "text/plain", name=f"{entry['_id']}-{name}"):
                yield Attacked("bipia", entry["kind"], entry["kind"], name, entry["text"], document)


def _placed(attack: str, passage: str, chance: random.Random) -> str:
    """The attack before, within or behind the passage."""
    gap = chance.choice(("\n\n", " "))
    match chance.choice(("start", "middle", "end")):
        case "start":
            return attack + gap + passage
        case "end":
            return passage + gap + attack
    ends = [found.end() for found in re.finditer(r"(?<=[.])\s|\n", passage)] or [len(passage)]
    cut = ends[len(ends) // 2]
    return f"{passage[:cut]}{attack}\n{passage[cut:]}"


def _injecagent(data: Path, chunker: Chunker) -> Iterator[Attacked]:
    for entry in _read(data, "injecagent_dh_base"):
        if document := chunker.chunk(entry["text"], "text/plain", name=entry["_id"]):
            yield Attacked("injecagent", entry["kind"], entry["attack"], _envelope(entry), entry["attack"], document)


def _envelope(entry: dict[str, str]) -> str:
    return entry["text"].replace(entry["attack"], "@")


def _passages(folder: Path) -> list[str]:
    with (folder / "corpus.jsonl").open() as lines:
        return [text for line in lines if len(text := json.loads(line)["text"]) >= _SHORTEST_PASSAGE]


def _read(data: Path, name: str) -> Iterator[dict[str, str]]:
    with (data / "injection" / f"{name}.jsonl").open() as lines:
        for line in lines:
            yield json.loads(line)
