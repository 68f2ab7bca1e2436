"""Paths of a corpus's files below a root folder.

<root>/<corpus>/
    journal/00000000000000000001.log     the truth: append-only segments, named by first offset
    generations/g00000001-<hash>/        complete, immutable, verifiable views
    CURRENT -> generations/g0000000…     the pointer that queries follow
    HELD                                 the generation of a rollback, and the offset that it leaves out
    working/                             the writer's working set; disposable
    writer.lock  epoch                   one writer, and the fencing token that makes an older one fail
    handover                             locked by a process that needs the writer to close (`index.disk.locks`)
<root>/.reindex-<corpus>/<corpus>/       the corpus being reindexed with another model (`index.local.reindex`)
<root>/.fallback/<corpus>/               its second index, with vectors of the local model (`embed.fallback`)

Folders below the root whose names begin with a dot are not corpora.
"""

from __future__ import annotations

from pathlib import Path

from sluice.contracts.base import CORPUS_NAME
from sluice.contracts.errors import InvalidInput


class CorpusLayout:
    """The paths of one corpus, as drawn above. Raises `InvalidInput` for a name that could leave its folder."""

    def __init__(self, root: Path, corpus: str) -> None:
        if not CORPUS_NAME.fullmatch(corpus):
            raise InvalidInput("corpus", f"{corpus!r} is not a corpus name", f"match {CORPUS_NAME.pattern}")
        self.root = root
        self.corpus = corpus
        self.folder = root / corpus
        self.journal = self.folder / "journal"
        self.generations = self.folder / "generations"
        self.current = self.folder / "CURRENT"
        self.held = self.folder / "HELD"
        self.working = self.folder / "working"
        self.lock = self.folder / "writer.lock"
        self.epoch = self.folder / "epoch"
        self.handover = self.folder / "handover"
        self.beside = root / f".reindex-{corpus}"


def list_corpora(root: Path) -> tuple[str, ...]:
    """Return the names of the corpora below `root`, sorted: every folder that has a journal and is not hidden."""
    if not root.is_dir():
        return ()
    found = (path for path in root.iterdir() if not path.name.startswith("."))
    return tuple(sorted(path.name for path in found if (path / "journal").is_dir()))
