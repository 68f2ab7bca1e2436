"""The life of a process as an agent's author writes it: `open_memory`, and a recording after each iteration."""

from __future__ import annotations

import json
import os
from pathlib import Path

from sluice.memory import open_memory
from tests.chaos.memory.failpoints import Fault, arm
from tests.chaos.memory.writer import Plan, journals_folder, told_file
from tests.support.memory.entries import record

PROJECT = "/home/me/shop"


def write(plan: Plan, folder: Path, writer: int, fault: Fault | None) -> None:
    """As `tests.chaos.memory.writer.write`, through the whole of memory."""
    path = told_file(folder, writer)
    done = path.read_bytes().count(b"\n") if path.exists() else 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    with open_memory(journals_folder(folder), PROJECT) as memory:
        if fault is not None:
            arm(fault)
        for item in plan.of_writer(writer)[done:]:
            data = json.loads(record(item.number, item.feature, source_id=None).model_dump_json())
            memory.record(item.feature, data, format="record")
            os.write(descriptor, f"{item.number}\n".encode())
