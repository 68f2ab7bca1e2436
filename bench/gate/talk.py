"""How well talk is told from questions: utterances written by hand in many languages, and real questions.

Half of the utterances (some languages wholly, of the others half of the wordings, by a hash) was never looked at when
the lists of words were written. The questions are the short ones of public sets, and some written to look like talk.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.gate.collections import read
from sluice.gate.profile import Profile
from sluice.gate.talk.lexicon import Lexicon, read_lexicon
from sluice.gate.talk.read import read_talk

FOLDER = Path(__file__).parent
QUESTION_SETS = (
    "squad20_dev/queries",
    "cosqa_dev/queries",
    "npl/queries",
    "cacm/queries",
    "climate_fever_sent/queries",
    "scifact_train/queries",
    "gate/situatedqa_temp_train",
    "gate/situatedqa_temp_dev",
    "gate/freshqa_dev",
)
SHORT_WORDS = 8


def read_utterances() -> list[dict[str, str]]:
    """Talk: `text`, `language`, `wording` (its category, a point, and the family) and `half` (`fit` or `unseen`)."""
    lines = (FOLDER / "talk.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def read_traps() -> list[str]:
    """Questions that begin or sound as talk does."""
    return (FOLDER / "talk_traps.txt").read_text(encoding="utf-8").splitlines()


def report_talk(data_dir: Path, profile: Profile) -> None:
    """Print the share of talk that is found by half, language and category, and of questions that are taken for it."""
    if profile.talk is None:
        print(f"talk: profile {profile.name} does not recognise it")
        return
    lexicon = read_lexicon(profile.talk.lexicon)
    utterances = read_utterances()
    for half in ("fit", "unseen"):
        rows = [row for row in utterances if row["half"] == half]
        print(f"talk, {half}: {_share(rows, lexicon)}")
        for name, group in _groups(rows):
            print(f"talk, {half}, {name}: {_share(group, lexicon)}")
    traps = read_traps()
    print(f"talk, written to look like it: {_taken(traps, lexicon)} of {len(traps)} taken for talk")
    for name in QUESTION_SETS:
        path = data_dir / f"{name}.jsonl"
        if path.is_file():
            short = [row["text"] for row in read(path) if len(row["text"].split()) <= SHORT_WORDS]
            print(f"talk, short questions of {name}: {_taken(short, lexicon)} of {len(short)} taken for talk")


def _groups(rows: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    found: defaultdict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        found[f"language {row['language']}"].append(row)
        found[f"category {row['wording'].split('.')[0]}"].append(row)
    yield from sorted(found.items())


def _share(rows: Sequence[Mapping[str, str]], lexicon: Lexicon) -> str:
    found = _taken([row["text"] for row in rows], lexicon)
    return f"{found} of {len(rows)} ({found / len(rows):.3f})"


def _taken(texts: Sequence[str], lexicon: Lexicon) -> int:
    return sum(read_talk(text, lexicon, in_session=False) is not None for text in texts)
