"""Extraction beside trafilatura, in one run: right words, pages per processor second, structure that is kept.

    python -m bench.extraction [FOLDER] [--rounds N] [--only sluice trafilatura]

FOLDER (or the environment variable EXTRACT_DIR) holds `NAME.html` with `NAME.txt`, the gold text, or `gold.jsonl` with
the phrases of each page (bench/extraction/phrases.py); without one the bench's own pages are taken
(bench/extraction/pages.py), and hidden instructions put into them. Contestants take turns; times are medians over the
rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.environments import python_with
from bench.extraction.hidden import hidden_pages, leaks
from bench.extraction.pages import Page, own_pages, pages_in
from bench.extraction.phrases import phrase_pages, print_halves
from bench.extraction.score import Score, Structure, score, structure
from tests.support.repository import IMPORT_PATH, REPOSITORY

CONTESTANTS = ("sluice", "trafilatura", "trafilatura_fast", "trafilatura_markdown", "resiliparse")
ENVIRONMENT = REPOSITORY / ".cache" / "peers-extraction"
PEER_PACKAGES = ("resiliparse==2.0.1",)
"""What is no dependency of ours."""
INSTALL_SECONDS = 600
CONTESTANT = Path(__file__).with_name("contestant.py")
RUN_SECONDS = 900
EXTRACTION_ROUNDS = 3


@dataclass
class Result:
    """Of one contestant: its texts, and the seconds of every round."""

    texts: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def pages_per_second(self) -> float:
        return len(self.texts) / statistics.median(self.seconds)


def measure_extraction(pages: Sequence[Page], rounds: int, names: Sequence[str] = CONTESTANTS) -> dict[str, Result]:
    """Every contestant over all pages, in turns."""
    results = {name: Result() for name in names}
    with tempfile.TemporaryDirectory(prefix="sluice-extraction-") as folder:
        source = Path(folder) / "pages.jsonl"
        source.write_text("".join(json.dumps({"html": page.html}) + "\n" for page in pages))
        for _ in range(rounds):
            for name in names:
                answers = _answers(name, source, Path(folder) / "answers.jsonl")
                results[name].texts = [answer["text"] for answer in answers]
                results[name].seconds.append(sum(answer["seconds"] for answer in answers))
    return results


def _answers(name: str, source: Path, target: Path) -> list[dict[str, str | float]]:
    is_peer = name == "resiliparse"
    python = str(python_with(ENVIRONMENT, PEER_PACKAGES, seconds=INSTALL_SECONDS)) if is_peer else sys.executable
    environment = os.environ | {"PYTHONPATH": IMPORT_PATH if name == "sluice" else ""}
    command = [python, str(CONTESTANT), name, str(source), str(target)]
    subprocess.run(command, check=True, env=environment, timeout=RUN_SECONDS)
    return [json.loads(line) for line in target.read_text().splitlines()]


def print_results(pages: Sequence[Page], results: dict[str, Result]) -> None:
    """A table over all pages, one of F1 by kind, one of structure."""
    print(f"{len(pages)} pages, {sum(len(page.html) for page in pages) / len(pages) / 1_000:.1f} KB on average")
    print(f"{'':<22}{'F1':>8}{'precision':>11}{'recall':>8}{'pages/CPU s':>13}{'ms/page':>9}")
    for name, result in results.items():
        scores = [score(text, page.gold) for text, page in zip(result.texts, pages, strict=True)]
        rate = result.pages_per_second()
        print(
            f"{name:<22}{_mean(scores, 'f1'):8.4f}{_mean(scores, 'precision'):11.4f}{_mean(scores, 'recall'):8.4f}"
            f"{rate:13.1f}{1_000 / rate:9.2f}"
        )
    _print_kinds(pages, results)
    _print_structure(pages, results)


def _mean(scores: Sequence[Score], name: str) -> float:
    return statistics.fmean(getattr(found, name) for found in scores)


def _print_kinds(pages: Sequence[Page], results: dict[str, Result]) -> None:
    print("F1 by kind: " + ", ".join(results))
    kinds: dict[str, list[int]] = defaultdict(list)
    for number, page in enumerate(pages):
        kinds[page.kind].append(number)
    for kind, numbers in kinds.items():
        means = (
            statistics.fmean(score(result.texts[number], pages[number].gold).f1 for number in numbers)
            for result in results.values()
        )
        print(f"  {kind:<28}" + "".join(f"{mean:8.3f}" for mean in means))


def _print_structure(pages: Sequence[Page], results: dict[str, Result]) -> None:
    known = [(number, page.structure) for number, page in enumerate(pages) if page.structure is not None]
    if not known:
        return
    wanted = sum((expected for _, expected in known), Structure())
    print(f"kept of {wanted}")
    for name in ("sluice", "trafilatura_markdown"):
        if name in results:
            texts = results[name].texts
            print(
                f"  {name:<22}",
                sum((structure(texts[number]).kept_of(expected) for number, expected in known), Structure()),
            )


def _print_leaks(pages: Sequence[Page], names: Sequence[str]) -> None:
    print(f"hidden instructions that come out, of {len(pages)} pages")
    for name, result in measure_extraction(pages, 1, names).items():
        print(f"  {name:<22}{leaks(result.texts):4}")


def chosen_pages(folder: Path | None = None) -> Sequence[Page]:
    """The pages of `folder`, else of the folder that `EXTRACT_DIR` names, else those that the bench makes itself.

    Raises:
        FileNotFoundError: there is no page with its gold in that folder.
    """
    named = folder or (Path(os.environ["EXTRACT_DIR"]) if os.environ.get("EXTRACT_DIR") else None)
    pages = pages_in(named) if named else own_pages()
    if not pages:
        raise FileNotFoundError(f"no gold.jsonl and no NAME.html with NAME.txt in {named}")
    return pages


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(prog="bench.extraction")
    arguments.add_argument("folder", nargs="?", default=None, type=Path)
    arguments.add_argument("--rounds", type=int, default=EXTRACTION_ROUNDS)
    arguments.add_argument("--only", nargs="+", choices=CONTESTANTS, default=CONTESTANTS)
    given = arguments.parse_args()
    folder = given.folder or (Path(os.environ["EXTRACT_DIR"]) if os.environ.get("EXTRACT_DIR") else None)
    pages, phrases = phrase_pages(folder) if folder else ([], [])
    if phrases:
        results = measure_extraction(pages, given.rounds, given.only)
        print_halves(results, [result.texts for result in results.values()], phrases)
        return
    try:
        pages = list(chosen_pages(folder))
    except FileNotFoundError as error:
        sys.exit(f"skipped: {error}")
    print_results(pages, measure_extraction(pages, given.rounds, given.only))
    if folder is None:
        _print_leaks(hidden_pages(pages), given.only)


if __name__ == "__main__":
    main()
