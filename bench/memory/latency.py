"""How long an embedded memory takes: opening, recording, the prompt, recall; medians over journals of 10,000 records.

    python -m bench.memory.latency [FOLDER] [--records 10000] [--features 1] [--rounds 200]

The records are made of words that coding agents use, with errors and files. The first run embeds every one of them with
the local model (some 25 a second on one core) in FOLDER, which later runs take as it is; without FOLDER it is a
temporary one. Every recall asks another question, so none is answered from what is remembered of an earlier one.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sluice.contracts.document import sha256_text
from sluice.contracts.memory.model import IterationRecord
from sluice.memory import Memory, open_memory
from sluice.memory.journal.entry import JournalEntry
from sluice.memory.journal.file import Journal

SEED = 18
START = datetime(2026, 1, 1, tzinfo=UTC)
ENTRIES_AT_ONCE = 500
WARM_ROUNDS = 5


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VERBS = _words("parse render cache retry encode mount import resolve migrate lock fetch index merge validate sign")
NOUNS = _words(
    "token header session cookie middleware route schema column fixture handler queue worker socket proxy config "
    "parser cursor buffer shard replica bucket manifest digest pointer commit branch wheel archive payload metric "
    "timeout deadline quota lease epoch journal segment vector query filter ledger outbox gateway tenant locale"
)
KINDS = {
    "Runtime": "TypeError: cannot {verb} {noun} of NoneType in {other}",
    "Compile": "error[E0308]: mismatched types: expected {noun}, found {other}",
    "Test": "AssertionError: {noun} was not {verb}d before {other}",
    "Lint": "F401 {noun}.{other} imported but unused",
}


def made_records(count: int, feature: str, seed: int) -> Iterator[IterationRecord]:
    """Iterations of a made-up agent: the same for the same seed."""
    chosen = random.Random(seed)

    def words(number: int) -> str:
        said = (f"{chosen.choice(VERBS)} the {chosen.choice(NOUNS)} {chosen.choice(NOUNS)}" for _ in range(number))
        return "; then ".join(said)

    for number in range(1, count + 1):
        kind = chosen.choice(list(KINDS))
        verb, noun, other = chosen.choice(VERBS), chosen.choice(NOUNS), chosen.choice(NOUNS)
        path = f"src/{noun}/{other}.py"
        failed = chosen.random() < 0.6
        message = KINDS[kind].format(verb=verb, noun=noun, other=other)
        yield IterationRecord.model_validate(
            {
                "iteration_number": number,
                "task_id": number // 12,
                "task_title": f"{verb} {noun} {other}",
                "feature": feature,
                "discipline": chosen.choice(["backend", "frontend", "devops"]),
                "timestamp": START + timedelta(minutes=number),
                "outcome": "Failure" if failed else "Success",
                "summary": f"Tried to {words(6)}.",
                "errors": [{"message": message, "error_type": kind, "file_path": path, "line": number % 300 + 1}]
                * failed,
                "files_touched": [{"path": path, "action": "Modified"}],
                "source_id": sha256_text(f"{feature} {number}"),
            }
        )


def usual_stream(number: int, calls: int = 30) -> str:
    """What Claude Code prints in an iteration of 30 tool calls, a third of them test runs: some 60 KB."""
    chosen = random.Random(number)
    lines = [
        {
            "type": "system",
            "subtype": "init",
            "cwd": "/repo",
            "session_id": f"s{number}",
            "model": "claude",
            "tools": [],
        }
    ]
    for call in range(calls):
        use = {"type": "tool_use", "id": f"t{call}", "name": "Bash", "input": {"command": "pytest -q"}}
        path = f"/repo/src/{chosen.choice(NOUNS)}.py"
        if call % 3:
            use = {"type": "tool_use", "id": f"t{call}", "name": "Edit"} | {
                "input": {"file_path": path, "old_string": "a = 1\n" * 20, "new_string": f"a = {call}\n" * 20}
            }
        test, noun = chosen.choice(VERBS), chosen.choice(NOUNS)
        printed = (
            "tests/test_a.py ....F..\n" * 30
            + f"FAILED tests/test_a.py::test_{test} - AssertionError: {noun}\n1 failed in 0.41s"
        )
        result = {"type": "tool_result", "tool_use_id": f"t{call}", "content": printed if not call % 3 else "ok"}
        said = {"type": "text", "text": f"I decided to {test} the {noun} because {chosen.choice(NOUNS)} is stale."}
        usage = {"input_tokens": 100, "output_tokens": 50}
        lines += [
            {
                "type": "assistant",
                "message": {"id": f"m{call}", "role": "assistant", "content": [said, use], "usage": usage},
            },
            {"type": "user", "message": {"role": "user", "content": [result]}},
        ]
    lines.append(
        {"type": "result", "subtype": "success", "is_error": False, "result": f"Changed {number}.", "num_turns": calls}
        | {"session_id": f"s{number}", "duration_ms": 60_000, "usage": {"input_tokens": 9_000, "output_tokens": 900}}
    )
    return "\n".join(map(json.dumps, lines))


def fill(folder: Path, records: int, features: int) -> None:
    """Write the journals that are not there yet, each with its share of the records."""
    each = records // features
    for number in range(features):
        journal = Journal(folder, f"feature-{number:02d}")
        if len(journal.read().iterations) >= each:
            continue
        made = [JournalEntry.new(one) for one in made_records(each, journal.feature, SEED + number)]
        for start in range(0, len(made), ENTRIES_AT_ONCE):
            journal.append(made[start : start + ENTRIES_AT_ONCE])


def measure(folder: Path, features: int, rounds: int) -> dict[str, float]:
    """Milliseconds by what was done: medians, and the 95th percentile of recall; opening and filling by themselves."""
    chosen = random.Random(SEED)
    figures: dict[str, float] = {}
    names = [f"feature-{number:02d}" for number in range(features)]

    def question() -> str:
        verb, noun, other = chosen.choice(VERBS), chosen.choice(NOUNS), chosen.choice(NOUNS)
        return f"why does {verb} fail for the {noun} of {other} {chosen.random()}"

    figures["open_memory"], memory = _timed(lambda: open_memory(folder, project_path="/repo"))
    with memory:
        figures["first prompt: journal read"] = _timed(lambda: memory.prompt(names[0]))[0]
        figures["look through all iterations"] = sum(
            _timed(lambda name=name: memory.catch_up(name))[0] for name in names
        )
        figures["fill the index"] = _timed(memory.rebuild)[0]
    with open_memory(folder, project_path="/repo") as memory:
        figures["first recall: model and index opened"] = _timed(lambda: memory.recall(names[0], question()))[0]
        for name in names:
            memory.prompt(name)
            memory.recall(name, question())
        recalls = [_timed(lambda: memory.recall(chosen.choice(names), question()))[0] for _ in range(rounds)]
        figures["recall p50"] = statistics.median(recalls)
        figures["recall p95"] = statistics.quantiles(recalls, n=20)[18]
        prompts = [_timed(lambda: memory.prompt(chosen.choice(names), query=question()))[0] for _ in range(rounds // 4)]
        figures["prompt p50"] = statistics.median(prompts)
        figures |= _measure_recording(memory, rounds // 4)
    return figures


def _measure_recording(memory: Memory, rounds: int) -> dict[str, float]:
    """Recording into a new feature of a usual stream; and then asking at once, which embeds what is new."""
    took: dict[str, list[float]] = {"record p50": [], "prompt after a record p50": [], "recall after a record p50": []}
    base = time.time_ns()
    for number in range(rounds + WARM_ROUNDS):
        stream = usual_stream(base + number)
        steps: tuple[Callable[[], object], ...] = (
            lambda stream=stream: memory.record("recording", stream),
            lambda: memory.prompt("recording"),
            lambda number=number: memory.recall("recording", f"what failed {number}"),
        )
        times = [_timed(step)[0] for step in steps]
        if number >= WARM_ROUNDS:
            for figures, milliseconds in zip(took.values(), times, strict=True):
                figures.append(milliseconds)
    return {name: statistics.median(times) for name, times in took.items()}


def _timed(do: Callable[[], object]) -> tuple[float, object]:
    started = time.perf_counter()
    done = do()
    return 1e3 * (time.perf_counter() - started), done


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        fill(folder, options.records, options.features)
        for name, milliseconds in measure(folder, options.features, options.rounds).items():
            print(f"{name:45} {milliseconds:10.1f} ms")


if __name__ == "__main__":
    main()
