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

Folders below the root whose names begin with a dot are not corpora.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.base import CORPUS_NAME
from sluice.contracts.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class CorpusLayout:
    """The paths of one corpus. Raises `InvalidInput` for a name that could leave its folder."""

    root: Path
    corpus: str

    def __post_init__(self) -> None:
        if not CORPUS_NAME.fullmatch(self.corpus):
            raise InvalidInput("corpus", f"{self.corpus!r} is not a corpus name", f"match {CORPUS_NAME.pattern}")

    @property
    def folder(self) -> Path:
        """The corpus's folder."""
        return self.root / self.corpus

    @property
    def journal(self) -> Path:
        """The folder of journal segments."""
        return self.folder / "journal"

    @property
    def generations(self) -> Path:
        """The folder of generations."""
        return self.folder / "generations"

    @property
    def current(self) -> Path:
        """The pointer to the current generation."""
        return self.folder / "CURRENT"

    @property
    def held(self) -> Path:
        """The file that names the generation of a rollback and the journal offset up to which it leaves records out."""
        return self.folder / "HELD"

    @property
    def working(self) -> Path:
        """The writer's working set."""
        return self.folder / "working"

    @property
    def lock(self) -> Path:
        """The file whose lock makes the one writer."""
        return self.folder / "writer.lock"

    @property
    def epoch(self) -> Path:
        """The file with the last writer's epoch."""
        return self.folder / "epoch"

    @property
    def handover(self) -> Path:
        """The file whose lock asks the writer to close."""
        return self.folder / "handover"

    @property
    def beside(self) -> Path:
        """The folder of the build alias."""
        return self.root / f".reindex-{self.corpus}"


def list_corpora(root: Path) -> tuple[str, ...]:
    """The names of the corpora below `root`, sorted: every folder that has a journal and is not hidden."""
    if not root.is_dir():
        return ()
    found = (path for path in root.iterdir() if not path.name.startswith("."))
    return tuple(sorted(path.name for path in found if (path / "journal").is_dir()))
