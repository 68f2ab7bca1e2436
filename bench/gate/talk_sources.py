"""What the heads of talk are fitted on: utterances and questions of several authors, and sentences made of words.

    bench/gate/talk_examples.toml, talk.jsonl, talk_traps.txt, time_questions.toml      written for this purpose
    talk_phrases.tsv.gz                     phrases and words from the lists that told talk in earlier versions
    ovos-skill-*, chatterbot-corpus         utterances to assistants in many languages (Apache-2.0 and BSD)
    wordfreq                                frequent words: what is made of words at random is no talk
    SituatedQA, SQuAD                       questions: of the latter the first half of its paragraphs

The packages are read from a folder into which their wheels were unpacked, each under its own name.
"""

from __future__ import annotations

import gzip
import importlib
import json
import random
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.gate.collections import read
from sluice.gate.probe import question_words

FOLDER = Path(__file__).parent
QUESTION, TALK, ASSISTANT = range(3)


class Example(NamedTuple):
    """One text with its label, and the group that a fold holds out as a whole."""

    text: str
    language: str
    label: int
    source: str
    group: str


def read_examples(data_dir: Path, packages: Path) -> list[Example]:
    """Return all examples, each text once for a label, always in the same order."""
    found = [*written(), *of_phrases(), *of_ovos(packages), *of_chatterbot(packages), *questions(data_dir)]
    found += composed(packages, found)
    return list({(one.text.casefold(), one.label): one for one in reversed(found)}.values())[::-1]


def written() -> Iterator[Example]:
    labels = {"question": QUESTION, "talk": TALK, "assistant": ASSISTANT}
    for language, table in tomllib.loads((FOLDER / "talk_examples.toml").read_text("utf-8")).items():
        for name, texts in table.items():
            for number, text in enumerate(texts.split("|")):
                group = f"{language} {name} {number // 6}"
                yield Example(" ".join(text.split()), language, labels[name], "examples", group)
    for line in (FOLDER / "talk.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        label = ASSISTANT if row["wording"].startswith("assistant") else TALK
        yield Example(row["text"], row["language"], label, "utterances", f"{row['language']} {row['wording']}")
    for text in (FOLDER / "talk_traps.txt").read_text("utf-8").splitlines():
        yield Example(text, "en", QUESTION, "traps", "traps")
    for language, table in tomllib.loads((FOLDER / "time_questions.toml").read_text("utf-8")).items():
        for text in (*table["changes"], *table["stays"]):
            yield Example(text, language, QUESTION, "time", f"time {language}")


def of_phrases() -> Iterator[Example]:
    for language, label, group, text in _rows_of_phrases():
        if label:
            yield Example(text, language, int(label), "phrases", f"{language} {group}")


def known_words() -> list[str]:
    """Words that talk may have in some language, besides those of the examples."""
    return [text for _, label, _, text in _rows_of_phrases() if not label]


def _rows_of_phrases() -> list[list[str]]:
    text = gzip.decompress((FOLDER / "talk_phrases.tsv.gz").read_bytes()).decode()
    return [line.split("\t") for line in text.splitlines()]


def questions(data_dir: Path) -> Iterator[Example]:
    asked = [row["text"] for row in read(data_dir / "gate" / "situatedqa_temp_train.jsonl")]
    of_squad = [row["text"] for row in read(data_dir / "squad20_dev" / "queries.jsonl")]
    for number, text in enumerate([*asked, *of_squad[: len(of_squad) // 2]]):
        yield Example(text, "en", QUESTION, "public", f"public {number // 40}")


OVOS = {
    TALK: ("hello_world", "date_time", "icanhazdadjokes", "calculator", "convert", "randomness", "parrot"),
    ASSISTANT: ("personal",),
    QUESTION: ("weather", "news", "wikipedia", "ddg", "geography", "wikihow", "iss_location"),
}
LEFT_OUT = re.compile(r"speak|parrot$|convert_last")
SLOTS = {
    "location": ("Berlin", "Paris", "Tokyo", "New York"),
    "query": ("Einstein", "photosynthesis", "the French Revolution", "Python", "blockchain", "Tesla"),
    "country": ("Peru", "Norway", "Japan", "Kenya"),
    "a": ("12", "7", "3.5", "twenty"),
    "b": ("4", "30", "250", "five"),
    "quantity": ("5 miles", "100 °F", "3 kg", "2 cups"),
    "to_unit": ("km", "celsius", "pounds", "litres"),
    "date": ("friday", "May 5", "2026-03-01"),
    "offset": ("2", "six"),
    "faces": ("6", "20"),
    "number": ("2", "3"),
    "lower": ("1",),
    "upper": ("10", "100"),
}
MOST_OF_A_FILE = 20


def of_ovos(packages: Path) -> Iterator[Example]:
    draw = random.Random(0)
    for label, skills in OVOS.items():
        for skill in skills:
            for path in sorted(packages.glob(f"ovos_skill_{skill}/**/*.intent")):
                language = re.search(r"/([a-z]{2})-[a-zA-Z]{2}/", str(path))
                if language is None or LEFT_OUT.search(path.stem):
                    continue
                lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
                lines = [line for line in lines if line and not (label == TALK and "{location}" in line)]
                for line in draw.sample(lines, min(MOST_OF_A_FILE, len(lines))):
                    yield Example(_filled(line, draw), language[1], label, "ovos", f"{skill} {path.stem}")


def _filled(template: str, draw: random.Random) -> str:
    chosen = re.sub(r"[(\[]([^()\[\]]*)[)\]]", lambda match: draw.choice(match[1].split("|")), template)
    return " ".join(re.sub(r"\{(\w+)\}", lambda match: draw.choice(SLOTS.get(match[1], ("blue",))), chosen).split())


_CODES = """
english en german de french fr spanish es italian it portuguese pt dutch nl swedish sv russian ru ukrainian uk
turkish tr chinese zh traditionalchinese zh japanese ja korean ko hindi hi persian fa hebrew he indonesian id thai th
"""
CHATTERBOT_LANGUAGES = dict(zip(_CODES.split()[::2], _CODES.split()[1::2], strict=True))
_TALK = """
greetings conversations coversations emotion emociones humor compliment psychology psicologia
"""
CHATTERBOT_TALK = tuple(_TALK.split())
CHATTERBOT_ASSISTANT = ("botprofile", "perfilbot")
CHATTERBOT_QUESTIONS = ("trivia", "history", "science", "computers", "coding", "history_brasil", "music")
MOST_OF_A_TOPIC = 40


def of_chatterbot(packages: Path) -> Iterator[Example]:
    import yaml

    labels = {
        **dict.fromkeys(CHATTERBOT_TALK, TALK),
        **dict.fromkeys(CHATTERBOT_ASSISTANT, ASSISTANT),
        **dict.fromkeys(CHATTERBOT_QUESTIONS, QUESTION),
    }
    draw = random.Random(0)
    for path in sorted(packages.glob("chatterbot_corpus/**/*.yml")):
        language, topic = CHATTERBOT_LANGUAGES.get(path.parent.name), path.stem.lower()
        if language is None or topic not in labels:
            continue
        talks = yaml.safe_load(path.read_text("utf-8"))["conversations"]
        first = list(dict.fromkeys(" ".join(str(talk[0]).split()) for talk in talks if talk))
        for text in draw.sample(first, min(MOST_OF_A_TOPIC, len(first))):
            if 1 < len(text) < 300:
                yield Example(text, language, labels[topic], "chatterbot", f"{path.parent.name} {topic}")


UNSPACED = ("zh", "ja", "th")
LAST_IS_NO_TOPIC = ("tr", "ja", "ko", "hi", "fa", "zh", "th", "fi", "hu")
QUOTES = ('"{}"', "«{}»", "“{}”", "'{}'", "„{}“", "「{}」")
RANKS = slice(250, 14_000)
"""Frequent words that are no function words."""


def composed(packages: Path, examples: list[Example]) -> Iterator[Example]:
    """Yield questions of random words in each language, alone and around halves of talk, and English patterns."""
    draw = random.Random(1)
    for language in sorted({one.language for one in examples if one.source == "examples"}):
        words = frequent_words(packages, language)
        own = [one for one in examples if one.language == language and one.source in ("examples", "utterances")]
        talk = [one.text for one in own if one.label in (TALK, ASSISTANT)]
        joint = "" if language in UNSPACED else " "
        for number in range((700 if language == "en" else 260) if words else 0):
            said = draw.choice(talk)
            parts = list(said) if language in UNSPACED else said.split()
            half = max(1, len(parts) // 2)
            some = [draw.choice(words) for _ in range(draw.randint(2, 4))]
            asks = sorted(question_words(language)) or ["how", "what", "who", "when", "where", "why", "which"]
            if draw.random() < 0.3:
                some = [some[0], draw.choice(QUOTES).format(joint.join(some[1:]))]
            pieces = (some, [draw.choice(asks), *some], [*parts[:half], *some], [*some, *parts[half:]])[number % 4]
            text = joint.join(pieces)
            if number % 7 == 0:  # a text that is given does not make talk of a question
                text = f"{text}: {joint.join(reversed(some))}"
            text = text[:1].upper() + text[1:] if draw.random() < 0.5 else text
            yield Example(text, language, QUESTION, "composed", f"{language} {number % 4}")
        if words and language not in LAST_IS_NO_TOPIC:
            for _ in range(20):
                order = draw.choice(talk[:2]).split()[:-1]
                yield Example(" ".join([*order, draw.choice(words)]), language, TALK, "composed", f"{language} topic")
    yield from _patterns(frequent_words(packages, "en"), draw)


def frequent_words(packages: Path, language: str) -> list[str]:
    """Return words of a language by frequency; none where the package has no list."""
    code = {"no": "nb"}.get(language, language)
    path = packages / "wordfreq" / "wordfreq" / "data" / f"small_{code}.msgpack.gz"
    if not path.is_file():
        return []
    bins = importlib.import_module("msgpack").unpackb(gzip.decompress(path.read_bytes()))[1:]
    shortest = 2 if language in (*UNSPACED, "ko") else 4
    words = [word for each in bins for word in each][RANKS]
    return [word for word in words if len(word) >= shortest and not any(map(str.isdigit, word))]


def _patterns(words: list[str], draw: random.Random) -> Iterator[Example]:
    tables = tomllib.loads((FOLDER / "talk_patterns.toml").read_text("utf-8"))
    units, numbers = tables["units"], tables["numbers"]
    for name, label in (("talk", TALK), ("question", QUESTION)):
        for pattern in tables[name]:
            for _ in range(tables["times"]):
                slots = {"{w}": words, "{u}": units, "{n}": numbers}
                text = re.sub(r"\{[wun]\}", lambda match, slots=slots: draw.choice(slots[match[0]]), pattern)
                yield Example(text, "en", label, "composed", f"pattern {pattern}")
