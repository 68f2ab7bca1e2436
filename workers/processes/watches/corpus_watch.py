"""Watches that the content of a corpus changes only as its journal grows.

What a corpus holds has a hash, which each generation's manifest names (`index.generations.manifest.IdSet`: of every
document and its chunks, whose ids follow from their content). Runs write to the journal first. So another hash without
a longer journal is no run's work: files were replaced, a pointer was moved, an old backup was laid over. A rollback is
known by its own mark. What was seen last is kept in the data directory, so that a restart hides nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from sluice.contracts.errors import Corrupted, NotFound
from sluice.disk.durable import replace_file
from sluice.index.disk.layout import CorpusLayout, list_corpora
from sluice.index.generations.manifest import load_manifest
from sluice.index.generations.publish import read_current_name, read_rollback_offset
from sluice.otel import metrics

log = structlog.get_logger(__name__)

LOOK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A generation that was current, and what it holds."""

    generation: str
    journal_offset: int
    id_set_hash: str


class CorpusWatch:
    """Looks at the current generation of each corpus; where the pointer has not moved that is one system call."""

    def __init__(self, index_root: Path, data_dir: Path) -> None:
        self._index_root = index_root
        self._data_dir = data_dir
        self._seen: dict[str, Seen] = {}

    def look(self) -> tuple[str, ...]:
        """The corpora that changed since the last look although nothing was written; each is logged and counted."""
        return tuple(corpus for corpus in list_corpora(self._index_root) if self._is_changed(corpus))

    def _is_changed(self, corpus: str) -> bool:
        layout = CorpusLayout(self._index_root, corpus)
        name, before = read_current_name(layout), self._seen.get(corpus) or self._kept(corpus)
        if name is None or (before is not None and name == before.generation):
            return False
        try:
            manifest = load_manifest(layout.generations / name)
        except NotFound:  # collected meanwhile: the pointer has moved on
            return False
        except Corrupted as error:
            log.error("corpus_damaged", corpus=corpus, generation=name, error=str(error))
            return False  # who serves it falls back, counts that and mends it
        now = Seen(name, manifest.journal_offset, manifest.id_set_hash)
        self._keep(corpus, now)
        if before is None or _is_explained(before, now, layout):
            return False
        metrics.CORPUS_CHANGES_UNEXPLAINED.labels(corpus).inc()
        log.error("corpus_changed_without_a_run", corpus=corpus, before=asdict(before), now=asdict(now))
        return True

    def _kept(self, corpus: str) -> Seen | None:
        try:
            return Seen(**json.loads(self._path(corpus).read_text()))
        except (OSError, ValueError, TypeError):  # never looked at, or written by another version
            return None

    def _keep(self, corpus: str, seen: Seen) -> None:
        self._seen[corpus] = seen
        path = self._path(corpus)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, json.dumps(asdict(seen)).encode())

    def _path(self, corpus: str) -> Path:
        return self._data_dir / "freshness" / corpus / "corpus_seen.json"


def _is_explained(before: Seen, now: Seen, layout: CorpusLayout) -> bool:
    """Whether the same is held, the journal has grown, or an operator went back on purpose."""
    is_same, has_grown = now.id_set_hash == before.id_set_hash, now.journal_offset > before.journal_offset
    return is_same or has_grown or read_rollback_offset(layout) is not None
