"""How well recorded outputs are read: precision and recall of type, file and line, a tool at a time.

Every other program of a tool was looked at when the readers were written (`written on`); the others are for checking.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.memory.extraction.errors import find_errors, last_lines

Found = tuple[str, str | None, int | None]
PARTS = ("type", "file", "line")


@dataclass(slots=True)
class Score:
    """Of each part: how many were right, found and expected."""

    right: Counter[str] = field(default_factory=Counter)
    found: int = 0
    expected: int = 0

    def add(self, found: Sequence[Found], expected: Sequence[Found]) -> bool:
        """Counts one output; gives whether all of it is right."""
        self.found += len(found)
        self.expected += len(expected)
        for part, key in (("type", lambda one: one[0]), ("file", lambda one: one[1]), ("line", lambda one: one[1:])):
            self.right[part] += (Counter(map(key, found)) & Counter(map(key, expected))).total()
        return Counter(found) == Counter(expected)

    def precision(self, part: str) -> float:
        """Share of what was found that is right; 1 where nothing was found."""
        return self.right[part] / self.found if self.found else 1.0

    def recall(self, part: str) -> float:
        """Share of what was expected that was found; 1 where nothing was expected."""
        return self.right[part] / self.expected if self.expected else 1.0

    def __str__(self) -> str:
        return "  ".join(f"{part} {self.precision(part):.3f}/{self.recall(part):.3f}" for part in PARTS)


def read_outputs(folder: Path) -> list[dict[str, Any]]:
    """The recorded outputs, each with `held_out`: whether its program is one of those for checking."""
    outputs = []
    for path in sorted(folder.glob("*.jsonl")):
        records = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
        order = list(dict.fromkeys(record["program"] for record in records))
        outputs += [{**record, "held_out": order.index(record["program"]) % 2 == 1} for record in records]
    return outputs


def errors_of(record: dict[str, Any]) -> list[Found]:
    """What is found in a recorded output."""
    told = find_errors(record["output"], command=record["command"], exit_code=record["exit_code"], root=record["root"])
    return [(one.error_type.value, one.file_path, one.line) for one in told]


def score(outputs: Iterable[dict[str, Any]]) -> Score:
    """Of these outputs together."""
    total = Score()
    for record in outputs:
        total.add(errors_of(record), [tuple(one) for one in record["expected"]])
    return total


def is_kept(record: dict[str, Any], one: Found) -> bool:
    """Whether an expected error is in what memory keeps: found as it is, or its file and line in the last lines."""
    if one in errors_of(record):
        return True
    _, path, line = one
    text = last_lines(record["output"])
    return (path is None or path.rpartition("/")[2] in text) and (
        line is None or re.search(rf"(?<!\d){line}(?!\d)", text) is not None
    )


def main() -> None:
    outputs = read_outputs(Path("tests/golden/memory/errors"))
    wanted = sys.argv[1:]
    shown_half = "--held-out" in wanted
    names = [one for one in wanted if not one.startswith("-")]
    tools = sorted({record["tool"] for record in outputs if not names or record["tool"] in names})
    print("precision/recall")
    for half, held_out in (("written on", False), ("held out", True)):
        for tool in [*tools, "all"]:
            chosen = [
                one
                for one in outputs
                if one["held_out"] is held_out and one["tool"] in (tools if tool == "all" else [tool])
            ]
            if chosen:
                print(f"{half:10}  {tool:10} {len(chosen):3} outputs  {score(chosen)}")
    told = [(record, tuple(one)) for record in outputs if record["tool"] in tools for one in record["expected"]]
    kept = sum(is_kept(record, one) for record, one in told)
    print(f"kept, as found or in the last lines: {kept} of {len(told)} errors")
    if "--misses" in wanted:
        for record in outputs:
            expected = [tuple(one) for one in record["expected"]]
            if (
                record["held_out"] is shown_half
                and record["tool"] in tools
                and Counter(errors_of(record)) != Counter(expected)
            ):
                print(f"\n##### {record['tool']}: {record['program']}: {record['ran']} (exit {record['exit_code']})")
                print(f"found    {errors_of(record)}\nexpected {expected}\n{record['output'][:3000]}")


if __name__ == "__main__":
    main()
