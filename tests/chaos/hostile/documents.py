"""One tenant's hostile documents, another's one-line ones: `python -m tests.chaos.hostile.documents [--rounds N]`.

Starts an instance, or uses that of `--url`. The hostile tenant hands in JSON bombs, and pages that take their readers
long; the other hands in documents of one line, one after the other, before, during and after. Prints how long each took
until it was indexed, and what became of the hostile ones. Ends with 1 where the other's p95 during it is over `--most`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx

from sluice.contracts.api import ENDED
from tests.support.instance import Instance

BOMB = "[" * 900 + "0," * 400_000 + "0" + "]" * 900
"""0.8 MB, which json.dumps lays out over 360 MB."""
SLOW = "# a\n" * 1_500_000
"""6 MB of headings."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.hostile.documents", description=__doc__)
    parser.add_argument("--url", help="a running instance; one is started by default")
    parser.add_argument("--rounds", type=int, default=20, help="one-line documents of each phase")
    parser.add_argument("--most", type=float, default=20.0, help="seconds of the p95 during the attack")
    asked = parser.parse_args(arguments)
    if asked.url:
        with httpx.Client(base_url=asked.url, timeout=180) as http:
            return _measure(http, asked.rounds, asked.most)
    with tempfile.TemporaryDirectory() as folder, Instance(Path(folder) / "instance") as instance:
        return _measure(instance.http, asked.rounds, asked.most)


def _measure(http: httpx.Client, rounds: int, most: float) -> int:
    phases = {"before": _one_liners(http, "before", rounds)}
    hostile = [
        _hands_in(http, "hostile", {"text": text, "media_type": media_type, "id": f"{number}-{media_type}"})
        for number in range(6)
        for text, media_type in ((BOMB, "application/json"), (SLOW, "text/markdown"))
    ]
    phases["during"] = _one_liners(http, "during", rounds)
    at_work = sum(_run(http, run_id)["status"] not in ENDED for run_id in hostile)
    became = Counter(_end_of(_ended(http, run_id)) for run_id in hostile[:1])
    for run_id in hostile:
        http.delete(f"/v1/runs/{run_id}")
    phases["after"] = _one_liners(http, "after", rounds)
    for phase, seconds in phases.items():
        print(f"{phase:7} p50 {_share(seconds, 0.5):6.2f} s   p95 {_share(seconds, 0.95):6.2f} s   of {len(seconds)}")
    print(f"hostile: {at_work} of {len(hostile)} still at work when the others were done; the first: {dict(became)}")
    return int(_share(phases["during"], 0.95) > most)


def _hands_in(http: httpx.Client, corpus: str, document: dict[str, str]) -> str:
    body = {"corpus": corpus, "create_corpus": True, "documents": [document]}
    return str(http.post("/v1/documents", json=body).raise_for_status().json()["run_id"])


def _one_liners(http: httpx.Client, phase: str, rounds: int) -> list[float]:
    took = []
    for number in range(rounds):
        started = time.perf_counter()
        run = _ended(
            http,
            _hands_in(http, "ordinary", {"text": f"The {phase} heron {number} stands.", "id": f"{phase}-{number}"}),
        )
        assert run["status"] == "finished", run
        assert not run.get("missing"), run
        took.append(time.perf_counter() - started)
    return took


def _run(http: httpx.Client, run_id: str) -> dict[str, object]:
    found: dict[str, object] = http.get(f"/v1/runs/{run_id}").raise_for_status().json()
    return found


def _ended(http: httpx.Client, run_id: str) -> dict[str, object]:
    while (run := _run(http, run_id))["status"] not in ENDED:
        time.sleep(0.02)
    return run


def _end_of(run: dict[str, object]) -> str:
    missing = run.get("missing")
    reasons = [str(gap["reason"]) for gap in missing] if isinstance(missing, list) else []
    return " ".join((str(run["status"]), *reasons))


def _share(seconds: list[float], share: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]


if __name__ == "__main__":
    sys.exit(main())
