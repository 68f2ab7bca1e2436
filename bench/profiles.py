"""How well the checks of the marketing and code profiles agree with their evaluation sets, and what they take.

    python -m bench.profiles

The sets (`evaluation/sets/*.jsonl`) are made up by hand. Cases of the kind `plan` need an index and a model:
`tests/integration/pipeline/test_domain_plans.py` runs them.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sluice.ingest.repository.facts import parse_manifest
from sluice.trust.code.policy import judge_code
from sluice.trust.marketing.channels import classify_channel
from sluice.trust.marketing.claims import check_disclosure, find_claims, read_sentiment
from sluice.workers.steps.trusted import find_site

SETS = Path(__file__).parents[1] / "evaluation" / "sets"
Case = dict[str, Any]
Judged = list[tuple[str, object, object]]
"""Of each case its id, what is right, and what was found."""


def read_set(name: str, kind: str) -> list[Case]:
    """The cases of one kind."""
    lines = (SETS / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [case for case in map(json.loads, lines) if case["kind"] == kind]


def marketing() -> dict[str, Judged]:
    """Each check over each passage."""
    found: dict[str, Judged] = {"sentiment": [], "disclosure": [], "claims": [], "channel": []}
    for case in read_set("marketing", "passage"):
        text = case["text"]
        tone, disclosure = read_sentiment(text), check_disclosure(text)
        rules = sorted({claim.rule for claim in find_claims(text)})
        found["sentiment"].append((case["id"], case["sentiment"], tone.label if tone else None))
        found["disclosure"].append((case["id"], case["disclosure"], disclosure.status if disclosure else None))
        found["claims"].append((case["id"], case["claims"], rules))
        channel = classify_channel(case["url"], case["brands"], find_site)
        found["channel"].append((case["id"], case["channel"], channel))
    return found


def code() -> dict[str, Judged]:
    """The policy of each sample, which of the rules that should speak do, and the packages of each manifest."""
    found: dict[str, Judged] = {"policy": [], "rules": [], "manifests": []}
    for case in read_set("code", "sample"):
        sample = judge_code(case["code"], case["language"])
        rules = {why.split(":")[0] for why in sample.why if ": " in why} if sample else set()
        found["policy"].append((case["id"], case["policy"], sample.policy if sample else None))
        found["rules"].append((case["id"], case["rules"], [rule for rule in case["rules"] if rule in rules]))
    for case in read_set("code", "manifest"):
        read = {one.name: one.used for one in parse_manifest(case["path"], case["text"])}
        found["manifests"].append((case["id"], case["dependencies"], read))
    return found


def share_right(judged: Judged) -> float:
    """The share of cases that are judged as the set says."""
    return sum(right == given for _, right, given in judged) / len(judged)


def milliseconds_of(check: Callable[[str], object], texts: Sequence[str], rounds: int = 5) -> float:
    """What one check of one passage takes, the mean of some rounds after one to warm up."""
    for text in texts:
        check(text)
    started = time.perf_counter()
    for _ in range(rounds):
        for text in texts:
            check(text)
    return (time.perf_counter() - started) * 1e3 / (rounds * len(texts))


def main() -> None:
    """Print the tables."""
    for name, checks in (("marketing", marketing()), ("code", code())):
        for check, judged in checks.items():
            wrong = [f"{case} {right} → {given}" for case, right, given in judged if right != given]
            counts = ", ".join(
                f"{count} {label}" for label, count in Counter(str(right) for _, right, _ in judged).items()
            )
            print(
                f"{name:10} {check:11} {share_right(judged):.3f} of {len(judged)}"
                + (f" ({counts})" if len(counts) < 90 else "")
            )
            for line in wrong:
                print(f"    {line}")
    texts = [case["text"] * 6 for case in read_set("marketing", "passage")]
    mean = sum(map(len, texts)) / len(texts)
    for check in (read_sentiment, check_disclosure, find_claims):
        print(f"{check.__name__:18} {milliseconds_of(check, texts):.3f} ms a passage of {mean:.0f} characters")
    samples = [case["code"] * 5 for case in read_set("code", "sample")]
    taken = milliseconds_of(lambda text: judge_code(text, "python"), samples)
    print(f"judge_code         {taken:.3f} ms a passage of {sum(map(len, samples)) / len(samples):.0f} characters")


if __name__ == "__main__":
    main()
