"""Texts that command an agent, and harmless ones that look alike, for the whole loop: record, learn, distil, print.

`tests/golden/memory/poison.jsonl` has a line for each: `attack`, its `kind`, `where` it stands, the `text` (a list where it
is split over title, summary and errors), and of an attack the `payload`, which must not be printed. `split` says how the
rules came to know it: `written_first` with them, `first_look` to `fourth_look` after them: measured before any change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluice.contracts.memory.model import ErrorEntry, FileAction, FileTouched
from sluice.memory.ports import Sanitise
from tests.support.memory.feature import Feature
from tests.support.repository import GOLDEN

CORPUS = GOLDEN / "memory/poison.jsonl"


@dataclass(frozen=True)
class Case:
    """A line of the corpus."""

    id: str
    attack: bool
    kind: str
    split: str
    where: str
    text: str | list[str]
    payload: str = ""


def read_cases() -> Sequence[Case]:
    """All of them."""
    lines = CORPUS.read_text(encoding="utf-8").splitlines()
    return [Case(**json.loads(line)) for line in lines]


def told_after(case: Case, sanitise: Sanitise) -> tuple[str, str, dict[str, int]]:
    """The journal once `case` came in, the prompt's block, and what was cut or refused of it, by rule."""
    feature = Feature(sanitise)
    cut: dict[str, int] = {}
    if case.where == "learning":
        assert isinstance(case.text, str)
        result = feature.learn(case.text, iteration=1)
        cut = {"refused": 1} if result.verdict == "refused" else {}
    else:
        for number in (1, 2):
            fields: dict[str, Any] = _fields(case)
            entry_id = feature.record(number, sanitise=sanitise, **fields)
            cut |= feature.state.iterations[entry_id].record.cut
        feature.distil()
    block, _ = feature.prompt(sanitise)
    kept = [entry.to_json_line() for entry in feature.entries]
    plain = "\n".join(json.dumps(json.loads(line), ensure_ascii=False) for line in kept)
    return plain, block.text, cut


def _fields(case: Case) -> dict[str, Any]:
    if isinstance(case.text, list):
        title, summary, *errors = case.text
        return {"task_title": title, "summary": summary, "errors": tuple(ErrorEntry(message=one) for one in errors)}
    if case.where == "error":
        return {"errors": (ErrorEntry(message=case.text, tool="pytest"),)}
    if case.where == "file":
        return {
            "files_touched": (FileTouched(path=case.text, action=FileAction.MODIFIED),),
            "summary": "Changed a file",
        }
    return {"summary": case.text}
