"""A git repository on this machine, and reading it into an instance."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from sluice.contracts.event import Queue
from sluice.workers.service.sources import open_repository, read_repository
from tests.support.in_process import Instance

_STAGES: tuple[Queue, ...] = ("chunk", "embed", "index", "index")


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True
    ).stdout


def write(folder: Path, files: dict[str, str], message: str = "change") -> str:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD").strip()


def ingests(
    instance: Instance, source: Path | str, corpus: str = "docs", ref: str | None = None
) -> tuple[list[str], list[str]]:
    """The paths that were read, and the documents that went."""
    with open_repository(instance.context, str(source), ref) as opened:
        reading = read_repository(instance.context, corpus, opened, now=datetime.now(UTC), on_skip=lambda *_: None)
        documents = list(reading.documents)
    if documents or reading.removed:
        instance.service.ingest(corpus, documents, reading.removed)
        instance.works(*_STAGES)
    return [document.file_path or "" for document in documents], reading.removed
