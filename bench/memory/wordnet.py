"""Builds the synonyms, antonyms and irregular forms that the comparison of learnings reads, from WordNet 3.0's files.

`python -m bench.memory.wordnet FOLDER` with the folder that holds `data.noun`, `index.verb` and so on (Debian's
package `wordnet-base`) writes `memory/learning/polarity/wordnet.json.xz`. Only single words in lower case are kept, of
each word its `SENSES` most frequent senses; WordNet lists them by frequency.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

PARTS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
SENSES = {"noun": 2, "verb": 4, "adj": 4, "adv": 2}
FIRST = {"noun": 1, "verb": 2, "adj": 2, "adv": 1}
"""Of these senses two words may stand for each other in a short text; of the others they are only related."""
TARGET = Path(__file__).parents[2] / "memory/learning/polarity/wordnet.json.xz"


def main() -> None:
    """Writes the file anew."""
    built = build(Path(sys.argv[1]))
    packed = lzma.compress(json.dumps(built, separators=(",", ":"), sort_keys=True).encode(), preset=9)
    TARGET.write_bytes(packed)
    print(f"{TARGET.name}: {len(packed):,} bytes", list(built))


def build(folder: Path) -> dict[str, object]:
    """Groups of synonyms, of similar adjectives, pairs of antonyms, verbs, and irregular forms with their base."""
    synonyms: set[str] = set()
    related: set[str] = set()
    similar: set[str] = set()
    antonyms: set[str] = set()
    verbs: set[str] = set()
    for part, letter in PARTS.items():
        senses = _senses(folder / f"index.{part}", SENSES[part])
        first = _senses(folder / f"index.{part}", FIRST[part])
        if part == "verb":
            verbs = set(senses)
        synsets = _synsets(folder / f"data.{part}")
        for offset, (words, pointers) in synsets.items():
            kept = [word for word in words if offset in senses.get(word, ())]
            if len(kept) > 1:
                related.add(" ".join(sorted(kept)))
            foremost = [word for word in words if offset in first.get(word, ())]
            if len(foremost) > 1:
                synonyms.add(" ".join(sorted(foremost)))
            for sign, other, source, target in pointers:
                theirs = synsets[other][0] if other in synsets else []
                if sign == "!" and source and target:
                    pair = sorted((words[source - 1], theirs[target - 1]))
                    if all(_plain(word) for word in pair):
                        antonyms.add(" ".join(pair))
                if sign == "&" and kept and letter == "a":
                    near = [word for word in theirs if other in senses.get(word, ())]
                    if near and offset < other:
                        similar.add(f"{' '.join(kept)}|{' '.join(near)}")
    return {
        "synonyms": sorted(synonyms),
        "related": sorted(related),
        "similar": sorted(similar),
        "antonyms": sorted(antonyms),
        "verbs": " ".join(sorted(verbs)),
        "forms": _forms(folder),
    }


def _senses(path: Path, most: int) -> dict[str, set[str]]:
    """Of each plain word the offsets of its first synsets."""
    found = {}
    for line in path.read_text().splitlines():
        if line.startswith("  "):
            continue
        fields = line.split()
        if _plain(fields[0]):
            count = int(fields[2])
            found[fields[0]] = set(fields[-count:][:most])
    return found


def _synsets(path: Path) -> dict[str, tuple[list[str], list[tuple[str, str, int, int]]]]:
    """By offset the words of a synset and its pointers: sign, offset, number of the word here and there (0: all)."""
    found = {}
    for line in path.read_text().splitlines():
        if line.startswith("  "):
            continue
        fields = line.split("|")[0].split()
        count = int(fields[3], 16)
        words = [fields[4 + 2 * at].split("(")[0] for at in range(count)]
        at = 4 + 2 * count
        pointers = []
        for _ in range(int(fields[at])):
            sign, offset, _, numbers = fields[at + 1 : at + 5]
            pointers.append((sign, offset, int(numbers[:2], 16), int(numbers[2:], 16)))
            at += 4
        found[fields[0]] = (words, pointers)
    return found


def _forms(folder: Path) -> dict[str, str]:
    """Irregular forms and their base, as "taken": "take"; those of verbs go before those of nouns."""
    found: dict[str, str] = {}
    for part in ("verb", "noun", "adj"):
        for line in (folder / f"{part}.exc").read_text().splitlines():
            form, base = line.split()[:2]
            if _plain(form) and _plain(base):
                found.setdefault(form, base)
    return found


def _plain(word: str) -> bool:
    return word.isascii() and word.isalpha() and word.islower()


if __name__ == "__main__":
    main()
